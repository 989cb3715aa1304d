vs_unit_test(ranges LIBS room_framework)

add_executable(bench_ranges ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_ranges.c)
target_include_directories(bench_ranges PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(bench_ranges PRIVATE VRAMSCOPE_BUILDING_LIBRARY)
target_compile_options(bench_ranges PRIVATE -ftls-model=initial-exec)
target_link_libraries(bench_ranges PRIVATE room_framework room_sample room_record vs_trace m dl pthread)
set_target_properties(bench_ranges PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
