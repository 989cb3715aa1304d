# The CUDA back end: C over the driver and cuBLASLt, both found at run time, and the kernels as fat binaries: machine code
# for Ampere (without clusters) and Hopper, PTX for what comes after each.  The passes are bound by memory, and local memory would be more of that: none.
set(LCE_IMAGES)
foreach(name softmax tokens slab tail exponents odds)
  vs_fatbin(${name} cuda/${name}.cu
    OPTIONS -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=[sm_90,compute_90]
            -Xptxas -warn-lmem-usage,-Werror -I${CMAKE_CURRENT_SOURCE_DIR}/cuda
    DEPENDS cuda/device.cuh cuda/row.cuh cuda/fast.cuh cuda/options.cuh cuda/exponents.cuh cuda/odds.cuh cuda/label_rows.cuh cuda/args.h)
  list(APPEND LCE_IMAGES ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
endforeach()
# The products of compute capability 9.0, whose instructions nothing later has.
vs_fatbin(product cuda/product.cu OPTIONS -DNDEBUG -gencode arch=compute_90a,code=sm_90a DEPFILE)
list(APPEND LCE_IMAGES ${CMAKE_CURRENT_BINARY_DIR}/product.fatbin)
set_source_files_properties(cuda/image.S PROPERTIES OBJECT_DEPENDS "${LCE_IMAGES}"
  COMPILE_OPTIONS "-Wa,-I${CMAKE_CURRENT_BINARY_DIR}")
target_sources(linear_cross_entropy_objects PRIVATE
  cuda/cuda.c cuda/plan.c cuda/find.c cuda/chunk.c cuda/whose.c cuda/slab.c cuda/run.c cuda/borrow.c cuda/segments.c
  cuda/gemm.c cuda/product.c cuda/exponents.c cuda/odds.c cuda/launch.c cuda/image.S)
target_include_directories(linear_cross_entropy_objects SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
