vs_unit_test(simcuda LIBS simcuda)
target_include_directories(test_simcuda SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_options(test_simcuda PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/sim
                    -Wl,--disable-new-dtags) # so that dlopen finds it too where a sanitizer stands in between
add_dependencies(test_simcuda simnvml)
