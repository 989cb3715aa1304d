vs_unit_test(query LIBS room_sample)
