# ranges, over a recorder that keeps its events in an array
vs_unit_test(ranges LIBS room_framework)
vs_unit_test(ranges_threads LIBS room_framework)
vs_unit_test(ranges_recording LIBS room_framework)
vs_unit_test(range_layers LIBS room_framework)
vs_unit_test(facts LIBS room_framework)
vs_unit_test(torch_events LIBS room_framework)

add_executable(bench_ranges ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_ranges.c)
target_include_directories(bench_ranges PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(bench_ranges PRIVATE VRAMSCOPE_BUILDING_LIBRARY)
target_compile_options(bench_ranges PRIVATE -ftls-model=initial-exec)
target_link_libraries(bench_ranges PRIVATE room_framework room_sample room_record vs_trace m dl pthread)
set_target_properties(bench_ranges PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# calls of modules, over a stand-in for the interpreter
vs_unit_test(calls LIBS room_framework)
# what is open of automatic phases, and where steps end
vs_unit_test(phases LIBS room_framework)
# the numbers of autograd's nodes, over a stand-in for torch
vs_unit_test(autograd LIBS room_framework)
# how nodes are held, over stand-ins of three kinds
vs_unit_test(torch_node LIBS room_framework)
foreach(kind SHARED INTRUSIVE OTHER)
  string(TOLOWER ${kind} folder)
  add_library(fake_torch_${folder} MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_torch.c)
  target_compile_definitions(fake_torch_${folder} PRIVATE FAKE_NODES=FAKE_${kind})
  set_target_properties(fake_torch_${folder} PROPERTIES PREFIX "" OUTPUT_NAME libtorch_cpu
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/${folder})
  foreach(user test_autograd test_torch_node)
    add_dependencies(${user} fake_torch_${folder})
  endforeach()
endforeach()
vs_one_thread(ranges facts torch_events torch_node)
vs_bench_only(bench_ranges)
