vs_analyzer_test(label LIBS room_plot)
