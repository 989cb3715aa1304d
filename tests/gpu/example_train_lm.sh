#!/bin/bash
# example_train_lm.sh TREE OUT - the example on the GPU: its kernels compute what the CPU computes, and its recording
# adds up.
#
# TREE: an installed vramscope.  OUT: folder for what it makes.  Exit 77 without a GPU.
set -u
tree=$(realpath "$1") out=$2
mkdir -p "$out"
if ! device=$("$tree/bin/train_lm" --device 2>"$out/device"); then
    echo "no GPU that train_lm can use: $(cat "$out/device")"
    exit 77
fi
text=$tree/share/vramscope/LICENSE
failed=0
check() { # check WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then
        echo "ok    $what"
    else
        echo "FAIL  $what"
        failed=1
    fi
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
"$tree/bin/vramscope" report "$out/run.db"
exit $failed
