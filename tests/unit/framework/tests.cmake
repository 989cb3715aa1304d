vs_unit_test(ranges LIBS room_framework)
vs_unit_test(facts LIBS room_framework)

add_executable(bench_ranges ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_ranges.c)
target_include_directories(bench_ranges PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(bench_ranges PRIVATE VRAMSCOPE_BUILDING_LIBRARY)
target_compile_options(bench_ranges PRIVATE -ftls-model=initial-exec)
target_link_libraries(bench_ranges PRIVATE room_framework room_sample room_record vs_trace m dl pthread)
set_target_properties(bench_ranges PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# calls of modules, over a stand-in for the interpreter
vs_unit_test(calls LIBS room_framework)
# the numbers of autograd's nodes, over a stand-in for torch
vs_unit_test(autograd LIBS room_framework)
add_executable(bench_autograd ${CMAKE_CURRENT_LIST_DIR}/bench_autograd.c)
target_compile_options(bench_autograd PRIVATE -ftls-model=initial-exec)
target_include_directories(bench_autograd PRIVATE ${CMAKE_SOURCE_DIR}/shim)
target_link_libraries(bench_autograd PRIVATE room_framework dl pthread)
set_target_properties(bench_autograd PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_library(fake_torch MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_torch.c)
set_target_properties(fake_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes PREFIX "" OUTPUT_NAME libtorch_cpu)
add_dependencies(test_autograd fake_torch)
add_dependencies(bench_autograd fake_torch)
