#!/bin/bash
# Memory of CUDA graphs' nodes and stream-ordered pools that no call allocates has its name, line and bytes in report, check, plot and JSON.
. "$(dirname "$0")/../lib/lib.bash"
shim_env=(SIMCUDA_CAPACITY=4GiB)
says() { # TEXT...
    "$V" report --all "$db" >"$run/report" 2>&1 || fail "report: $(cat "$run/report")"
    for text; do grep -qF -- "$text" "$run/report" || fail "the report does not say '$text': $(head -n 30 "$run/report")"; done
}
row() { # WHERE KIND BYTES: the only row of a JSON path, which adds up
    "$V" report --json "$db" | python3 -c '
import json, sys
f = json.load(sys.stdin)["files"][0]
u = f["out_of_memory"]["not_allocated"] if sys.argv[1] == "oom" else f["devices"][0]["not_allocated_at_most_reserved"]
assert [(r["kind"], r["size_bytes"]) for r in u["rows"]] == [(sys.argv[2], int(sys.argv[3]))], u
assert u["not_allocated_bytes"] == u["reserved_bytes"] - u["allocated_bytes"] == int(sys.argv[3]), u' "$@" || fail "$*"
}
mib=$((1 << 20))

run_shimmed "$tests/prog_unused" graph
says "memory was reserved and nothing allocated" "of 192.0 MiB reserved at the most, at" \
    "192.0 MiB (100.0 %) memory nodes of CUDA graphs: 3 nodes, most of them of "
grep -q "nothing was ever allocated" "$run/report" && fail "a device with 192 MiB of graphs was never used"
row most "CUDA graphs" $((192 * mib))
"$V" report "$db" >"$run/first"
grep -qx "device 0: memory was reserved and nothing allocated" "$run/first" && grep -qF "192.0 MiB (100.0 %) memory nodes of CUDA graphs" "$run/first" ||
    fail "the first screen: $(cat "$run/first")"
"$V" check --max-peak=100MiB "$db" >"$run/check"
[ $? = 1 ] || fail "check --max-peak=100MiB: $(cat "$run/check")"
grep -q "192.0 MiB of it are held for memory nodes of CUDA graphs" "$run/check" || fail "$(cat "$run/check")"
"$V" check --max-peak=192MiB "$db" >"$run/check" || fail "check --max-peak=192MiB: $(cat "$run/check")"

run_shimmed "$tests/prog_unused" refused
says "384.0 MiB (85.7 %) memory nodes of CUDA graphs: 3 nodes, most of them of "
row oom "CUDA graphs" $((384 * mib))
"$V" check --max-peak=447MiB "$db" >"$run/check" && fail "448 MiB are within 447: $(cat "$run/check")"

"$V" plot "$db" >"$run/plot" 2>&1
grep -q "reserved beside it then: nodes of CUDA graphs 384.0 MiB" "$run/plot" || fail "the plot: $(head -n 5 "$run/plot")"

run_shimmed "$tests/prog_unused" pool
says "1.00 GiB (94.1 %) stream-ordered pool: of prog_unused, made to grow by "
row oom "stream-ordered pool" $((1024 * mib))

run_shimmed "$tests/prog_unused" pools
says "256.0 MiB (33.2 %) 2 stream-ordered pools: 512.0 MiB held for prog_unused, made to grow by " \
    "; 256.0 MiB held for prog_unused, made to grow by "
row most "stream-ordered pool" $((256 * mib))

run_shimmed "$tests/prog_unused" import
says "imported: up to 512.0 MiB of other processes' or interfaces' memory were open here, in no total of this process"
echo "what the driver holds and nobody allocated is named"
