vs_unit_test(query LIBS room_sample)
vs_unit_test(nvml LIBS room_sample)
add_library(fake_nvml MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvml.c)
set_target_properties(fake_nvml PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX .so.1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)
target_link_options(fake_nvml PRIVATE -Wl,-soname,libnvidia-ml.so.1)
add_dependencies(test_nvml fake_nvml)
