#!/bin/bash
# access.sh TREE OUT - the access ledger on a GPU: every storage that the operations of a training step are given is seen as used, planted blocks (never
# used, freed late, allocated early, idle) are what they are, replays of a CUDA graph count.
# Output on stdout; status 0 where all agrees.  Needs PyTorch ($TEST_PYTHON or python3).
. "$(dirname "$0")/gpu.bash"
need
status=0
"$tree/bin/vramscope" run --access -q -o "$work/train.db" -- "$python" "$here/access.py" "$work/log" || { echo "FAIL: the training ended with $?"; status=1; }
"$python" "$here/access_check.py" "$work/log" "$work/train.db" || status=1
"$tree/bin/vramscope" report --all "$work/train.db" >"$out/report.txt" 2>&1 || { echo "FAIL: report ended with $?"; status=1; }
gzip -c "$work/train.db" >"$out/train.db.gz"
exit $status
