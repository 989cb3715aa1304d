#!/bin/bash
# examples/torch_llama.py on the CPU at a small size: it learns, the eager and the fused loss agree step by step, and
# nothing but the seed decides.
set -u
here=$(dirname "$(realpath "$0")")
: "${BUILD:?BUILD is the build directory}"
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: no Python with PyTorch here (TEST_PYTHON names one)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so
export PYTHONPATH=$here/../../examples
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$python" - 2>"$dir/err" <<'END' || { tail -n 5 "$dir/err"; exit 1; }
import json, sys
import torch_llama

SIZES = "--device cpu --tokens 256 --batch 2 --hidden 64 --heads 4 --kv-heads 2 --ffn 160 --vocab 2000 --steps 12 --lr 3e-3".split()

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
checks = {
    "the loss falls by a tenth": fused[-1] < 0.9 * fused[0],
    f"eager and fused agree to 1e-3: {far(eager, fused):.1e}": far(eager, fused) < 1e-3 and eager != fused,
    f"eager in two halves agrees with it: {far(eager, halves):.1e}": far(eager, halves) < 1e-3 and eager != halves,
    "the same seed gives the same losses": train("--loss", "fused") == fused,
    "another seed gives other losses": train("--loss", "fused", "--seed", "1") != fused,
    "checkpointing changes nothing": train("--loss", "fused", "--checkpointing") == fused,
    f"tied, fp32 states: eager and fused agree: {far(tied_eager, tied_fused):.1e}": far(tied_eager, tied_fused) < 1e-3,
    "tied, fp32 states: the loss falls": tied_fused[-1] < tied_fused[0] - 0.3,
}
for what, good in checks.items():
    print("ok  " if good else "FAIL", what)
sys.exit(not all(checks.values()))
END
