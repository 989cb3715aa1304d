# hooks/ over a fake driver and a double of the recording API: what the real library does with LD_PRELOAD.
set(HOOKS_DIR ${CMAKE_BINARY_DIR}/tests/hooks)

function(hooks_library name output)
  add_library(${name} SHARED ${ARGN})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR}/${output} PREFIX "" SUFFIX "" OUTPUT_NAME libcuda.so.1)
  target_include_directories(${name} PRIVATE ${CUDA_INCLUDE_DIR})
  target_link_options(${name} PRIVATE -Wl,-soname,libcuda.so.1)
endfunction()
hooks_library(hooks_driver new ${CMAKE_CURRENT_LIST_DIR}/fake_driver.c
  ${CMAKE_CURRENT_LIST_DIR}/fake_surface.c)
hooks_library(hooks_driver_old old ${CMAKE_CURRENT_LIST_DIR}/fake_driver.c)
target_compile_definitions(hooks_driver_old PRIVATE FAKE_OLD)

# the shim's own objects with the double in the recorder's place
foreach(library hooks_preload hooks_provided) # the second with a provider
  add_library(${library} SHARED $<TARGET_OBJECTS:room_hooks> $<TARGET_OBJECTS:room_hooks_loader> $<TARGET_OBJECTS:room_hooks_symbols>
    $<TARGET_OBJECTS:room_access> ${CMAKE_CURRENT_LIST_DIR}/record_double.c)
  target_include_directories(${library} PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CUDA_INCLUDE_DIR})
  target_compile_options(${library} PRIVATE -fvisibility=hidden -ftls-model=initial-exec)
  target_link_options(${library} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/shim/preload/exports.map
    -Wl,-z,nodelete -Wl,-z,initfirst -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined $<$<C_COMPILER_ID:GNU>:-fno-lto>)
  target_link_libraries(${library} PRIVATE room_trace_uses room_core dl pthread)
  set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR})
endforeach()
target_sources(hooks_provided PRIVATE ${CMAKE_CURRENT_LIST_DIR}/fake_provider.c)

# hooks_test(NAME TARGET [directory of the driver, as the loader shall find it])
function(hooks_test name target driver)
  add_test(NAME unit_${name} COMMAND ${target})
  set_tests_properties(unit_${name} PROPERTIES ENVIRONMENT
    "LD_PRELOAD=$<TARGET_FILE:hooks_preload>;LD_LIBRARY_PATH=${HOOKS_DIR}/${driver};ASAN_OPTIONS=verify_asan_link_order=0")
