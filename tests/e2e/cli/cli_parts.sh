#!/bin/bash
# What the peak was for, and in which layers it was made, is a few rows on the first screen that add up; diff and a job's page say which
# part changed most.
. "$(dirname "$0")/../lib/lib.bash"
export COLUMNS=80
python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 15))' || skip "no Python whose frames are read"
cat >"$dir/parts.py" <<'PY'
import ctypes
import sys

import vramscope

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
layers, size = int(sys.argv[1]), int(sys.argv[2])


def get(mib):
    p = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(mib << 20)) == 0
    return p


def model():
    for i in range(layers):
        with vramscope.phase(f"layer {i}"), vramscope.phase("forward"):
            get(size)


weights = get(10)
model()
with vramscope.phase("head"), vramscope.phase("logits"):
    get(5)
if layers == 4:
    with vramscope.phase("logits"):  # a marker that does no more than name its phase
        get(1)
PY
record() { # LAYERS MIB [NAME=VALUE...]
    local arguments=("$1" "$2")
    shift 2
    new_run
    env "$@" "$V" run --simulated -q -o "$db" -- python3 "$dir/parts.py" "${arguments[@]}" >"$run/out" 2>"$run/err" || fail "parts.py: $(cat "$run/err")"
}
says() { grep -qF -- "$1" "$run/words" || fail "it does not say '$1': $(cat "$run/page")"; }
page() { "$V" "$@" >"$run/page"; tr -s '\n ' ' ' <"$run/page" >"$run/words"; }

record 32 2
cp "$db" "$dir/small.db"
page report --all "$db"
head -n 25 "$run/page" | tr -s '\n ' ' ' >"$run/words"
says 'held by layer 64.00 MiB 81.0 % made in forward layer */forward x32 10.00 MiB 12.7 % made outside any phase no layer 5.00 MiB 6.3 % made in logits head/logits'
says 'parts.py:16 get'
[ "$(head -n 25 "$run/page" | grep -v '─' | wc -L)" -le 80 ] || fail "a line of $(head -n 25 "$run/page" | wc -L) columns: $(head -n 25 "$run/page")"
"$V" report --json "$db" >"$run/json"
python3 - "$run/json" <<'PY' || fail "JSON"
import json, sys
peak = json.load(open(sys.argv[1]))["files"][0]["devices"][0]["peak"]
rows = {(p["what"], p["layer"], p["layers"]): p["size_bytes"] >> 20 for p in peak["parts"]}
assert rows == {("made in forward", "layer */forward", 32): 64, ("made outside any phase", None, 0): 10, ("made in logits", "head/logits", 1): 5}, rows
PY

record 32 3
page diff "$dir/small.db" "$db"
says 'what changed most between the peaks: made in forward, +32.00 MiB; in layer */forward, +32.00 MiB; by parts.py:16 get, +32.00 MiB'
says 'by layer A B B - A layer */forward 64.00 MiB 96.00 MiB +32.00 MiB'
! grep -q 'by role' "$run/page" || fail "roles where none are known: $(cat "$run/page")"
mkdir "$dir/job"
record 32 2 RANK=0 WORLD_SIZE=2
mv "$db" "$dir/job/a.db"
record 32 3 RANK=1 WORLD_SIZE=2
mv "$db" "$dir/job/b.db"
page report --all "$dir/job"
says 'highest: rank 1'
says '32.00 MiB more than the lowest, rank 0: most of all made in forward, +32.00 MiB; in layer */forward, +32.00 MiB; by parts.py:16 get, +32.00 MiB'
"$V" report --json "$dir/job" >"$run/json"
python3 - "$run/json" <<'PY' || fail "JSON of the job"
import json, sys
over = json.load(open(sys.argv[1]))["jobs"][0]["max_over_min"]
assert over["size_bytes"] == over["layer_bytes"] == 32 << 20 and over["layer"] == "layer */forward" and over["min_rank"] == 0, over
PY

# the marker that names its phase is no layer, and of equal ranks none is told to be higher
record 4 2
page report --all "$db"
says '1.00 MiB 4.2 % made in logits no layer'
rm "$dir/job/b.db"
record 32 2 RANK=1 WORLD_SIZE=2
mv "$db" "$dir/job/b.db"
page report --all "$dir/job"
! grep -q 'than the lowest' "$run/page" || fail "equal ranks: $(cat "$run/page")"
echo "roles, layers and lines come first, and add up"
