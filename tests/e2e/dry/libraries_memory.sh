#!/bin/bash
# A cuBLAS handle takes and gives back device memory of its own, as recordings of an H200 show: 1 KiB, 128 KiB and 64 MiB for each thread that
# multiplies, or what CUBLAS_WORKSPACE_CONFIG says.  On another card that is a guess.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
cat >"$dir/program.py" <<'END'
import torch
a = torch.randn(256, 256, device="cuda", requires_grad=True)
(a @ a).sum().backward()
torch.cuda.synchronize()
END
taken="SELECT group_concat(size_bytes, ' ') FROM (SELECT size_bytes FROM allocation WHERE owner LIKE 'libcublas.so.%' AND op = 'alloc' ORDER BY alloc_seq)"

dry "$python" "$dir/program.py"
[ "$status" = 0 ] || fail "status $status"
expect_sql "$taken" "1024 131072 67108864 1024 131072 67108864"
echo "ok H200"

shim_env=(CUBLAS_WORKSPACE_CONFIG=:4096:8)
dry "$python" "$dir/program.py"
expect_sql "$taken" "1024 33554432 1024 33554432"
echo "ok as configured"

shim_env=(SIMCUDA_GPU=A100-40GB)
dry "$python" "$dir/program.py"
expect_sql "$taken" "1024 131072 8388608 1024 131072 8388608"
grep -qP "^beside\tlibcublas\.so\.1[23]\ta handle's own memory\t8520704$" "$run/facts" || fail "A100: $(cat "$run/facts")"
echo "ok A100, as a guess"

cat >"$dir/handles.py" <<'END'
import ctypes
import sys
blas = ctypes.CDLL("libcublas.so.13")
for i in range(3):
    handle, version = ctypes.c_void_p(), ctypes.c_int()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    assert blas.cublasGetVersion_v2(handle, ctypes.byref(version)) == 0 and version.value // 10000 == 13
    assert blas.cublasDestroy_v2(handle) == 0
END
shim_env=()
dry python3 "$dir/handles.py"
[ "$status" = 0 ] || fail "status $status"
expect_sql "SELECT count(*) || ' ' || count(free_seq) FROM allocation WHERE owner LIKE 'libcublas%'" "9 9"
echo "ok given back"

shim_env=(SIMCUDA_CAPACITY=60000000 SIMCUDA_CONTEXT_BYTES=0)
dry python3 -c 'import ctypes
handle = ctypes.c_void_p()
print(ctypes.CDLL("libcublas.so.13").cublasCreate_v2(ctypes.byref(handle)))'
[ "$(cat "$run/out")" = 3 ] || fail "a handle without room: $(cat "$run/out")"
echo "ok no room"
