vs_unit_test(arena_model LIBS vs_arena)
