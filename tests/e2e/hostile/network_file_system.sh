#!/bin/bash
# A database on a network file system: no WAL and no shared memory beside it, no journal there, the same events; after a
# kill recover completes it.
. "$(dirname "$0")/../lib/lib.bash"

"${CC:-cc}" -shared -fPIC -o "$dir/fake_nfs.so" "$here/fake_nfs.c" || fail "fake_nfs.c"
mkdir "$dir/nfs" "$dir/local"

# on_nfs PROGRAM...: recorded to a database on it; sets $beside, the files seen there meanwhile
on_nfs() {
    new_run
    db=$dir/nfs/$runs.db
    FAKE_NFS=$dir/nfs LD_PRELOAD="$shim $dir/fake_nfs.so" VRAMSCOPE_OUTPUT="$db" TMPDIR="$dir/local" VRAMSCOPE_JOURNAL_DIR="${journals-}" \
        VRAMSCOPE_RING_EVENTS="${ring:-262144}" "$@" >"$run/out" 2>"$run/err" </dev/null &
    local pid=$!
    beside=''
    while kill -0 $pid 2>/dev/null; do
        beside+=" $(cd "$dir/nfs" && echo *)"
        sleep 0.01
    done
    wait $pid 2>/dev/null
    status=$?
}
nothing_of_it() { # no file of these names was there at any moment
    for name in "$@"; do
        [[ $beside != *"$name"* ]] || fail "there was a $name on the network file system:$beside"
    done
}

on_nfs "$tests/prog_idle"
[ $status = 0 ] || fail "status $status"
nothing_of_it -wal -shm .vsj
expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'free')" 42
expect_clean

on_nfs "$tests/prog_caching" native 20000 kill
[ $status = 137 ] || fail "status $status"
nothing_of_it -wal -shm .vsj
journal=$(find /dev/shm "$dir/local" -name "vramscope-*.vsj" -newer "$dir/fake_nfs.so" 2>/dev/null | while read -r j; do
    ! grep -qaF "$db" "$j" || echo "$j"
done)
[ -n "$journal" ] || fail "no journal was left"
"$BUILD/bin/vramscope" recover "$journal" >"$run/recover" 2>&1 || fail "recover: $(cat "$run/recover")"
read -r allocations _ <"$run/out"
expect_sql "SELECT count(*) FROM event WHERE op = 'block_alloc'" "$allocations"
expect_sql "PRAGMA journal_mode" delete
