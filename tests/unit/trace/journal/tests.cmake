vs_unit_test(journal SOURCES shim/trace/journal/journal.c shim/trace/journal/ring.c
  shim/trace/journal/dropped.c shim/trace/journal/tables.c) # with what they tell tests alone
target_compile_definitions(test_journal PRIVATE VS_JOURNAL_TESTING)
vs_unit_test(now)
