vs_unit_test(symbols LIBS room_read)
target_include_directories(test_symbols PRIVATE ${CMAKE_SOURCE_DIR}/analyzer)
target_compile_definitions(test_symbols PRIVATE ${VS_SYMBOLS_DEFINITIONS} SCHEMA="${CMAKE_SOURCE_DIR}/shim/trace/schema.sql")
target_link_options(test_symbols PRIVATE -Wl,--build-id)
