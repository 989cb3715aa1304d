vs_analyzer_test(edits LIBS room_edit)
vs_analyzer_test(edit_types LIBS room_edit)
vs_analyzer_test(edit_kernels LIBS room_edit)
vs_analyzer_test(unit_names LIBS room_edit)
