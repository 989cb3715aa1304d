# The fused linear cross-entropy: its CPU back end, and what is checked before any back end.
foreach(name linear_cross_entropy linear_cross_entropy_corners)
  vs_unit_test(${name} SOURCES LIBS linear_cross_entropy)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/kernels ${CMAKE_SOURCE_DIR}/kernels/cpu)
  set_target_properties(test_${name} PROPERTIES SKIP_BUILD_RPATH OFF)
endforeach()
vs_unit_test(linear_cross_entropy_chunk SOURCES kernels/cuda/chunk.c LIBS m)
target_include_directories(test_linear_cross_entropy_chunk PRIVATE ${CMAKE_SOURCE_DIR}/kernels/cuda)
target_compile_definitions(test_linear_cross_entropy_chunk PRIVATE LCE_SWEEP="${CMAKE_SOURCE_DIR}/tests/data/cross_entropy_sweep.tsv")
vs_unit_test(linear_cross_entropy_whose SOURCES kernels/cuda/whose.c kernels/cuda/chunk.c LIBS m)
target_include_directories(test_linear_cross_entropy_whose PRIVATE ${CMAKE_SOURCE_DIR}/kernels/cuda)
target_compile_definitions(test_linear_cross_entropy_whose PRIVATE LCE_SWEEP="${CMAKE_SOURCE_DIR}/tests/data/cross_entropy_whose.tsv"
  LCE_SWEEP_ODDS="${CMAKE_SOURCE_DIR}/tests/data/cross_entropy_odds.tsv"
  LCE_SWEEP_AGAIN="${CMAKE_SOURCE_DIR}/tests/data/cross_entropy_whose_again.tsv"
  LCE_SWEEP_H100="${CMAKE_SOURCE_DIR}/tests/data/cross_entropy_whose_h100.tsv")
vs_unit_test(linear_cross_entropy_slab SOURCES kernels/cuda/slab.c kernels/cuda/chunk.c LIBS m)
target_include_directories(test_linear_cross_entropy_slab PRIVATE ${CMAKE_SOURCE_DIR}/kernels/cuda)
if(NVCC AND EXISTS ${CUDA_INCLUDE_DIR}/cublasLt.h) # the host side of the CUDA back end, on stand-ins
  set(images ${CMAKE_BINARY_DIR}/kernels)
  set(images_of_kernels "LCE_IMAGES=\"${images}/softmax.fatbin\", \"${images}/tokens.fatbin\", \"${images}/naive.fatbin\", \"${images}/slab.fatbin\", \"${images}/tail.fatbin\", \"${images}/product.fatbin\", \"${images}/exponents.fatbin\", \"${images}/odds.fatbin\"")
  foreach(name linear_cross_entropy_cuda linear_cross_entropy_cuda_choice linear_cross_entropy_cuda_lean
      linear_cross_entropy_cuda_exchange)
    vs_unit_test(${name} SOURCES LIBS linear_cross_entropy_static m dl)
    target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/kernels)
    target_include_directories(test_${name} SYSTEM BEFORE PRIVATE ${CUDA_INCLUDE_DIR})
    target_compile_definitions(test_${name} PRIVATE ${images_of_kernels})
    vs_one_thread(${name})
  endforeach()
  target_link_options(test_linear_cross_entropy_cuda_lean PRIVATE -Wl,--wrap=calloc) # it may refuse some
  if(NOT VRAMSCOPE_SANITIZE)
    add_executable(bench_plans ${CMAKE_CURRENT_LIST_DIR}/bench_plans.c)
    target_include_directories(bench_plans PRIVATE ${CMAKE_SOURCE_DIR}/kernels ${CMAKE_CURRENT_LIST_DIR})
    target_include_directories(bench_plans SYSTEM BEFORE PRIVATE ${CUDA_INCLUDE_DIR})
    target_compile_definitions(bench_plans PRIVATE ${images_of_kernels})
    target_link_libraries(bench_plans PRIVATE linear_cross_entropy_static cmocka m dl)
    set_target_properties(bench_plans PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
endif()
vs_one_thread(linear_cross_entropy_chunk linear_cross_entropy_whose linear_cross_entropy_slab linear_cross_entropy)
