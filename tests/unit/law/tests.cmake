vs_analyzer_test(law_fit LIBS room_law)
vs_analyzer_test(law_align LIBS room_law)
vs_one_thread(law_fit law_align)
