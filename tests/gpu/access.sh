#!/bin/bash
# access.sh TREE OUT - the access ledger on a GPU: every storage that the operations of a training step are given is seen as used, planted blocks (never
# used, freed late, allocated early, idle) are what they are, replays of a CUDA graph count; what a launch costs with and without it.
# Output on stdout; status 0 where all agrees.  Needs PyTorch ($TEST_PYTHON or python3).
. "$(dirname "$0")/gpu.bash"
tree=${1:?TREE: an installed tree} out=${2:?OUT: a folder}
here=$(cd "$(dirname "$0")" && pwd)
need
status=0
"$tree/bin/vramscope" run --access -q -o "$work/train.db" -- "$python" "$here/access.py" train "$work/log" || { echo "FAIL: the training ended with $?"; status=1; }
"$python" "$here/access_check.py" "$work/log" "$work/train.db" || status=1
"$tree/bin/vramscope" report --all "$work/train.db" >"$out/report.txt" 2>&1 || { echo "FAIL: report ended with $?"; status=1; }
gzip -c "$work/train.db" >"$out/train.db.gz"
for mode in recorded access; do
    for round in 1 2; do
        case $mode in
        recorded) command=("$tree/bin/vramscope" run -q -o "$work/time-$mode-$round.db" --) ;;
        access) command=("$tree/bin/vramscope" run --access -q -o "$work/time-$mode-$round.db" --) ;;
        esac
        echo "-- $mode $round"
        "${command[@]}" "$python" "$here/access.py" time 120 || status=1
    done
done
for db in "$work"/time-*.db; do
    echo "$(basename "$db"): $(stat -c %s "$db") bytes, $("$python" -c "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT (SELECT count(*) FROM ev), (SELECT count(*) FROM access)').fetchone(), 'events, blocks followed')" "$db")"
done
exit $status
