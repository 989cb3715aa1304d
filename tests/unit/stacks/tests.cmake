# Call stacks.  The test needs the private unwinder where it looks for it (../lib/vramscope) and a few libraries to load.
vs_unit_test(stacks LIBS room_stacks)
vs_unit_test(stacks_host LIBS room_stacks)
vs_unit_test(python LIBS room_stacks)
vs_unit_test(expected LIBS room_stacks)
# interpreters that are none, each with one thing wrong, in the order of fake_python.c; behind a name: the version, t where it
# is free-threaded
set(spoils good pre_release newer older half_free no_cookie other_hex moved debug_build no_symbol no_type no_string no_table
    outside nowhere endless second no_numbers same_numbers alone other_strings copies_nowhere no_copy other_copy)
foreach(fake ${spoils} good-14 good-13t good-14t moved-13t moved-14t no_string-14t no_table-13t outside-13t nowhere-14t
        other_strings-14t copies_nowhere-14t no_copy-14t other_copy-14t)
  string(REGEX MATCH "^[a-z_]+" spoil ${fake})
  list(FIND spoils ${spoil} number)
  string(REGEX MATCH "[0-9]+" minor "${fake}-13")
  string(REGEX MATCH "[0-9]t$" free ${fake})
  add_library(fake_python_${fake} MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_python.c)
  target_compile_definitions(fake_python_${fake} PRIVATE SPOIL=${number} MINOR=${minor} FREE=$<BOOL:${free}>)
  set_target_properties(fake_python_${fake} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/${fake}
    PREFIX "" OUTPUT_NAME libpython3.13 SUFFIX ".so.1.0" C_VISIBILITY_PRESET hidden)
  add_dependencies(test_python fake_python_${fake})
endforeach()
foreach(library first second odd_frame constructor)
  add_library(stacktest_${library} MODULE ${CMAKE_CURRENT_LIST_DIR}/libraries.c)
  set_target_properties(stacktest_${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests PREFIX "lib")
  target_link_options(stacktest_${library} PRIVATE -Wl,--build-id)
  add_dependencies(test_stacks stacktest_${library})
endforeach()
target_compile_definitions(stacktest_first PRIVATE FRAME="0x18")
target_compile_definitions(stacktest_second PRIVATE FRAME="0x1008")
target_compile_definitions(stacktest_odd_frame PRIVATE ODD_FRAME)
add_dependencies(test_stacks private_unwind)
add_dependencies(test_stacks_host private_unwind)
target_link_options(test_stacks PRIVATE -rdynamic)
set_tests_properties(unit_stacks unit_stacks_host PROPERTIES TIMEOUT 60)

# ns per capture; run by hand or by tests/bench
add_executable(bench_stacks ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_stacks.c)
target_link_libraries(bench_stacks PRIVATE room_stacks vs_trace dl pthread)
set_target_properties(bench_stacks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(bench_stacks private_unwind)
vs_one_thread(python expected)
vs_bench_only(bench_stacks)