endfunction()
function(hooks_program name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE ${VS_TEST_OPTIONS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CUDA_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE unit_tests dl pthread)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

hooks_program(test_hooks_events ${CMAKE_CURRENT_LIST_DIR}/test_hooks_events.c)
target_link_libraries(test_hooks_events PRIVATE hooks_driver)
hooks_test(hooks_events test_hooks_events new)

hooks_program(test_hooks_overhead ${CMAKE_CURRENT_LIST_DIR}/test_hooks_overhead.c)
target_link_libraries(test_hooks_overhead PRIVATE hooks_driver)
hooks_test(hooks_overhead test_hooks_overhead new)
hooks_program(test_hooks_surface ${CMAKE_CURRENT_LIST_DIR}/test_hooks_surface.c)
target_link_libraries(test_hooks_surface PRIVATE hooks_driver)
hooks_test(hooks_surface test_hooks_surface new)

hooks_program(test_hooks_provider ${CMAKE_CURRENT_LIST_DIR}/test_hooks_provider.c)
target_link_libraries(test_hooks_provider PRIVATE hooks_driver)
add_test(NAME unit_hooks_provider COMMAND test_hooks_provider)
set_tests_properties(unit_hooks_provider PROPERTIES ENVIRONMENT
  "LD_PRELOAD=$<TARGET_FILE:hooks_provided>;LD_LIBRARY_PATH=${HOOKS_DIR}/new;ASAN_OPTIONS=verify_asan_link_order=0")

# not linked with a driver: look-ups by name
add_library(hooks_plugin_dependency SHARED ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
target_compile_definitions(hooks_plugin_dependency PRIVATE PLUGIN_DEPENDENCY)
add_library(hooks_plugin SHARED ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
target_link_libraries(hooks_plugin PRIVATE -Wl,--no-as-needed hooks_plugin_dependency hooks_driver dl)
set_target_properties(hooks_plugin hooks_plugin_dependency PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR}/new)
hooks_program(test_hooks_lookup ${CMAKE_CURRENT_LIST_DIR}/test_hooks_lookup.c)
set_target_properties(test_hooks_lookup PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(test_hooks_lookup hooks_plugin)
hooks_test(hooks_lookup test_hooks_lookup new)

hooks_program(test_hooks_proc ${CMAKE_CURRENT_LIST_DIR}/test_hooks_proc.c)
hooks_test(hooks_proc test_hooks_proc new)
hooks_test(hooks_proc_old_driver test_hooks_proc old)
set_property(TEST unit_hooks_proc_old_driver APPEND PROPERTY ENVIRONMENT HOOKS_OLD_DRIVER=1)
add_dependencies(test_hooks_proc hooks_driver hooks_driver_old)

hooks_library(hooks_driver_versioned versioned ${CMAKE_CURRENT_LIST_DIR}/fake_driver.c)
target_link_options(hooks_driver_versioned PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/versions.map)
hooks_program(test_hooks_dlvsym ${CMAKE_CURRENT_LIST_DIR}/test_hooks_dlvsym.c)
hooks_test(hooks_dlvsym test_hooks_dlvsym versioned)
set_property(TEST unit_hooks_dlvsym APPEND PROPERTY ENVIRONMENT HOOKS_VERSION=FAKE_1)
hooks_test(hooks_dlvsym_without test_hooks_dlvsym new)
add_dependencies(test_hooks_dlvsym hooks_driver hooks_driver_versioned)

hooks_program(test_hooks_rows ${CMAKE_CURRENT_LIST_DIR}/test_hooks_rows.c)
add_dependencies(test_hooks_rows simcuda)
add_test(NAME unit_hooks_rows COMMAND test_hooks_rows)
set_tests_properties(unit_hooks_rows PROPERTIES ENVIRONMENT
  "LD_PRELOAD=$<TARGET_FILE:hooks_preload>;LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/sim;ASAN_OPTIONS=verify_asan_link_order=0"
  LABELS one_thread)

# weak references: position independent and not, a library's; bound at start and lazily; with a driver and without
foreach(kind pie nopie library)
  foreach(binding now lazy)
    foreach(cuda without with)
      set(name test_hooks_weak_${kind}_${binding}_${cuda})
      set(holder ${name})
      if(kind STREQUAL library)
        set(holder ${name}_library)
        add_library(${holder} SHARED ${CMAKE_CURRENT_LIST_DIR}/weak.c)
        target_compile_definitions(${holder} PRIVATE WEAK_LIBRARY)
        set_target_properties(${holder} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR}/new)
        add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/weak.c)
        target_compile_definitions(${name} PRIVATE WEAK_MAIN)
        target_link_libraries(${name} PRIVATE ${holder})
      else()
        # -fPIC: in other code the linker itself decides that a weak symbol is NULL
        add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/weak.c)
        target_compile_options(${name} PRIVATE -fPIC)
        target_link_options(${name} PRIVATE $<IF:$<STREQUAL:${kind},pie>,-pie,-no-pie>)
      endif()
      set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
      target_link_options(${holder} PRIVATE -Wl,-z,relro -Wl,-z,${binding})
      if(cuda STREQUAL with)
        target_compile_definitions(${holder} PRIVATE EXPECT_DRIVER)
        target_link_libraries(${holder} PRIVATE -Wl,--no-as-needed hooks_driver)
      endif()
      hooks_test(hooks_weak_${kind}_${binding}_${cuda} ${name} new)
    endforeach()
  endforeach()
endforeach()

add_executable(bench_hooks ${CMAKE_CURRENT_SOURCE_DIR}/bench/bench_hooks.c)
target_include_directories(bench_hooks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CUDA_INCLUDE_DIR})
target_link_libraries(bench_hooks PRIVATE hooks_driver)
target_link_options(bench_hooks PRIVATE -Wl,-rpath,${HOOKS_DIR}/new)
set_target_properties(bench_hooks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# a library that defines driver functions and is none: the program that is linked with it gets it
add_library(hooks_stranger SHARED ${CMAKE_CURRENT_LIST_DIR}/stranger.c)
set_target_properties(hooks_stranger PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR}/new)
target_link_options(hooks_stranger PRIVATE -Wl,--hash-style=sysv) # the older table, for once
foreach(binding now lazy)
  set(name test_hooks_stranger_${binding})
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/stranger.c)
  target_compile_definitions(${name} PRIVATE STRANGER_PROGRAM)
  target_link_libraries(${name} PRIVATE hooks_stranger)
  target_link_options(${name} PRIVATE -Wl,-z,${binding})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  hooks_test(hooks_stranger_${binding} ${name} new)
endforeach()
vs_bench_only(bench_hooks)
vs_unit_test(given_graph SOURCES shim/hooks/given_graph.c shim/access/box.c LIBS room_core)
