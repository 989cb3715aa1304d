set(RANGE_SOURCES shim/framework/ranges.c shim/framework/pending.c shim/framework/names.c shim/framework/glob.c)
vs_unit_test(ranges SOURCES ${RANGE_SOURCES} shim/log.c shim/options.c)
