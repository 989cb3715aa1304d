#!/usr/bin/env bash
# phases_by_hand.sh TREE OUT - markers and real NVTX ranges of a PyTorch program: the peak of each range is the one of torch's own counter.
python=python3
. "$(dirname "$0")/gpu.bash"
need
rm -f "$out/hand.db"
"$tree/bin/vramscope" run -o "$out/hand.db" -- python3 "$here/phases_by_hand.py" >"$out/hand.expected" 2>"$out/hand.stderr" || { cat "$out/hand.stderr"; exit 1; }
python3 - "$out" <<'PY'
import sqlite3, sys
out = sys.argv[1]
db = sqlite3.connect(out + "/hand.db")
bad = 0
for line in open(out + "/hand.expected"):
    name, peak, count = line.split()
    # the torch counter is the framework's: take the direct bytes of the moment off
    got = db.execute("SELECT max(e.framework_bytes), count(DISTINCT r.id) FROM range r JOIN event e ON e.t_ns BETWEEN r.t_push_ns AND r.t_pop_ns "
                     "AND e.device = 0 WHERE r.name = ? AND r.id = (SELECT max(id) FROM range WHERE name = ?)", (name, name)).fetchone()
    ranges = db.execute("SELECT count(*), sum(t_pop_ns IS NULL) FROM range WHERE name = ? AND phase = ?", (name, name)).fetchone()
    good = got[0] == int(peak) and ranges == (int(count), 0)
    bad += not good
    print("ok  " if good else "FAIL", name, "peak", got[0], "torch says", peak, "ranges", ranges)
detail = db.execute("SELECT count(*), count(nullif(phase, 'none')) FROM range WHERE name = 'library detail'").fetchone()
print("ok  " if detail == (3, 0) else "FAIL", "an NVTX range that names no phase is recorded as a range:", detail)
steps = db.execute("SELECT count(*) FROM step").fetchone()[0]
print("ok  " if steps == 3 else "FAIL", "steps", steps)
sys.exit(bool(bad) or detail != (3, 0) or steps != 3)
PY
