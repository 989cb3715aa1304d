vs_analyzer_test(label LIBS room_plot)
vs_analyzer_test(colors LIBS room_plot m)
vs_one_thread(label colors)
