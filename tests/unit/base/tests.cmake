vs_analyzer_test(output LIBS room_base)
