foreach(topic "" _graph _capture _share _objects _dry)
  vs_unit_test(simcuda${topic} LIBS simcuda)
  target_include_directories(test_simcuda${topic} SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
  target_link_options(test_simcuda${topic} PRIVATE -Wl,-rpath,${CMAKE_BINARY_DIR}/sim
                      -Wl,--disable-new-dtags) # so that dlopen finds it too where a sanitizer stands in between
  add_dependencies(test_simcuda${topic} simnvml)
endforeach()
