#!/bin/bash
# What is reserved and not allocated in imports is taken apart as a second allocator, which knows all of its blocks, says it, and the parts
# add up to the byte.  Recordings: live.sh.
. "$(dirname "$0")/../lib/lib.bash"
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
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
    python3 "$here/unused.py" "${name##*/}" "$name.json" <"$dir/peak" || fail "an import"
done

echo "imports and refusals are taken apart as their allocator says"
