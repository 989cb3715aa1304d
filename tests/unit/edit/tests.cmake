vs_analyzer_test(edits LIBS room_edit)
