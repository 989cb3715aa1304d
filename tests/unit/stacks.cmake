# Call stacks.  The test needs the private unwinder where it looks for it (../lib/vramscope) and a few libraries to load.
set(STACK_SOURCES shim/own_stack.c shim/stacks/native.c shim/stacks/unwinder.c shim/stacks/unwind_imports.c shim/stacks/block.c
    shim/stacks/modules.c shim/stacks/elfimage.c shim/options.c shim/log.c)
vs_unit_test(stacks SOURCES ${STACK_SOURCES})
vs_unit_test(stacks_host SOURCES ${STACK_SOURCES})
foreach(library first second odd_frame constructor)
  add_library(stacktest_${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/unit/stacks/${library}.c)
  set_target_properties(stacktest_${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests PREFIX "lib")
  target_link_options(stacktest_${library} PRIVATE -Wl,--build-id)
  add_dependencies(test_stacks stacktest_${library})
endforeach()
add_dependencies(test_stacks private_unwind)
add_dependencies(test_stacks_host private_unwind)
target_link_options(test_stacks PRIVATE -rdynamic)
set_tests_properties(unit_stacks unit_stacks_host PROPERTIES TIMEOUT 60)

# ns per capture; run by hand or by tests/bench
add_executable(bench_stacks ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_stacks.c)
list(TRANSFORM STACK_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE STACK_PATHS)
target_sources(bench_stacks PRIVATE ${STACK_PATHS})
target_include_directories(bench_stacks PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CMAKE_SOURCE_DIR}/shim/trace)
target_link_libraries(bench_stacks PRIVATE vs_trace dl pthread)
set_target_properties(bench_stacks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(bench_stacks private_unwind)
