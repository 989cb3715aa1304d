#!/bin/bash
# What is reserved and not allocated is taken apart as a second allocator, which knows all of its blocks, says it, and the parts add up to
# the byte.
. "$(dirname "$0")/../lib/lib.bash"
export PYTHONPATH=$here:$here/../../../shim/framework/python PYTHONDONTWRITEBYTECODE=1
cat >"$dir/compare.py" <<'PY'
"""compare.py NAME EXPECTED < peak --json: of the first device."""
import json
import sys

name, expected = sys.argv[1], json.loads(open(sys.argv[2]).read())
device = json.load(sys.stdin)["files"][0]["devices"][0]
u = device["out_of_memory"]["not_allocated"] if "usable" in expected else device["not_allocated"]
rows = {}
for r in u["rows"]:
    rows.setdefault(r["kind"], []).append(r)
size = lambda kind: sum(r["size_bytes"] for r in rows.get(kind, []))
whole = lambda kind: [size(kind), sum(r["pieces"] for r in rows.get(kind, [])), max((r["largest_bytes"] for r in rows.get(kind, [])), default=0)]
got = {"cached": whole("cached"), "waiting": whole("waiting"), "rounding": size("rounding"), "allocated": u["allocated_bytes"],
       "pools": sorted(r["size_bytes"] for r in rows.get("private pool", [])), "reserved": u["reserved_bytes"]}
if "usable" in expected:
    got["usable"] = sum(r["usable_bytes"] for k in ("cached", "private pool") for r in rows.get(k, []))
assert sum(r["size_bytes"] for r in u["rows"]) == u["not_allocated_bytes"] == u["reserved_bytes"] - u["allocated_bytes"], (name, u)
assert got == expected, f"{name}:\n  got      {got}\n  expected {expected}"
PY

# ---- imports ----
python3 - "$dir" <<'PY' || fail "no snapshots"
import json
import os
import sys

from torch_allocator import MIB, POOL, Allocator, OutOfMemory, dump, program

CASES = {
    "native": ({}, {}),
    "streams": ({}, {"streams": (0, 7, 0x55), "deferred": 0.6}),
    "pools": ({}, {"streams": (0, 7, POOL, 2 * POOL), "deferred": 0.5, "empty": 0.3}),
    "roundup": ({"roundup": 4}, {"deferred": 0.4}),
    "split": ({"max_split": 24 * MIB}, {"deferred": 0.4}),
    "expandable": ({"expandable": True}, {"streams": (0, 7), "deferred": 0.5}),
    "expandable_pools": ({"expandable": True}, {"streams": (0, 7, POOL), "deferred": 0.3}),
}
for seed in range(6 if os.environ.get("FULL") else 2):
    for name, (settings, options) in CASES.items():
        a = Allocator(seed=seed, **settings)
        program(a, 5 + seed, seed, **options)
        a.malloc(16 << 30)  # with which most is allocated
        dump(f"{sys.argv[1]}/{name}{seed}.pickle", [a])
        with open(f"{sys.argv[1]}/{name}{seed}.json", "w") as f:
            json.dump(a.unused(True), f)
for seed, requested in enumerate((200 * MIB, MIB - 512, 35 * MIB, 9 * MIB, 3 * MIB)):  # refused at the end
    a = Allocator(seed=seed)
    program(a, 6, seed, streams=(0, 7, POOL))
    a.capacity = a.reserved()
    stream = (0, 7, POOL)[seed % 3]
    while True:
        try:
            a.malloc(requested, stream)
        except OutOfMemory:
            break
    small = a.round(requested) <= MIB
    usable = sum(b.size for b in a.free_blocks(stream, small))
    dump(f"{sys.argv[1]}/refused{seed}.pickle", [a])
    with open(f"{sys.argv[1]}/refused{seed}.json", "w") as f:
        json.dump({**a.unused(True), "usable": usable}, f)
PY
for pickle in "$dir"/*.pickle; do
    name=${pickle%.pickle} at=
    "$V" import -o "$name.db" "$pickle" >"$dir/import" 2>&1 || fail "$name: $(cat "$dir/import")"
    case $name in */refused*) at=--at=oom ;; esac
    # shellcheck disable=SC2086
    "$V" peak $at --json "$name.db" >"$dir/peak" || fail "peak $name"
    python3 "$dir/compare.py" "${name##*/}" "$name.json" <"$dir/peak" || fail "an import"
done

# ---- recordings ----
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
mkdir "$dir/lib"
build() { "${CC:-cc}" -std=gnu11 -O1 -I"$include" -shared -fPIC -o "$dir/lib/$1" "$here/live_torch.c" "${@:2}" || fail "$1 can't be built"; }
build libcudart.so.13 -DRUNTIME -Wl,-soname,libcudart.so.13
build libc10.so -DREAL -Wl,-soname,libc10.so
build libc10_cuda.so -DCALLER -Wl,-z,now -Wl,-rpath,"\$ORIGIN" "$dir/lib/libc10.so" "$dir/lib/libcudart.so.13" "$BUILD/sim/libcuda.so.1"
for case in native streams roundup pools old_pools graphs expandable; do
    shim_env=(PYTORCH_ALLOC_CONF="$(python3 "$here/live_allocator.py" conf "$case")" SIMCUDA_CAPACITY=16GiB VRAMSCOPE_AUTO_PHASES=off
        VRAMSCOPE_REEXEC=off UNUSED="$dir/live.json")
    shimmed python3 "$here/live_allocator.py" "$dir/lib/libc10_cuda.so" "$case"
    [ "$status" = 0 ] || fail "$case: status $status"
    "$V" peak --json "$db" >"$dir/peak" || fail "peak $case"
    python3 "$dir/compare.py" "$case" "$dir/live.json" <"$dir/peak" || fail "a recording"
    [ "$case" != streams ] || cp "$db" "$dir/streams.db"
done
# freed blocks that wait for a stream have its number, and the line that called record_stream
"$V" peak "$dir/streams.db" >"$dir/peak" || fail "peak streams"
grep -q "freed, waits for stream [2-9]: [0-9]* blocks, record_stream() at live_allocator.py:[0-9]* Live.free; free when" "$dir/peak" ||
    fail "what waits: $(grep -A20 'not allocated' "$dir/peak")"
# a CUDA graph's capture has the line that made it, and its pool's memory
shim_env=(SIMCUDA_CAPACITY=16GiB VRAMSCOPE_AUTO_PHASES=off VRAMSCOPE_REEXEC=off)
shimmed python3 "$here/live_allocator.py" "$dir/lib/libc10_cuda.so" graphs
"$V" peak --by capture "$db" >"$dir/peak" || fail "peak --by capture"
[ "$(grep -c 'live_allocator.py:[0-9]* graphs' "$dir/peak")" = 3 ] || fail "three captures: $(cat "$dir/peak")"
grep -q "in no capture" "$dir/peak" || fail "what no capture holds: $(cat "$dir/peak")"
"$V" report --all "$db" | grep -q "private pool.* of CUDA graphs: captured in 2 captures, the first at live_allocator.py:[0-9]* graphs" ||
    fail "a pool of two captures: $("$V" peak "$db" | grep -A20 'not allocated')"
echo "imports, refusals and recordings are taken apart as their allocator says"
