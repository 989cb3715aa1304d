#!/bin/bash
# A file is called complete where something in it says so, and nowhere else, whatever ended the process or its recovery.  The first line of the
# report, a field of the JSON, the picture's title, the page of a job and the exit status say the same.
. "$(dirname "$0")/../lib/lib.bash"
journals=$dir/journals
export VRAMSCOPE_JOURNAL_DIR=$journals
mkdir "$journals"
"${CC:-cc}" -shared -fPIC -o "$dir/disk.so" "$(dirname "$0")/disk.c" || fail "disk.c"

# killed DATABASE: by SIGKILL after 24000 allocations; $journal has what the file has not
killed() {
    db=$1
    (env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" "$tests/prog_exit" kill 24000) >/dev/null 2>&1
    journal=$(find "$journals" -name '*.vsj')
    [ -n "$journal" ] || fail "no journal was left"
}
# The same, until the kill finds the file begun, and no more than half of it there.
killed_early() {
    local written
    for _ in {1..30}; do
        killed "$1"
        rm -f "$dir"/looked-at/*
        cp "$1"* "$dir/looked-at" # looking does not change what is left
        written=$(sqlite3 "$dir/looked-at/${1##*/}" "SELECT count(*) FROM ev" 2>/dev/null) && [ "$written" -le 12000 ] && return
        rm "$1"* "$journal"
    done
    fail "no kill came early enough"
}
mkdir "$dir/looked-at"
allocations() { ask "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0"; }
# says STATUS LINE DATABASE: all readers agree, and the report's first line says why
says() {
    local title
    "$V" report --all "$3" >"$dir/report" 2>"$dir/err"
    [ $? = "$1" ] || fail "report $3: not status $1: $(cat "$dir/report" "$dir/err")"
    head -n 1 "$dir/report" | grep -Eq "^$2" || fail "report $3 begins: $(head -n 1 "$dir/report"), not '$2'"
    "$V" report --json "$3" >"$dir/json"
    [ $? = "$1" ] || fail "report --json $3: not status $1"
    python3 -c "
import json, sys
f = json.load(open(sys.argv[1]))['files'][0]
assert f['complete'] == (sys.argv[2] == '0') and (f['end_line'] is None) == f['complete'], (f['complete'], f['end'], f['end_line'])" \
        "$dir/json" "$1" || fail "report --json $3 says otherwise"
    "$V" peak "$3" >"$dir/peak" 2>&1
    [ $? = "$1" ] || fail "peak $3: not status $1: $(cat "$dir/peak")"
    [ "$1" = 0 ] || head -n 1 "$dir/peak" | grep -Eq "^$2" || fail "peak $3 begins: $(head -n 1 "$dir/peak")"
    "$V" diff "$3" "$dir/clean.db" >"$dir/diff" 2>&1
    [ $? = "$1" ] || fail "diff $3: not status $1: $(cat "$dir/diff")"
    [ "$1" = 0 ] || ! grep -q '^complete' "$dir/report" || fail "report $3 says complete as well"
    ! grep -q 'no allocation of device memory is in the file' "$dir/report" || return
    title=$("$V" plot "$3" 2>"$dir/err" | head -n 1)
    [ "$1" = 0 ] || grep -Eq "^vramscope: plot: .*: $2" "$dir/err" || fail "plot $3 says nothing: $(cat "$dir/err")"
    [ "$1" = 0 ] || [[ $title = *INCOMPLETE* || $title = *"still running"* ]] || fail "the picture of $3 is called '$title'"
}
gone='INCOMPLETE: its journal .* is gone \(reboot, container\)'

# a clean end
env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/clean.db" "$tests/prog_exit" return 100 >/dev/null 2>&1
cp "$dir/clean.db" "$dir/clean2.db"
says 0 "complete" "$dir/clean2.db"
"$V" recover "$dir/clean.db" >"$dir/out" || fail "recover of a clean file: $?"

