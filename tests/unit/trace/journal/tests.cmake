vs_unit_test(ring)
vs_unit_test(dropped)
vs_unit_test(dead_slots SOURCES shim/trace/journal/journal.c shim/trace/journal/ring.c
  shim/trace/journal/dropped.c shim/trace/journal/tables.c) # with what they tell tests alone
target_compile_definitions(test_dead_slots PRIVATE VS_JOURNAL_TESTING)
vs_unit_test(journal_tables)
vs_unit_test(journal)
vs_unit_test(now)
vs_unit_test(requests)
vs_one_thread(journal)
