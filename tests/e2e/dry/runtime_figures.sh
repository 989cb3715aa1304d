#!/bin/bash
# PyTorch on the stand-ins for CUDA's libraries: what its allocator counts is what arithmetic says of tensors of known sizes, natively
# and in expandable segments, up to what a device holds, and the recording has the same figures to the byte.
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, os, sys
sys.exit(not os.path.exists(os.path.join(os.path.dirname(u.find_spec("torch").origin), "lib/libtorch_cuda.so")))' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch with CUDA (TEST_PYTHON names one that has)"; exit 77; }
. "$(dirname "$0")/../lib/lib.bash"
cat >"$dir/program.py" <<'END'
import sys

import torch

MIB = 1 << 20
expandable = sys.argv[1].endswith("True")


def rounded(n):  # what PyTorch's allocator takes for N bytes
    return (n + 511) // 512 * 512


def segment(n):  # what it asks the driver for
    if expandable:
        return 2 * MIB if n <= MIB else (n + 20 * MIB - 1) // (20 * MIB) * 20 * MIB
    return 2 * MIB if n <= MIB else 20 * MIB if n < 10 * MIB else (n + 2 * MIB - 1) // (2 * MIB) * 2 * MIB


def same(what, got, wanted):
    print(what, got, "as computed" if got == wanted else f"but computed {wanted}")


def device(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


assert torch.cuda.is_available() and torch.cuda.device_count() == 1
allocated = reserved = 0
held = []
for n in (1, 512, 513, 1000):  # one segment of small blocks holds all of them
    held.append(device(n))
    allocated += rounded(n)
reserved += segment(1)
same("small", (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), (allocated, reserved))
held.append(device(64 * MIB + 1))
allocated += rounded(64 * MIB + 1)
reserved += segment(64 * MIB + 1)
same("large", (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), (allocated, reserved))
del held
torch.cuda.empty_cache()
same("given back", (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), (0, 0))

# A model of one matrix, its gradient and both states of Adam, and nothing else lives after a step.
layer = torch.nn.Linear(1000, 1001, bias=False, device="cuda")
adam = torch.optim.Adam(layer.parameters(), foreach=False)
layer(torch.ones(8, 1000, device="cuda")).sum().backward()
workspace = torch.cuda.memory_allocated() - 2 * rounded(4 * 1000 * 1001)  # PyTorch's own, for cuBLAS
adam.step()
same("trained", torch.cuda.memory_allocated() - workspace, 4 * rounded(4 * 1000 * 1001))

# A graph's memory is its own pool, and a replay takes none.
x = torch.ones(MIB, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    before = torch.cuda.memory_allocated()
    y = x * 2
    same("captured", torch.cuda.memory_allocated() - before, 4 * MIB)
before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
graph.replay()
torch.cuda.synchronize()
same("replayed", (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), before)

there = torch.arange(1000).pin_memory().to("cuda", non_blocking=True)
same("copied", int(there.cpu().sum()), 499500)
print("figures", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
END
cat >"$dir/full.py" <<'END'
import torch

kept = []
try:
    while len(kept) < 1000:
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    free, total = torch.cuda.mem_get_info()
    print("refused", len(kept) > 50, free < 64 << 20, torch.cuda.memory_allocated() == len(kept) * 64 << 20)
END
shim=$shim:$BUILD/sim/libcuda.so.1:$BUILD/dry/libcudart.so.13:$BUILD/dry/libcudart.so.12
for library in "$BUILD"/dry/lib*.so.*; do
    case $library in */libcudart.*) ;; *) shim=$shim:$library ;; esac
done
limit=600 # PyTorch begins slowly on a busy machine
export SIMCUDA_DRY=1 SIMCUDA_BANNER=0 SIMCUDA_CAPACITY=4GiB PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$BUILD/sim:$BUILD/dry
for settings in expandable_segments:False expandable_segments:True; do
    shim_env=(PYTORCH_CUDA_ALLOC_CONF="$settings" PYTORCH_ALLOC_CONF="$settings")
    shimmed "$python" "$dir/program.py" $settings
    [ "$status" = 0 ] || fail "$settings: exit status $status"
    ! grep "but computed" "$run/out" || fail "$settings: PyTorch counts otherwise than it says that it does"
    [ "$(grep -c "as computed" "$run/out")" = 7 ] || fail "$settings: not all was said"
    expect_sql "SELECT count(*) FROM mismatch" 0
    expect_sql "SELECT count(*) FROM loss" 0
    expect_sql "SELECT state FROM contract WHERE name LIKE 'torch_%' AND state = 'broken'" ''
    expect_sql "SELECT group_concat(peak_bytes, ' ') FROM (SELECT peak_bytes FROM peak WHERE kind IN ('framework', 'managed_reserved') ORDER BY kind)" \
        "$(sed -n 's/^figures //p' "$run/out")"
    shimmed "$python" "$dir/full.py"
    [ "$status" = 0 ] && grep -qx "refused True True True" "$run/out" || fail "$settings: nothing was refused, or not where the device is full"
    expect_sql "SELECT count(*) FROM oom" 1
done
