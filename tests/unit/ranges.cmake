set(RANGE_SOURCES shim/framework/ranges.c shim/framework/pending.c shim/framework/names.c shim/framework/glob.c)
vs_unit_test(ranges SOURCES ${RANGE_SOURCES} shim/log.c shim/options.c)

list(TRANSFORM RANGE_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE RANGE_FILES)
list(TRANSFORM RECORDING_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/shim/ OUTPUT_VARIABLE RECORD_FILES)
add_executable(bench_ranges ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_ranges.c ${RANGE_FILES}
  ${CMAKE_SOURCE_DIR}/shim/framework/markers.c ${RECORD_FILES})
target_include_directories(bench_ranges PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CMAKE_SOURCE_DIR}/shim/trace ${CMAKE_SOURCE_DIR}/tests/unit)
target_compile_definitions(bench_ranges PRIVATE VRAMSCOPE_BUILDING_LIBRARY)
target_compile_options(bench_ranges PRIVATE -ftls-model=initial-exec)
target_link_libraries(bench_ranges PRIVATE vs_trace m dl pthread)
set_target_properties(bench_ranges PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
