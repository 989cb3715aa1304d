vs_unit_test(options SOURCES shim/options.c shim/log.c)
vs_unit_test(output SOURCES shim/output.c shim/options.c shim/log.c)
