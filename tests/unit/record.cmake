vs_unit_test(options SOURCES shim/options.c shim/log.c)
vs_unit_test(places SOURCES shim/output.c shim/options.c shim/log.c)
vs_unit_test(record SOURCES shim/record.c shim/event_clock.c shim/start.c shim/output.c shim/drain.c shim/sampler.c shim/options.c shim/log.c)
vs_unit_test(event_clock SOURCES shim/event_clock.c)
