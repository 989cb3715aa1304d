vs_analyzer_test(unpickle LIBS room_import)
