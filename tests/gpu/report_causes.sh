#!/usr/bin/env bash
# report_causes.sh TREE OUT - what made the peak, as the first screen of a report says it, of runs whose cause is known; and how
# long it takes to name the call stacks of a run of a million events.
#
# TREE: an installed vramscope.  OUT: folder for databases.  Needs a GPU and PyTorch, takes about three minutes.
# Ends with "N passed, N failed"; exit 77 without a GPU.
. "$(dirname "$0")/gpu.bash"
need
for case in logits foreach single fused kept leak; do
  rm -f "$out/$case.db"
  timeout 90 "$V" run -q -o "$out/$case.db" -- "$python" "$here/report_causes.py" train $case 16 "$out/$case.json" >"$out/$case.log" 2>&1 ||
    tail -n 3 "$out/$case.log"
  "$python" "$here/report_causes.py" check $case "$out/$case.db" "$out/$case.json" "$V"
  verdict $?
done
rm -f "$out/many.db"
VRAMSCOPE_STACKS=all timeout 150 "$V" run -q -o "$out/many.db" -- "$python" "$here/report_causes.py" train many 300 "$out/many.json" >"$out/many.log" 2>&1 ||
  tail -n 3 "$out/many.log"
"$python" - "$V" "$out/many.db" <<'PY'
import sqlite3
import subprocess
import sys
import time

V, path = sys.argv[1:]
db = sqlite3.connect(path)
events = db.execute("SELECT count(*) FROM ev").fetchone()[0]
db.execute("UPDATE frame SET function = NULL, file = NULL, line = NULL WHERE kind = 1")
db.execute("DELETE FROM meta WHERE key = 'named_frames'")
db.commit()
began = time.monotonic()
subprocess.run([V, "report", "--all", path], stdout=subprocess.DEVNULL, check=True)
took = time.monotonic() - began
frames, named = db.execute("SELECT count(*), count(function) FROM frame WHERE kind = 1").fetchone()
good = events >= 1000000 and took <= 10 and named > frames / 2
print(f"{'PASS' if good else 'FAIL'} names: {named} of {frames} frames and the report in {took:.2f} s, {events} events")
sys.exit(not good)
PY
verdict $?
rm -f "$out"/many.db*
counted
