#!/bin/bash
# PyTorch on the CPU, whose allocator asks the arena for what it cannot have (raise_on_cpu.c): each refusal becomes an error that Python catches, in a
# program that was given PyTorch's functions and in one that took them itself.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
asks=$dir/asks.so
"${CC:-cc}" -shared -fPIC -I"$here/../../../shim" -I"$include" -o "$asks" "$here/raise_on_cpu.c" || fail "the allocator that asks can't be built"
cat >"$dir/program.py" <<'END'
import ctypes

import torch

ctypes.CDLL("libcuda.so.1").cuInit(0)
what = ctypes.c_int.in_dll(ctypes.CDLL(None), "ask_for")
for what.value in (1, 2, 3):
    try:
        torch.empty(10)
        print("no error")
    except Exception as error:
        print(isinstance(error, torch.OutOfMemoryError), isinstance(error, RuntimeError), str(error).split(":")[0][:41])
print(torch.ones(3).sum().item())
END
export PYTHONDONTWRITEBYTECODE=1 SIMCUDA_FAIL=cuMemCreate:1=719
new_run
told() {
    env LD_PRELOAD="$asks:$shim" "$@" "$python" "$dir/program.py" >"$run/out" 2>"$run/err" || fail "$*: exit status $?"
    diff - "$run/out" <<'END' || fail "$*: told otherwise"
False True CUDA error
True True CUDA out of memory. Tried to allocate 104
False True vramscope's arena can't tell what goes to
3.0
END
}
told VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT="$dir/itself.db"
! in_full || told VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT="$dir/stack.db" TORCH_SHOW_CPP_STACKTRACES=1 TORCH_DISABLE_ADDR2LINE=1
told "$BUILD/bin/vramscope" run --simulated -q --allocator=arena -o "$dir/given.db" -- env LD_PRELOAD="$asks:$shim"
db=$dir/given.db
expect_sql "SELECT group_concat(name, ' ') FROM (SELECT name FROM contract WHERE name LIKE 'torch_%' AND state = 'proven' AND name NOT IN ('torch_node', 'torch_birth', 'torch_state') ORDER BY name)" \
    'torch_check torch_exception torch_pluggable torch_sharing torch_table'
expect_sql "SELECT state FROM contract WHERE name = 'torch_filter'" broken
echo "PyTorch is told"
