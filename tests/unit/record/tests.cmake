vs_unit_test(places LIBS room_record)
vs_unit_test(record LIBS room_sample room_record)
target_compile_definitions(test_record PRIVATE VRAMSCOPE_VERSION="${PROJECT_VERSION}")
vs_unit_test(record_block LIBS room_sample room_record)
