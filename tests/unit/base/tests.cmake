vs_analyzer_test(output LIBS room_base)
vs_analyzer_test(cxx_name LIBS room_base)
vs_analyzer_test(page LIBS room_base)
vs_analyzer_test(shown LIBS room_base)
