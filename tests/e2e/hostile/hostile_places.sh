#!/bin/bash
# On full disks, in read-only and vanishing directories the program's output and status stay its own, one line says what is wrong, and what was
# recorded is in the database or in the journal.
. "$(dirname "$0")/../lib/lib.bash"

# Mounts need a namespace of our own.
if [ -z "${IN_NAMESPACE:-}" ]; then
    unshare -m true 2>/dev/null || skip "there may be no mount namespace here"
    rmdir "$dir" # exec runs no trap; the next shell makes its own
    IN_NAMESPACE=1 exec unshare -m bash "$0"
fi
mount -t tmpfs -o size=64k none /mnt 2>/dev/null || skip "there may be no tmpfs here"
umount /mnt
trap 'umount -l "$dir"/*/ 2>/dev/null; rm -rf "$dir"' EXIT

# place NAME SIZE: a file system of its own at $place
place() {
    place=$dir/$1
    mkdir -p "$place"
    mount -t tmpfs -o "size=$2" none "$place" || fail "no tmpfs of $2"
}

# prog_caching's figures without its peak, which depends on how its two threads meet
settled() {
    awk 'NF == 7 && /^[0-9 ]+$/ { $4 = "-" } 1' "$1"
}
# as_alone DATABASE JOURNALS COMMAND...: output and status as without the shim; what was said is in $run/said
as_alone() {
    local database=$1 journals=$2 plain
    shift 2
    "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    new_run
    db=$database
    timeout --kill-after=1 $limit env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$journals" "${shim_env[@]}" "$@" \
        >"$run/out" 2>"$run/err" </dev/null
    status=$?
    [ "$status" = "$plain" ] || fail "$*: exit status $status under the shim, $plain without"
    cmp -s <(settled "$dir/plain.out") <(settled "$run/out") || fail "$*: other output"
    grep -v '^vramscope: ' "$run/err" | cmp -s "$dir/plain.err" - || fail "$*: other stderr"
    grep '^vramscope: ' "$run/err" >"$run/said"
}
said() {
    [ "$(wc -l <"$run/said")" = "$1" ] || fail "not $1 line(s): $(cat "$run/said")"
    [ "$1" = 0 ] || grep -q "$2" "$run/said" || fail "not '$2': $(cat "$run/said")"
}
caching() { # a caching allocator's COUNT reports on each of two threads
    as_alone "$1" "$2" "$tests/prog_caching" native "$3"
    cp "$run/out" "$run/quiet"
}
complete() {
    local reports
    read -r allocations frees _ <"$run/quiet"
    reports=$(ask "SELECT count(*) FROM event WHERE op IN ('block_alloc', 'block_free')")
    lost=$(ask "SELECT ifnull(sum(events), 0) FROM loss WHERE code <> 'thinned'")
    [ $((reports + lost)) -ge $((allocations + frees)) ] || fail "$reports reports and $lost lost of $allocations and $frees"
}

# the database's disk is full after a while: everything is in the journal, as far as that goes
mkdir -p "$dir/journals"
place database 512k
limit=60
LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/quiet.db" "$tests/prog_caching" native 20000 >"$dir/quiet" 2>/dev/null
new_run
db=$place/run.db
LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$dir/journals" timeout 300 "$tests/prog_caching" native 20000 >"$run/out" 2>"$run/err"
status=$?
[ $status = 0 ] || fail "full database: status $status"
cmp -s <(settled "$dir/quiet") <(settled "$run/out") || fail "full database: other output"
grep '^vramscope: ' "$run/err" >"$run/said"
said 1 "can't write $db: No space left.*vramscope recover"
journal=$(find "$dir/journals" -name '*.vsj')
[ -n "$journal" ] || fail "the journal is gone"
"$BUILD/bin/vramscope" recover "$journal" >"$run/recover" 2>&1 && fail "recover says that all is well with a full disk"
[ -f "$journal" ] || fail "a recover without room has taken the journal away"
mount -o remount,size=64m "$place"
"$BUILD/bin/vramscope" recover "$journal" >"$run/recover" 2>&1 || fail "recover: $(cat "$run/recover")"
[ ! -f "$journal" ] || fail "the journal is still there"
cp "$run/out" "$run/quiet"
complete
expect_sql "PRAGMA integrity_check" ok
expect_sql "SELECT count(*) FROM loss WHERE code <> 'thinned'" 0

