#!/bin/bash
# examples/torch_llama.py on the CPU learns, its losses agree step by step whatever computes them, and its phases are recorded.
set -u
here=$(dirname "$(realpath "$0")")
: "${BUILD:?BUILD is the build directory}"
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch 2>/dev/null || { echo "skipped: no Python with PyTorch here (TEST_PYTHON names one)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so
export PYTHONPATH=$here/../../../examples
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$python" - 2>"$dir/err" <<'END' || { tail -n 5 "$dir/err"; exit 1; }
import json, sys
import torch
import torch_llama

SIZES = "--device cpu --tokens 256 --batch 2 --hidden 64 --heads 4 --kv-heads 2 --ffn 160 --vocab 2000 --steps 12 --lr 3e-3 --warmup 0".split()

def train(*options):
    sys.argv = ["torch_llama.py", *SIZES, *options, "--facts", "facts.json"]
    torch_llama.main()
    facts = json.load(open("facts.json"))
    assert len(facts["step_ms"]) == len(facts["losses"]) == 12
    return facts["losses"]

def far(a, b):
    return max(abs(x - y) / x for x, y in zip(a, b))

eager, fused, halves = train("--loss", "eager"), train("--loss", "fused"), train("--loss", "halves")
wide = ("--tied", "--state-dtype", "fp32")
tied_eager, tied_fused = train("--loss", "eager", *wide), train("--loss", "fused", *wide)
same, strict = train("--loss", "eager", "--deterministic"), not torch.is_deterministic_algorithms_warn_only_enabled()
torch.use_deterministic_algorithms(False)
checks = {
    "the loss falls by a tenth": fused[-1] < 0.9 * fused[0],
    f"eager and fused agree to 1e-3: {far(eager, fused):.1e}": far(eager, fused) < 1e-3 and eager != fused,
    f"eager in two halves agrees with it: {far(eager, halves):.1e}": far(eager, halves) < 1e-3 and eager != halves,
    "the same seed gives the same losses": train("--loss", "fused") == fused,
    "--deterministic changes nothing here, and leaves no operator its own order": same == eager and strict,
    "another seed gives other losses": train("--loss", "fused", "--seed", "1") != fused,
    "checkpointing changes nothing": train("--loss", "fused", "--checkpointing") == fused,
    "offloading what checkpoints keep and fp32 states changes nothing": train("--loss", "fused", "--state-dtype", "fp32", "--offload")
    == train("--loss", "fused", "--state-dtype", "fp32", "--checkpointing"),
    "the loss falls with bf16 states on the host": train("--loss", "fused", "--offload")[-1] < 0.9 * fused[0],
    f"tied, fp32 states: eager and fused agree: {far(tied_eager, tied_fused):.1e}": far(tied_eager, tied_fused) < 1e-3,
    "tied, fp32 states: the loss falls": tied_fused[-1] < tied_fused[0] - 0.3,
}
for what, good in checks.items():
    print("ok  " if good else "FAIL", what)
sys.exit(not all(checks.values()))
END

# A driver allocation, so that there is something to record; then the example as it is.
cat >phases.py <<'END'
import ctypes
cu, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
for call in (cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context),
             cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20))):
    assert call == 0
import torch_llama
torch_llama.main()
END
for loss in eager fused; do
    "$BUILD/bin/vramscope" run --simulated -o $loss.db -- "$python" phases.py --loss $loss --device cpu --tokens 64 --batch 2 --hidden 64 \
        --heads 4 --kv-heads 2 --ffn 160 --vocab 2000 --steps 3 >out 2>err || { tail -n 5 err; echo "FAIL: under vramscope run"; exit 1; }
    "$python" - $loss <<'END' || exit 1
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + ".db")
got = db.execute("SELECT phase, source, count(*), sum(t_pop_ns IS NULL) FROM range GROUP BY 1, 2 ORDER BY 1").fetchall()
want = [("backward", "automatic", 3, 0), ("forward", "automatic", 3, 0), ("logits", "marker", 3, 0), ("optimizer", "automatic", 3, 0)]
steps = db.execute("SELECT count(*) FROM step").fetchone()[0]
good = got == want and steps == 3
print("ok  " if good else "FAIL", f"phases with the {sys.argv[1]} loss", "" if good else (got, steps))
sys.exit(not good)
END
done
