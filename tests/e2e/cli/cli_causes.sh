#!/bin/bash
# What made the peak stands on the first screen of a report, and what grows from step to step with its rate and place.  What is no cause and
# does not grow:
# test_causes.c, test_growth.c.
. "$(dirname "$0")/../lib/lib.bash"
report() {
    COLUMNS=80 "$V" report --all "$db" >"$run/report" || fail "$*: report"
    "$V" report --json "$db" >"$run/json" || fail "$*: report --json"
    head -n 25 "$run/report" | grep -v '─' >"$run/screen"
    [ "$(wc -L <"$run/screen")" -le 80 ] || fail "$*: a line of $(wc -L <"$run/screen") columns: $(cat "$run/screen")"
    tr -s '\n ' ' ' <"$run/screen" >"$run/words" # sentences go over several lines
}
record() { # HOW STEPS
    shimmed "$tests/prog_causes" "$1" "$2"
    [ "$status" = 0 ] || fail "$*: status $status"
    report "$@"
}
says() { grep -qF -- "$1" "$run/words" || fail "the first screen does not say '$1': $(cat "$run/screen")"; }
silent() { # WORD...: no sentence of these
    for word; do
        ! grep -qE "^    $word: " "$run/report" || fail "said without cause: $(grep -A2 "^    $word: " "$run/report")"
    done
}
expect() { # EXPRESSION VALUE: of d, the device, c, its causes, and g, its growth
    local got
    got=$(python3 -c "import json, sys; d = json.load(open(sys.argv[1]))['files'][0]['devices'][0]; c, g = d['causes'], d['growth']; x = $1; print(x)" "$run/json")
    [ "$got" = "$2" ] || fail "$1 is $got, not $2"
}

record logits 10
says "logits: 256.0 MiB of it was made in logits"
says "the peak would be at least 160.0 MiB"
expect "c['logits_bytes'] >> 20, c['optimizer_temporary_bytes'], c['left_by_backward_bytes']" "(256, None, None)"
silent optimizer kept leak
# a function is the place where no Python ran
grep -qE "256.0 MiB .*prog_causes.c:[0-9]+ (compute|main) → get$" "$run/screen" || fail "the place: $(cat "$run/screen")"

record optimizer 10 # beside temporaries the peak's step makes the states
says "optimizer: 128.0 MiB of it were made in this optimizer step, and freed in it"
expect "c['optimizer_temporary_bytes'] >> 20, c['optimizer_foreach_bytes'], c['logits_bytes']" "(128, None, None)"
tr -s '\n ' ' ' <"$run/report" | grep -qF "128.0 MiB (33.3 %) were made by the optimizer in this step, and kept: less memory for loss and activations can save at most 192.0 MiB" ||
    fail "states that the peak's step makes are no memory of loss and activations: $(grep -A 4 'static memory' "$run/report")"

record kept 10
says "kept: 64.00 MiB of it was made in backward by earlier steps"
expect "c['left_by_backward_bytes'] >> 20" 64
silent optimizer logits leak

record none 40 # with an evaluation after every fifth step
silent kept logits optimizer leak
! grep -q growth "$run/report" || fail "said to grow: $(sed -n '/growth/,/^$/p' "$run/report")"
expect "g['size_bytes'], g['per_step_bytes'], g['grows'], d['savings']['left_by_earlier_steps_bytes']" "(0, 0, [], 0)"
none=$db

# ---- growth ----
grows() { grep -qF -- "$1" <("$V" report --all "$db") || fail "the report does not say '$1': $("$V" report --all "$db" | sed -n '/growth/,$p')"; }
record leak 40
says "leak: +1.00 MiB a step since step 1, direct, prog_causes, made in forward (or a cache that is not full yet)"
grows "  growth: 35.00 MiB of what steps 6 to 40 made was still there when step 40 ended: 1.00 MiB a step"
grows "    1.00 MiB      1  1.00 MiB  direct, prog_causes, made in forward"
grows "  (prog_causes)" # the frame that asked, by name: report looks it up where nobody has yet
grows "were left by earlier steps, each of which adds to it (growth):"
expect "g['per_step_bytes'], g['grows'][0]['library'], g['grows'][0]['phase'], g['first_step'], len(g['grows'])" "(1048576, 'prog_causes', 'forward', 6, 1)"
# the peak lies in a late step: what the steps before left is a bound for it, and no static memory
expect "d['savings']['static_bytes'] <= 66 << 20 and d['savings']['left_by_earlier_steps_bytes'] >= 30 << 20" True
"$V" peak "$db" | grep -q '^  growth: 35.00 MiB' || fail "peak does not say it"
"$V" diff "$db" "$none" | grep -q "NOTE: A leaks on device 0, +1.00 MiB a step since step 1, direct, prog_causes" || fail "diff: $("$V" diff "$db" "$none" | head -n 9)"

record returns 40 # what the program's end gave back in the last step had grown until then
grows "  growth: 35.00 MiB of what steps 6 to 40 made was still there when step 40 last allocated (it was freed before the step's end): 1.00 MiB a step"
expect "g['per_step_bytes'], g['grows'][0]['phase'], g['first_step'], len(g['grows'])" "(1048576, 'forward', 6, 1)"
record leak 10
grows "    growth: unknown, 10 steps in full in the file, 11 needed"
expect "g['size_bytes'], g['grows']" "(None, [])"
# a long run: of the steps that are in full, after those that are folded
shim_env=(VRAMSCOPE_MAX_BYTES=1MiB)
record drip 3000
expect_sql "SELECT count(*) > 0 FROM folded" 1
expect "g['per_step_bytes'], g['last_step'], 3 < g['first_step'] < 2980" "(4096, 3000, True)"
shim_env=()

# PyTorch's foreach implementations are known by their names
mkdir -p "$dir/site-packages/torch/optim"
cat >"$dir/site-packages/torch/optim/adam.py" <<'PY'
def _multi_tensor_adam(get, put):
    roots = []
    for _ in range(4):
        roots.append(get(32))
    put(roots)
PY
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


adam = runpy.run_path(sys.argv[1])["_multi_tensor_adam"]
kept, weights = [], get(64)
for _ in range(24):
    with vramscope.phase("forward"):
        activations = get(16)
    with vramscope.phase("backward"):
        put([activations])
    with vramscope.phase("optimizer"):
        adam(get, put)
    kept.append(get(1))
    vramscope.step()
put([weights])
PY
if python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 15))'; then
    new_run
    "$V" run --simulated -q -o "$db" -- python3 "$dir/train.py" "$dir/site-packages/torch/optim/adam.py" >"$run/out" 2>"$run/err" || fail "train.py: $(cat "$run/err")"
    report foreach
    says "optimizer: 128.0 MiB of it are temporaries of its foreach implementation (torch/optim/adam.py:4 _multi_tensor_adam)"
    expect "c['optimizer_foreach_bytes'] >> 20" 128
    says "leak: +1.00 MiB a step since step 1, train.py:16 get (or a cache that is not full yet) optimizer:" # the leak first
else
    echo "SKIPPED: the names of foreach: no Python whose frames are read"
fi
echo "what made the peak is said, and nothing else"
