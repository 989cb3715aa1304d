vs_unit_test(arena LIBS vs_arena)
vs_unit_test(arena_model LIBS vs_arena)
vs_unit_test(arena_exhaustive LIBS vs_arena)
vs_unit_test(arena_faults LIBS vs_arena)
vs_unit_test(arena_threads LIBS vs_arena)

vs_unit_test(arena_cuda SOURCES shim/arena/backing_cuda.c LIBS vs_arena simcuda)
target_include_directories(test_arena_cuda SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_options(test_arena_cuda PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/sim -Wl,--disable-new-dtags)
