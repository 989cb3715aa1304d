vs_unit_test(ranges SOURCES shim/framework/ranges.c shim/framework/pending.c shim/framework/names.c shim/framework/glob.c)
