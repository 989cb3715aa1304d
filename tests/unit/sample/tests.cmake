vs_unit_test(ask LIBS room_sample)
