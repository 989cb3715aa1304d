vs_unit_test(options)
vs_unit_test(fork)
vs_unit_test(event_clock)
