#!/bin/bash
# A snapshot as this PyTorch makes it, with its own settings and all that it has beside the blocks, is imported: without a GPU it holds no
# block, so those of the hand-made one are put in.  What PyTorch's allocator says of its settings is recorded.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch; torch._C._cuda_memorySnapshot' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch with CUDA (TEST_PYTHON names one that has)"; exit 77; }
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
new_run
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 "$here/make_snapshots.py" "$run" >/dev/null || fail "make_snapshots.py"
PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.75 "$python" - "$run/known.pickle" "$run/torch.pickle" >"$run/out" 2>"$run/err" <<'PY' || fail "no snapshot"
import pickle, sys, torch
take = torch._C._cuda_memorySnapshot
try:
    snapshot = take(None)
except TypeError:  # before 2.11 it has no argument
    snapshot = take()
assert snapshot["segments"] == [] and isinstance(snapshot["device_traces"], list), snapshot
with open(sys.argv[1], "rb") as file:
    made = pickle.load(file)
with open(sys.argv[2], "wb") as file:
    pickle.dump({**snapshot, "segments": made["segments"], "device_traces": made["device_traces"]}, file)
print(sorted(snapshot))
PY
"$BUILD/bin/vramscope" import -o "$db" "$run/torch.pickle" >"$run/said" 2>&1 || fail "import: $(cat "$run/said")"
expect_sql "SELECT peak_bytes FROM peak WHERE kind = 'allocated'" $((5242880 + 3145728 + 1000))
expect_sql "SELECT count(*) FROM step" 1
expect_sql "SELECT count(*) FROM mismatch" 0
expect_sql "SELECT value FROM meta WHERE key = 'torch_garbage_collection_threshold'" 0.75
echo "a snapshot of this PyTorch: $(cat "$run/out")"
