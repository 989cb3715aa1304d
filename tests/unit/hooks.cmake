# hooks/ over a fake driver and a double of the recording API: what the real library does with LD_PRELOAD.
set(HOOKS_DIR ${CMAKE_BINARY_DIR}/tests/hooks)

function(hooks_library name output)
  add_library(${name} SHARED ${ARGN})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR}/${output} PREFIX "" SUFFIX "" OUTPUT_NAME libcuda.so.1)
  target_include_directories(${name} PRIVATE ${CUDA_INCLUDE_DIR})
  target_link_options(${name} PRIVATE -Wl,-soname,libcuda.so.1)
endfunction()
hooks_library(hooks_driver new ${CMAKE_CURRENT_SOURCE_DIR}/unit/hooks/fake_driver.c)
hooks_library(hooks_driver_old old ${CMAKE_CURRENT_SOURCE_DIR}/unit/hooks/fake_driver.c)
target_compile_definitions(hooks_driver_old PRIVATE FAKE_OLD)

file(GLOB HOOKS_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/shim/hooks/*.c ${CMAKE_SOURCE_DIR}/shim/hooks/*.S)
add_library(hooks_preload SHARED ${HOOKS_SOURCES} ${CMAKE_CURRENT_SOURCE_DIR}/unit/hooks/record_double.c)
target_include_directories(hooks_preload PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CUDA_INCLUDE_DIR})
target_compile_options(hooks_preload PRIVATE -fvisibility=hidden -ftls-model=initial-exec)
target_link_options(hooks_preload PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/shim/exports.map
  -Wl,-z,nodelete -Wl,-z,initfirst -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined)
target_link_libraries(hooks_preload PRIVATE dl pthread)
set_target_properties(hooks_preload PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HOOKS_DIR})

# hooks_test(NAME TARGET [directory of the driver, as the loader shall find it])
function(hooks_test name target driver)
  add_test(NAME unit_${name} COMMAND ${target})
  set_tests_properties(unit_${name} PROPERTIES ENVIRONMENT
    "LD_PRELOAD=$<TARGET_FILE:hooks_preload>;LD_LIBRARY_PATH=${HOOKS_DIR}/${driver};ASAN_OPTIONS=verify_asan_link_order=0")
endfunction()
function(hooks_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/shim ${CMAKE_CURRENT_SOURCE_DIR}/unit ${CUDA_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE cmocka dl pthread)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

hooks_program(test_hooks_events ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_hooks_events.c)
target_link_libraries(test_hooks_events PRIVATE hooks_driver)
hooks_test(hooks_events test_hooks_events new)
