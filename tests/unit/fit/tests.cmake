vs_analyzer_test(fit_search LIBS room_fit)
vs_analyzer_test(fit_model LIBS room_fit)
vs_one_thread(fit_search fit_model)
