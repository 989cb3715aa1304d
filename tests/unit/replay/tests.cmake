vs_analyzer_test(torch LIBS room_replay)
vs_analyzer_test(addresses LIBS room_replay)
vs_analyzer_test(ordered LIBS room_replay)
vs_analyzer_test(pack LIBS room_replay)
