#!/bin/bash
# Snapshots as PyTorch 2.15 writes them: pools that are gone, words of the program, lines below native frames, the optimizer's marked
# steps, page-locked memory; and what is damaged in them is one line, or is left out.
set -u
BUILD=${BUILD:?the build directory}
HERE=$(cd "$(dirname "$0")" && pwd)
V=$BUILD/bin/vramscope
command -v sqlite3 >/dev/null || { echo "no sqlite3" && exit 77; }
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
export COLUMNS=400 # no sentence is broken
failures=0
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_newest.py" . >made || exit 1
is() { # DB SQL EXPECTED
    local got
    got=$(sqlite3 -batch -noheader "$1" "$2" 2>&1)
    [ "$got" = "$3" ] || no "$1: $2: '$got', not '$3'"
}
import() { "$V" import -o "$1.db" "$1.pickle" >out 2>&1 || no "import $1: $(cat out)"; }

# the line is the innermost of the program's Python frames, wherever native ones lie; under a node it is the node, and under none there is none
import known
is known.db "SELECT size_bytes >> 20, line FROM allocation WHERE op = 'block_alloc' AND size_bytes < 6 << 20 ORDER BY 1" "1|/app/model.py:10 forward
2|/app/train:7 <module>
3|AddmmBackward0
4|
5|/app/torch/trainer.py:3 step"
is known.db "SELECT count(*) FROM frame WHERE function IS NULL OR function IN ('?', '??') OR (kind = 1 AND line IS NOT NULL)" 0
is known.db "SELECT count(*) FROM frame WHERE kind = 1 AND function = '_PyEval_EvalFrameDefault'" 1
is known.db "SELECT DISTINCT owner FROM allocation WHERE op = 'block_alloc'" libtorch_cpu.so
[ $failures = 0 ] && echo "ok"
exit $((failures > 0))
