#!/bin/bash
# What made the peak stands on the first screen of a report, a sentence a cause; and for each sentence the programs of which it
# would be false: it is not said of them.
. "$(dirname "$0")/../lib/lib.bash"
report() {
    COLUMNS=80 "$V" report --all "$db" >"$run/report" || fail "$*: report"
    "$V" report --json "$db" >"$run/json" || fail "$*: report --json"
    head -n 25 "$run/report" | grep -v '─' >"$run/screen"
    [ "$(wc -L <"$run/screen")" -le 80 ] || fail "$*: a line of $(wc -L <"$run/screen") columns: $(cat "$run/screen")"
    tr -s '\n ' ' ' <"$run/screen" >"$run/words" # sentences go over several lines
}
record() { # HOW
    shimmed "$tests/prog_causes" "$1"
    [ "$status" = 0 ] || fail "$*: status $status"
    report "$@"
}
says() { grep -qF -- "$1" "$run/words" || fail "the first screen does not say '$1': $(cat "$run/screen")"; }
silent() { # WORD...: no sentence of these
    for word; do
        grep -qE "^    $word: " "$run/report" && fail "said without cause: $(grep -A2 "^    $word: " "$run/report")"
    done
    true
}
cause() { # FIELD VALUE
    local got
    got=$(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['files'][0]['devices'][0]['causes']['$1'])" "$run/json")
    [ "$got" = "$2" ] || fail "$1 is $got, not $2"
}
MIB=1048576

record logits
says "logits: 256.0 MiB of it was made in logits"
says "the peak would be at least 160.0 MiB"
cause logits_bytes $((256 * MIB))
silent optimizer kept leak
# a function is the place where no Python ran
grep -qE "256.0 MiB .*prog_causes.c:[0-9]+ (compute|main) → get$" "$run/screen" || fail "the place: $(cat "$run/screen")"
record small_logits # there are logits, and another phase has the peak
silent logits kept leak
says "optimizer: 128.0 MiB of it were made in this optimizer step, and freed in it"
cause logits_bytes None

record optimizer
says "optimizer: 128.0 MiB of it"
cause optimizer_temporary_bytes $((128 * MIB))
cause optimizer_foreach_bytes None
record states # made in an optimizer step as well, and kept
silent optimizer logits leak
cause optimizer_temporary_bytes None
record first_states # made in the peak's step, beside the optimizer's temporaries
says "optimizer: 128.0 MiB of it were made in this optimizer step, and freed in it"
tr -s '\n ' ' ' <"$run/report" | grep -qF "128.0 MiB (33.3 %) were made by the optimizer in this step, and kept: less memory for loss and activations can save at most 192.0 MiB" ||
    fail "states that the peak's step makes are no memory of loss and activations: $(grep -A 4 'static memory' "$run/report")"

record kept
says "kept: 64.00 MiB of it was made in backward by earlier steps"
cause left_by_backward_bytes $((64 * MIB))
silent optimizer logits leak
record late_zero_grad # freed in the step, but after the peak of its forward
says "kept: 64.00 MiB of it was made in backward by earlier steps"
record accumulated # made in backward before, and of the same step
silent kept
cause left_by_backward_bytes None
record none
silent kept logits optimizer leak

# a leak is told with its rate, its age and its place, and what only seems to grow is none
for how in leak states lengths fills cleared turns; do
    shimmed "$tests/prog_grow" $how 40
    report $how
    [ $how = leak ] || silent leak
    [ $how != leak ] || says "leak: +1.00 MiB a step since step 1, direct, prog_grow, made in forward (or a cache that is not full yet)"
done

# PyTorch's foreach implementations are known by their names, and by nothing else
mkdir -p "$dir/site-packages/torch/optim" "$dir/mine/optim"
cat >"$dir/site-packages/torch/optim/adam.py" <<'PY'
def _multi_tensor_adam(get, put):
    roots = []
    for _ in range(4):
        roots.append(get(32))
    put(roots)


def _single_tensor_adam(get, put):
    for _ in range(4):
        put([get(128)])
PY
cp "$dir/site-packages/torch/optim/adam.py" "$dir/mine/optim/adam.py"
cat >"$dir/train.py" <<'PY'
import ctypes
import runpy
import sys

import vramscope

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)


def get(mib):
    p = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(mib << 20)) == 0
    return p


def put(all):
    for p in all:
        cuda.cuMemFree_v2(p)


adam = runpy.run_path(sys.argv[1])[sys.argv[2]]
kept = []


def main():
    weights = get(64)
    for _ in range(int(sys.argv[3])):
        with vramscope.phase("forward"):
            activations = get(16)
        with vramscope.phase("backward"):
            put([activations])
        with vramscope.phase("optimizer"):
            adam(get, put)
        kept.append(get(1))
        vramscope.step()
    put([weights])


main()
PY
python_run() { # FILE FUNCTION STEPS
    new_run
    "$V" run --simulated -q -o "$db" -- python3 "$dir/train.py" "$dir/$1" "$2" "$3" >"$run/out" 2>"$run/err" || fail "train.py: $(cat "$run/err")"
    report "$@"
}
if python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 15))'; then
    python_run site-packages/torch/optim/adam.py _multi_tensor_adam 24
    says "optimizer: 128.0 MiB of it are temporaries of its foreach implementation (torch/optim/adam.py:4 _multi_tensor_adam)"
    cause optimizer_foreach_bytes $((128 * MIB))
    says "leak: +1.00 MiB a step since step 1, train.py:16 get (or a cache that is not full yet) optimizer:" # the leak first
    python_run site-packages/torch/optim/adam.py _single_tensor_adam 4
    says "optimizer: 128.0 MiB of it were made in this optimizer step, and freed in it"
    silent leak
    python_run mine/optim/adam.py _multi_tensor_adam 4
    says "optimizer: 128.0 MiB of it were made in this optimizer step, and freed in it"
    cause optimizer_foreach_frame None
else
    echo "SKIPPED: the names of foreach: no Python whose frames are read"
fi
echo "what made the peak is said, and nothing else"
