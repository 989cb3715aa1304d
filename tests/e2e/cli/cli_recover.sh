#!/bin/bash
# After a SIGKILL every command completes the file of its own accord, `recover` finds what lies about, and a
# running process is left alone.
. "$(dirname "$0")/../lib/lib.bash"
export VRAMSCOPE_JOURNAL_DIR=$dir/journals
mkdir "$VRAMSCOPE_JOURNAL_DIR"
[ -x "$tests/prog_exit" ] || skip "prog_exit is not built"

# killed NAME [N]: a database whose process was killed after 1000 (or N) allocations, its journal still there
killed() {
    (env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/$1.db" "$tests/prog_exit" kill "${2:-1000}") >/dev/null 2>"$dir/$1.err"
    [ $? = 137 ] || fail "prog_exit kill was not killed: $(cat "$dir/$1.err")"
    [ -n "$(ls "$VRAMSCOPE_JOURNAL_DIR")" ] || fail "no journal was left"
}
allocations() { sqlite3 "$dir/$1.db" "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0"; }

for command in report peak "plot -o $dir/x.txt"; do
    killed a
    "$V" $command "$dir/a.db" >"$dir/out" 2>"$dir/err" || fail "$command: $(cat "$dir/err")"
    [ "$(allocations a)" = 1000 ] || fail "$command: $(allocations a) of 1000 allocations"
    [ -z "$(ls "$VRAMSCOPE_JOURNAL_DIR")" ] || fail "$command left the journal"
    rm "$dir/a.db"
done

killed b
"$V" report --all "$dir/b.db" | grep -Eq "^recovered: [0-9]+ events|the process was killed, or left without" || fail "report does not say that it recovered"

# by the journal's name; JSON
killed d
"$V" recover --json "$VRAMSCOPE_JOURNAL_DIR"/*.vsj >"$dir/out" || fail "recover --json"
python3 -c "
import json, sys
j = json.load(open(sys.argv[1]))['journals']
assert len(j) == 1 and j[0]['state'] == 'recovered' and j[0]['file'].endswith('/d.db'), j" "$dir/out" || fail "recover --json: $(cat "$dir/out")"

# a file's name makes no line of its own
killed $'n\ncomplete: no events lost'
"$V" recover "$VRAMSCOPE_JOURNAL_DIR"/*.vsj >"$dir/out" || fail "recover of a name with a line end"
{ [ "$(wc -l <"$dir/out")" = 1 ] && ! grep -q '^complete' "$dir/out"; } || fail "a name made a line: $(cat "$dir/out")"
rm -f "$dir"/n*

# an empty file whose journal is elsewhere
for _ in {1..50}; do # until the kill comes before the first commit: the journal still has all of it
    killed e 10
    committed=$(sqlite3 "$dir/e.db" "SELECT ring_seq FROM mark" 2>/dev/null)
    rm "$dir"/e.db*
    [ "$committed" ] || break
    rm "$VRAMSCOPE_JOURNAL_DIR"/*
done
[ ! "$committed" ] || fail "no kill came before the first commit"
: >"$dir/e.db"
"$V" report --all "$dir/e.db" >/dev/null 2>"$dir/err" || fail "empty database with a journal: $(cat "$dir/err")"
[ "$(allocations e)" = 10 ] || fail "empty database with a journal: $(allocations e) of 10"

# a running process is read as it is, and not disturbed
env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/f.db" python3 - "$BUILD/sim/libcuda.so.1" "$dir/ready" <<'PY' &
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
cuda.cuInit(0)
device, context, p = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuDeviceGet(ctypes.byref(device), 0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
cuda.cuCtxSetCurrent(context)
for i in range(10):
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0
open(sys.argv[2], "w").close()
time.sleep(60)
PY
pid=$!
for _ in $(seq 300); do [ -e "$dir/ready" ] && [ "$(allocations f)" = 10 ] && break; sleep 0.1; done
[ "$(allocations f)" = 10 ] || kill -KILL $pid
[ "$(allocations f)" = 10 ] || fail "the running process has no database yet"
"$V" report --all "$dir/f.db" >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "report of a running process: $(cat "$dir/err")"
grep -q "^still running: pid $pid" "$dir/out" || fail "report does not say that the process runs: $(cat "$dir/out")"
"$V" recover "$dir/f.db" | grep -q "still running, left alone" || fail "recover of a running process"
kill -KILL $pid
wait $pid 2>/dev/null
"$V" report --all "$dir/f.db" >"$dir/out" || fail "report after the kill"
[ "$(allocations f)" = 10 ] || fail "after the kill: $(allocations f) of 10 allocations"
# recover without operands finds it; a second time there is nothing.  What others left in /dev/shm is theirs: it is not
# seen here, or nothing is recovered where it cannot be hidden.
alone() { unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh "$@"; }
if ! alone true 2>/dev/null; then
    others=$(find /dev/shm -maxdepth 1 -name '*.vsj' -readable)
    [ -z "$others" ] || skip "all but recover without operands was tested: it would recover others' journals, $others"
    alone() { "$@"; }
fi
killed c
(cd "$dir" && alone "$V" recover >out 2>err) || fail "recover: $(cat "$dir/err")"
grep -Eq "c.db: [0-9]+ events recovered" "$dir/out" || fail "recover said: $(cat "$dir/out")"
[ "$(allocations c)" = 1000 ] || fail "recover: $(allocations c) of 1000 allocations"
(cd "$dir" && alone "$V" recover) | grep -q "no journal was left behind" || fail "recover found something twice"
"$V" recover "$dir/c.db" | grep -q "c.db: complete, nothing to recover" || fail "recover of a complete file"
echo "recovered"
