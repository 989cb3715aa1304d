# programs on the stand-ins for CUDA's runtime, on the simulated driver
foreach(topic runtime runtime_code runtime_work runtime12)
  vs_unit_test(${topic} LIBS simcuda)
  target_include_directories(test_${topic} SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
  target_link_options(test_${topic} PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/sim -Wl,-rpath,${CMAKE_BINARY_DIR}/dry
                      -Wl,--disable-new-dtags)
  target_link_libraries(test_${topic} PRIVATE dry_libcudart_so_$<IF:$<STREQUAL:${topic},runtime12>,12,13>)
endforeach()

vs_unit_test(nccl LIBS simcuda)
target_include_directories(test_nccl SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_options(test_nccl PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/sim -Wl,-rpath,${CMAKE_BINARY_DIR}/dry -Wl,--disable-new-dtags)
target_link_libraries(test_nccl PRIVATE dry_libnccl_so_2)
vs_unit_test(dnn LIBS dry_libcudnn_so_9)
target_compile_definitions(test_dnn PRIVATE DNN_MEASURED="${CMAKE_SOURCE_DIR}/tests/data/dnn_measured.txt")
target_link_options(test_dnn PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/dry -Wl,--disable-new-dtags)
