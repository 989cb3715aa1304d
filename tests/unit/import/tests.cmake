vs_analyzer_test(unpickle LIBS room_import)
vs_one_thread(unpickle)
