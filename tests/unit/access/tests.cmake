vs_unit_test(living LIBS room_access)
vs_unit_test(use LIBS room_access)
vs_unit_test(foreach LIBS room_access)
vs_unit_test(journal_access)
