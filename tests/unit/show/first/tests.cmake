vs_analyzer_test(reads_once LIBS room_show_first)
target_compile_definitions(test_reads_once PRIVATE SCHEMA="${CMAKE_SOURCE_DIR}/shim/trace/schema.sql")
