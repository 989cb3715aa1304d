vs_analyzer_test(formulas LIBS room_estimate)
vs_analyzer_test(model LIBS room_estimate)
vs_analyzer_test(estimate LIBS room_estimate)
vs_one_thread(formulas model estimate)