# the same with a ring that is much too small for it: what did not fit is counted, and nobody waits for it
umount "$place"
place database 512k
shim_env=(VRAMSCOPE_RING_EVENTS=1024)
rm -f "$dir"/journals/*
before=$(date +%s%N)
caching "$place/run.db" "$dir/journals" 20000
[ $((($(date +%s%N) - before) / 1000000)) -lt 20000 ] || fail "a full disk and a full ring held the program up"
said 1 "can't write"
mount -o remount,size=64m "$place"
"$BUILD/bin/vramscope" recover "$dir"/journals/*.vsj >"$run/recover" 2>&1 || fail "recover: $(cat "$run/recover")"
complete
[ "$lost" -gt 0 ] || fail "a ring of 1024 lost nothing of 80000 events"

# the journal's disk is full from the start: another place is taken
place journals-full 64k
shim_env=()
as_alone "$dir/full-journal.db" "$place" "$tests/prog_linked"
said 1 "journal can't be made in $place"
expect_sql "SELECT count(*) > 5 FROM event" 1

# no room anywhere for a journal
place everything 32k
mkdir "$place/tmp"
mount --bind "$place" /dev/shm
TMPDIR=$place/tmp as_alone "$place/run.db" "" "$tests/prog_linked"
said 1 'no journal at .*No space left.*nothing is recorded'
[ ! -e "$db" ] || fail "an empty database was left"
umount /dev/shm

# /dev/shm: absent, 64 MB, noexec, not writable
for options in size=64m,noexec size=1m ro; do
    mount -t tmpfs -o "$options" none /dev/shm
    as_alone "$dir/shm-${options%%,*}.db" "" "$tests/prog_linked"
    said 0
    expect_sql "SELECT count(*) > 5 FROM event" 1
    [ -z "$(find /dev/shm -name 'vramscope*')" ] || fail "$options: left in /dev/shm"
    umount /dev/shm
done

# a read-only file system
place read-only 1m
mount -o remount,ro "$place"
as_alone "$place/run.db" "$dir/journals" "$tests/prog_linked"
said 1 "no database at $place/run.db: Read-only file system; nothing is recorded"
as_alone "$dir/ro-journal.db" "$place" "$tests/prog_linked"
said 1 "journal can't be made in $place"

# the directory goes away in mid-run
new_run
mkdir "$run/gone"
LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$run/gone/run.db" VRAMSCOPE_JOURNAL_DIR="$run" "$tests/prog_idle" >"$run/out" 2>"$run/err" &
for ((i = 0; i < 600; i++)); do [ -e "$run/gone/run.db" ] && break; sleep 0.02; done
rm -r "$run/gone"
wait $! || fail "a removed directory: status $?"
[ "$(grep -c '^vramscope: ' "$run/err")" -le 1 ] || fail "a removed directory: $(cat "$run/err")"

# no current directory, no HOME, and a name of its own
new_run
mkdir "$run/cwd"
(cd "$run/cwd" && rmdir "$run/cwd" && exec env -u HOME -u VRAMSCOPE_OUTPUT LD_PRELOAD="$shim" "$tests/prog_linked" >"$run/out" 2>"$run/err")
[ $? = 0 ] || fail "a removed current directory: status"
[ "$(grep -c '^vramscope: no database at .*VRAMSCOPE_OUTPUT' "$run/err")" = 1 ] || fail "a removed current directory: $(cat "$run/err")"
