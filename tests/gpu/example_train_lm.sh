#!/bin/bash
# example_train_lm.sh TREE OUT - the example on the GPU: its kernels compute what the CPU computes, and its recording adds up.
. "$(dirname "$0")/gpu.bash"
if ! device=$("$tree/bin/train_lm" --device 2>"$out/device"); then
    echo "no GPU that train_lm can use: $(cat "$out/device")"
    exit 77
fi
text=$tree/share/vramscope/LICENSE
check() { # check WHAT COMMAND...
    local what=$1
    shift
    "$@"
    verdict $? "$what"
}
echo "on $device"

# The losses of the CPU back end with the same seed; sums in another order differ in the last digits.
"$tree/bin/train_lm" --steps 20 --vocab 300 --hidden 64 --batch 128 --report 4 "$text" >"$out/small.log" 2>&1
check "the small model trains" grep -q '^ok:' "$out/small.log"
near() {
    awk 'BEGIN { split("5.7134 5.6522 5.5493 5.2945 4.7409 4.4769", want, " ") }
         $1 == "step" { n++; d = $4 - want[n]; if (d < 0) d = -d; if (d > 0.002) { print "step " $2 ": " $4 ", CPU " want[n]; bad = 1 } }
         END { exit bad || n != 6 }' "$out/small.log"
}
check "its losses are those of the CPU" near

rm -f "$out/run.db"
"$tree/bin/vramscope" run -o "$out/run.db" -- "$tree/bin/train_lm" --batch 4096 --hidden 1024 --context 16 \
    --vocab 32768 --rate 0.001 --steps 40 "$text" >"$out/run.log" 2>&1
check "the large model trains under vramscope" grep -q '^ok:' "$out/run.log"
grep -E '^(step|ok|fail)' "$out/run.log" | tail -n 3

facts() {
    python3 - "$out/run.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
one = lambda sql: db.execute(sql).fetchone()[0]
matrix = 4096 * 32768 * 4
peak, end = db.execute("SELECT peak_bytes, end_bytes FROM peak WHERE device = 0 AND kind = 'allocated'").fetchone()
checks = {
    "two matrices of logits fit under the peak": peak > 2 * matrix,
    "all is given back at the end": end == 0,
    "three logits matrices a step": one(f"SELECT count(*) FROM event WHERE op = 'alloc' AND size_bytes = {matrix}") == 3 * 40,
    "the phases are the four": {"forward", "logits", "backward", "optimizer"} <= {r[0] for r in db.execute("SELECT phase FROM phase_peak")},
    "40 steps": one("SELECT count(*) FROM step") == 40,
    "nothing lost": one("SELECT count(*) FROM loss") == 0,
}
for what, good in checks.items():
    print(("      ok   " if good else "      FAIL ") + what)
print(f"      peak {peak / 2**20:.1f} MiB")
sys.exit(not all(checks.values()))
END
}
check "the recording adds up" facts
"$tree/bin/vramscope" report --all "$out/run.db"

# The same with the fused loss.  cuBLASLt: PyTorch's own where the loader finds none.
if ! "$tree/bin/train_lm" --device --loss fused >/dev/null 2>&1 && [ -z "${LCE_CUBLASLT:-}" ]; then
    LCE_CUBLASLT=$(python3 -c 'import glob, site, sys
print(next(iter(sorted(f for p in sys.path + site.getsitepackages() for f in glob.glob(p + "/nvidia/**/libcublasLt.so.1?", recursive=True))), ""))')
    export LCE_CUBLASLT
fi
if ! why=$("$tree/bin/train_lm" --device --loss fused 2>&1 >/dev/null); then
    skip "the fused loss: $why"
    counted
    exit
fi
rm -f "$out/fused.db"
"$tree/bin/vramscope" run -o "$out/fused.db" -- "$tree/bin/train_lm" --batch 4096 --hidden 1024 --context 16 \
    --vocab 32768 --rate 0.001 --steps 40 --loss fused "$text" >"$out/fused.log" 2>&1
check "the large model trains with the fused loss" grep -q '^ok:' "$out/fused.log"
grep -E '^(step|ok|fail)' "$out/fused.log" | tail -n 3

# What the report of the naive run bounds is what the fused run has, but for what its phases hold for themselves then.
bound() {
    "$tree/bin/vramscope" report --json "$out/run.db" >"$out/run.json" && "$tree/bin/vramscope" report --json "$out/fused.db" >"$out/fused.json" &&
        python3 - "$out" <<'END'
import json, sqlite3, sys
naive, fused = (json.load(open(f"{sys.argv[1]}/{n}.json"))["files"][0]["devices"][0] for n in ("run", "fused"))
bound, peak = naive["savings"]["peak_without_bytes"], fused["peak"]["allocated_bytes"]
own = sqlite3.connect(f"{sys.argv[1]}/fused.db").execute("""SELECT sum(a.size_bytes) FROM allocation a, peak p JOIN event f ON f.seq = a.free_seq
    WHERE p.kind = 'allocated' AND p.device = 0 AND a.alloc_seq <= p.seq AND a.free_seq > p.seq AND a.device = 0
    AND (a.phase = 'logits' OR (a.phase = 'backward' AND f.phase = 'backward'))""").fetchone()[0] or 0
print(f"      bound {bound / 2**20:.1f} MiB, fused {peak / 2**20:.1f} MiB, of it its own {own / 2**20:.1f} MiB; "
      f"static {naive['savings']['static_bytes'] / 2**20:.1f} MiB of {naive['peak']['allocated_bytes'] / 2**20:.1f} MiB")
extra = fused["savings"]["static_bytes"] - naive["savings"]["static_bytes"]  # what cuBLASLt may keep
print(f"      kept by the fused loss from step to step: {extra} bytes")
sys.exit(not (naive["savings"]["without_phases"] == ["logits", "backward"] and extra >= 0
              and fused["savings"]["peak_without_bytes"] == bound + extra and bound <= peak <= bound + extra + own))
END
}
check "the fused run keeps to the bound that the naive run's report gives" bound
"$tree/bin/vramscope" diff "$out/run.db" "$out/fused.db"
"$tree/bin/vramscope" plot --overlay --labels=naive,fused "$out/run.db" "$out/fused.db" -o "$out/losses.gp"
check "the overlay is written" test -s "$out/losses.gp"
counted
