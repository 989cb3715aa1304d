#!/bin/bash
# A PyTorch that is otherwise than those that were tried keeps its own allocator, which one line and the recording say.  A program that takes the
# arena's functions all the same never gets a refusal as an address.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "a build without the arena"
torch=$dir/python/torch
mkdir -p "$torch/lib"
for name in libc10 libc10_cuda libtorch_cuda; do
    "${CC:-cc}" -shared -fPIC -o "$torch/lib/$name.so" -x c /dev/null || fail "the stand-ins can't be built"
done
echo "
__version__ = '2.99.0'" >"$torch/version.py"
cat >"$torch/__init__.py" <<'END'
import ctypes
import os
import types

for name in ("libc10", "libc10_cuda", "libtorch_cuda"):
    ctypes.CDLL(os.path.dirname(__file__) + f"/lib/{name}.so")
_C = types.SimpleNamespace(_cuda_customAllocator=lambda *_: print("made"), _cuda_changeCurrentAllocator=lambda *_: print("changed"))
END
cat >"$dir/program.py" <<'END'
import ctypes
import sys

import torch

shim = ctypes.PyDLL(None)
report = shim._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report.argtypes = [ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_uint16]
report(1 << 40, 512, 512, 1 << 21, 1)
print("goes on", flush=True)
if "malloc" in sys.argv:
    print(shim.vramscope_torch_malloc(ctypes.c_ssize_t(1 << 50), 0, None))
END
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$dir/python
refused() {
    new_run
    "$BUILD/bin/vramscope" run --simulated -q --allocator=arena -o "$db" -- python3 "$dir/program.py" "$@" >"$run/out" 2>"$run/err"
    status=$?
}
why="the constructor of CUDAPluggableAllocator takes another type than in 2.4 to 2.15"
refused
[ "$status" = 0 ] || fail "exit status $status"
[ "$(cat "$run/out")" = "goes on" ] || fail "PyTorch was given an allocator"
grep -qFx "vramscope: PyTorch 2.99.0: it keeps its own allocator, and not the arena: $why" "$run/err" || fail "not said"
[ "$(grep -c 'its own allocator' "$run/err")" = 1 ] || fail "said twice"
expect_sql "SELECT name, detail FROM contract WHERE state = 'broken' AND name IN ('torch_exception', 'torch_pluggable') ORDER BY name" \
    "torch_exception|PyTorch 2.99.0: it keeps its own allocator, and not the arena: its C++ library has not the functions that throw
torch_pluggable|PyTorch 2.99.0: it keeps its own allocator, and not the arena: $why"
refused malloc 2>/dev/null # where bash tells of the abort
[ "$status" = 134 ] || fail "exit status $status, not that of abort()"
[ "$(cat "$run/out")" = "goes on" ] || fail "memory that is not there has an address"
grep -q "this PyTorch can't be told by an exception" "$run/err" || fail "it ended without a word"
echo "what is not known is not given an allocator"
