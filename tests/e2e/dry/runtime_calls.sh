#!/bin/bash
# Calls of CUDA's runtime, by its stand-ins, reach the driver as NVIDIA's do: the shim sees each allocation and each free once, with the driver's
# function and the size that the program said.
. "$(dirname "$0")/../lib/lib.bash"
cat >"$dir/program.py" <<'END'
import ctypes
import sys

rt = ctypes.CDLL(sys.argv[1])
p, n, pages = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.create_string_buffer(3 * 4096)
aligned = (ctypes.addressof(pages) + 4095) // 4096 * 4096
size = ctypes.c_size_t


def call(name, *arguments):
    error = getattr(rt, name)(*arguments)
    assert error == 0, (name, error)


call("cudaMalloc", ctypes.byref(p), size(1000))
call("cudaMemset", p, 0, size(1000))
call("cudaFree", p)
call("cudaMalloc", ctypes.byref(p), size(0))
call("cudaFree", None)
call("cudaMallocManaged", ctypes.byref(p), size(4096), 1)
call("cudaFree", p)
call("cudaHostAlloc", ctypes.byref(p), size(5000), 0)
call("cudaFreeHost", p)
call("cudaMallocHost", ctypes.byref(p), size(6000))
call("cudaFreeHost", p)
call("cudaHostRegister", ctypes.c_void_p(aligned), size(4096), 0)
call("cudaHostUnregister", ctypes.c_void_p(aligned))
call("cudaMallocAsync", ctypes.byref(p), size(7000), None)
call("cudaFreeAsync", p, None)
assert rt.cudaMalloc(ctypes.byref(p), size(1 << 50)) == 2 and rt.cudaGetLastError() == 2
END
export SIMCUDA_DRY=1 SIMCUDA_BANNER=0 LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry PYTHONDONTWRITEBYTECODE=1
for library in libcudart.so.12 libcudart.so.13; do
    run_shimmed "${TEST_PYTHON:-python3}" "$dir/program.py" $library
    expect_events <<'END'
alloc|device|cuMemAlloc_v2|1000|0|0
free|device|cuMemFree_v2|1000|0|0
alloc|managed|cuMemAllocManaged|4096|0|0
free|managed|cuMemFree_v2|4096|0|0
alloc|pinned|cuMemHostAlloc|5000|-1|0
free|pinned|cuMemFreeHost|5000|-1|0
alloc|pinned|cuMemHostAlloc|6000|-1|0
free|pinned|cuMemFreeHost|6000|-1|0
alloc|registered|cuMemHostRegister_v2|4096|-1|0
free|registered|cuMemHostUnregister|4096|-1|0
alloc|pool|cuMemAllocAsync|7000|0|0
pool_reserved|pool||33554432|0|0
free|pool|cuMemFreeAsync|7000|0|0
alloc|device|cuMemAlloc_v2|1125899906842624|0|2
END
    expect_clean
done