# a kill and its recovery, with what nothing disturbed
killed "$dir/whole.db"
says 0 "complete" "$dir/whole.db"
[ "$(allocations)" = 24000 ] || fail "$(allocations) of 24000 allocations"
"$V" report --all "$dir/whole.db" | grep -q '^the process was killed, or left without its exit handlers' || fail "the end of a killed one: $("$V" report --all "$dir/whole.db" | head -n 5)"
"$V" report --json "$dir/whole.db" | grep -q '"came_to_exit": false' || fail "report --json of a kill"
"$V" check "$dir/whole.db" --max-peak=100GiB >"$dir/check"
[ $? = 3 ] || fail "check of a kill: $(cat "$dir/check")"
grep -q 'the process was killed or left without its exit handlers: ' "$dir/check" || fail "check of a kill says: $(cat "$dir/check")"

# a recovery is killed in front of each of its first changes, and then of ever rarer ones.  What is there when the journal
# goes at that moment (with its container) is not complete, unless the file says so; what is repeated is.
killed_early "$dir/run.db"
mkdir "$dir/kept"
cp "$journal" "$dir/kept.vsj"
cp "$dir"/run.db* "$dir/kept"
stages=0 finished=0 partly=0
killed_at() { # N: in front of that change; false where there is none
    rm -f "$dir"/run.db*
    cp "$dir"/kept/run.db* "$dir"
    cp "$dir/kept.vsj" "$journal"
    (LD_PRELOAD=$dir/disk.so KILL_AT=$1 "$V" recover "$journal") >"$dir/out" 2>"$dir/err"
    status=$?
    [ $status != 0 ] || return 1
    [ $status = 137 ] || fail "recovery killed at change $1: $status: $(cat "$dir/err")"
    stages=$((stages + 1))
    rm -rf "$dir/container" && mkdir "$dir/container" && cp "$dir"/run.db* "$dir/container" # without the journal
    mv "$journal" "$dir/aside.vsj" 2>/dev/null
    "$V" report --all "$dir/container/run.db" >"$dir/report" 2>"$dir/err"
    status=$?
    db=$dir/container/run.db
    case $status in
    0)  [ "$(allocations)" = 24000 ] || fail "killed at change $1: called complete with $(allocations) of 24000"
        finished=$((finished + 1)) ;;
    2)  grep -q "is empty, and this host has no journal of it" "$dir/err" || fail "killed at change $1: $(cat "$dir/err")" ;;
    3)  head -n 1 "$dir/report" | grep -Eq "^$gone" || fail "killed at change $1: $(head -n 1 "$dir/report")"
        [ "$(allocations)" = 0 ] || partly=$((partly + 1)) ;;
    *)  fail "killed at change $1: report: $status" ;;
    esac
    [ ! -e "$dir/aside.vsj" ] || mv "$dir/aside.vsj" "$journal"
    db=$dir/run.db
    "$V" report --all "$db" >"$dir/report" 2>"$dir/err" || fail "repeated after change $1: $(cat "$dir/report" "$dir/err")"
    [ "$(allocations)" = 24000 ] || fail "repeated after change $1: $(allocations) of 24000"
    expect_sql "SELECT count(*) FROM loss" 0
}
last=0
for ((n = 1; ; n += 1 + n / 2)); do
    killed_at $n || break
    last=$n
done
# the last change is found, if the steps have left out all those after the last commit
while [ $finished = 0 ] && [ $((n - last)) -gt 1 ]; do
    if killed_at $(((n + last) / 2)); then last=$(((n + last) / 2)); else n=$(((n + last) / 2)); fi
done
[ $stages -ge 10 ] || fail "only $stages stages"
[ $finished -ge 1 ] && [ $partly -ge 1 ] || fail "$stages stages, $partly in the middle, $finished finished"
rm -f "$journal" # of a recovery that was killed in front of its end

