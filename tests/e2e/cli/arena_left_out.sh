#!/bin/bash
# A build without the arena (-DVRAMSCOPE_ARENA=OFF): who asks for it is told so in one line, and everything is recorded
# as without it.
set -u
grep -q '^VRAMSCOPE_ARENA:BOOL=OFF' "$BUILD/CMakeCache.txt" || { echo "skip: this build has the arena"; exit 77; }
V=$BUILD/bin/vramscope
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
export SIMCUDA_BANNER=0 LD_LIBRARY_PATH=$BUILD/sim
failed=0
fail() { echo "FAIL: $1"; failed=1; }
lines() { [ "$(grep -c "the arena is not in this build of vramscope" "$1")" = 1 ] || fail "$2: $(cat "$1")"; }
# recorded FILE: allocations of the driver's are in it, none of an arena's
recorded() {
    python3 - "$1" <<'P' || fail "what $1 has"
import sqlite3, sys
ops = dict(sqlite3.connect(sys.argv[1]).execute("SELECT op, count(*) FROM event GROUP BY op"))
print(ops)
sys.exit(not ops.get("alloc") or any("arena" in op for op in ops))
P
}
program=$BUILD/tests/prog_linked

"$V" run --allocator=arena -o refused.db -- "$program" >said 2>&1
[ $? = 2 ] || fail "run --allocator=arena is not refused"
lines said "run --allocator=arena"
[ ! -e refused.db ] || fail "run --allocator=arena made a file"

VRAMSCOPE_ALLOCATOR=arena "$V" run -q -o run.db -- "$program" >said 2>&1 || fail "run ended with $?"
lines said "run with the variable"
recorded run.db

VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT=$work/preload.db LD_PRELOAD=$BUILD/lib/libvramscope.so "$program" >said 2>&1 ||
    fail "the program under LD_PRELOAD ended with $?"
lines said "LD_PRELOAD with the variable"
recorded preload.db

VRAMSCOPE_OUTPUT=$work/plain.db LD_PRELOAD=$BUILD/lib/libvramscope.so "$program" >said 2>&1
grep -q arena said && fail "the arena is spoken of although nobody asked: $(cat said)"

VRAMSCOPE_ALLOCATOR=arena "$V" doctor --quick >said
lines said "doctor with the variable"
"$V" doctor --quick | grep -qE '^[a-zA-Z]+ +arena' && fail "doctor speaks of an arena although nobody asked"

# the Python hook finds no allocator to give to PyTorch, and says nothing of its own
if [ -n "${TEST_PYTHON:-}" ]; then
    VRAMSCOPE_ALLOCATOR=arena "$V" run -q -o python.db -- "$TEST_PYTHON" -c 'import torch' >said 2>&1 || fail "python ended with $?"
    lines said "python under run"
    [ "$(wc -l <said)" = 1 ] || fail "more than one line: $(cat said)"
fi
exit $failed
