#!/bin/bash
# access.sh TREE OUT - the access ledger on a GPU: storages that a step's operations are given are seen as used, planted blocks are
# what they are, replays of a CUDA graph count.
. "$(dirname "$0")/gpu.bash"
need
status=0
"$tree/bin/vramscope" run --access -q -o "$work/train.db" -- "$python" "$here/access.py" "$work/log" || { echo "FAIL: the training ended with $?"; status=1; }
"$python" "$here/access_check.py" "$work/log" "$work/train.db" || status=1
"$tree/bin/vramscope" report --all "$work/train.db" >"$out/report.txt" 2>&1 || { echo "FAIL: report ended with $?"; status=1; }
gzip -c "$work/train.db" >"$out/train.db.gz"
exit $status
