#!/usr/bin/env bash
# report_causes.sh TREE OUT - what made the peak, as the first screen of a report says it, of runs whose cause is known.
#
# TREE: an installed vramscope.  OUT: folder for databases.  Needs a GPU and PyTorch, takes about a minute.
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
counted
