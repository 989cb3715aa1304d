vs_unit_test(journal SOURCES shim/trace/journal.c shim/trace/journal_ring.c shim/trace/journal_dropped.c shim/trace/journal_tables.c)
target_compile_definitions(test_journal PRIVATE VS_JOURNAL_TESTING)