# the same with a limit on the size of files, as with a full disk: one line says so, and then all is there
killed_early "$dir/full.db"
(ulimit -f 400 && exec "$V" report --all "$db") >"$dir/report" 2>"$dir/err"
[ $? = 3 ] || fail "a recovery without room: $(cat "$dir/report" "$dir/err")"
head -n 1 "$dir/report" | grep -q "^INCOMPLETE: its journal $journal can't be merged: $db: " || fail "without room: $(head -n 1 "$dir/report")"
(ulimit -f 400 && exec "$V" recover "$journal") >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "recover without room: not status 3"
[ -e "$journal" ] || fail "a recovery without room took the journal away"
cp "$journal" "$dir/kept.vsj"
rm "$journal"
says 3 "$gone" "$db"
[ "$(allocations)" -lt 24000 ] || fail "a limit of 200 KiB kept nothing back"
cp "$dir/kept.vsj" "$journal"
says 0 "complete" "$db"
[ "$(allocations)" = 24000 ] || fail "with room: $(allocations) of 24000"

# the path of a journal that is gone is another run's by now
killed_early "$dir/old.db"
mv "$journal" "$dir/theirs.vsj"
(ulimit -f 400 && exec "$V" recover "$dir/theirs.vsj") >/dev/null 2>&1 # the file is begun, and names it
named=$(ask "SELECT value FROM meta WHERE key = 'journal'")
killed "$dir/new.db"
mv "$journal" "$named"
says 3 "$gone" "$dir/old.db"
[ -e "$named" ] || fail "another run's journal was merged"
rm -f "$named" "$dir"/theirs.vsj

# a job says it of its ranks
mkdir "$dir/job"
for r in 0 1; do RANK=$r WORLD_SIZE=2 LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/job/$r.db" "$tests/prog_exit" return 100 >/dev/null 2>&1; done
"$V" report --all "$dir/job" >"$dir/report" || fail "a whole job: $?"
cp "$dir/job/0.db" "$dir/rank0.db"
cp "$dir/old.db" "$dir/job/2.db"
"$V" report --all "$dir/job" >"$dir/report"
[ $? = 3 ] || fail "a job with an incomplete file: not status 3"
grep -q "INCOMPLETE: its journal is gone" "$dir/report" || fail "the page of a job does not say it: $(cat "$dir/report")"
rm "$dir/job"/[02].db
"$V" report --all "$dir/job" "$dir/clean.db" >"$dir/report"
[ $? = 3 ] || fail "a job that lacks a rank: not status 3"

# a file whose triggers would undo what the journal has: they do not run; one whose tables somebody has changed: not written to
killed_early "$dir/trigger.db"
sqlite3 "$db" "CREATE TRIGGER undo AFTER INSERT ON ev BEGIN DELETE FROM ev WHERE seq = NEW.seq; END"
says 0 complete "$db"
[ "$(allocations)" = 24000 ] || fail "a trigger has run: $(allocations) allocations are left"
killed_early "$dir/changed.db"
sqlite3 "$db" "ALTER TABLE ev ADD COLUMN twice INT AS (seq * 2)"
"$V" recover "$journal" >"$dir/out" 2>&1 && fail "a changed file was written to"
grep -q "has tables that somebody has changed, and is not written to" "$dir/out" || fail "recover of a changed file: $(cat "$dir/out")"
[ -e "$journal" ] || fail "the journal of a changed file is gone"
rm "$journal"

# a process that runs
LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/live.db" python3 - "$BUILD/sim/libcuda.so.1" >/dev/null 2>&1 <<'PY' &
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
cuda.cuInit(0)
device, context, p = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuDeviceGet(ctypes.byref(device), 0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
cuda.cuCtxSetCurrent(context)
assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0
time.sleep(60)
PY
pid=$!
db=$dir/live.db
for ((i = 0; i < 200; i++)); do
    sleep 0.05
    [ -s "$db" ] && [ "$(ask 'SELECT count(*) FROM ev')" = 1 ] && break
done
says 3 "still running: pid $pid" "$db"
"$V" recover "$db" >"$dir/out"
[ $? = 3 ] || fail "recover of a running process's file: not status 3"
kill -KILL $pid
wait $pid 2>/dev/null
says 0 "complete" "$db"
echo "complete from evidence: killed at $stages moments"
