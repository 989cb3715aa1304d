#!/bin/bash
# Processes that behave badly (signals, jumps, cancelled threads, daemons, refused system calls) run as without the shim, and what they recorded is
# whole.
. "$(dirname "$0")/../lib/lib.bash"

whole() { # all databases; nothing lost but what its arguments say, and nothing lies beside them
    local known=0 code
    for code; do
        known+=" OR code = '$code'"
    done
    for db in $(databases); do
        expect_sql "PRAGMA integrity_check" ok
        expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
        expect_sql "SELECT what FROM mismatch" ''
        expect_sql "SELECT DISTINCT code FROM loss WHERE NOT ($known)" ''
    done
    [ -z "$(find "$run" -name '*.vsj' -o -name '*-wal' -o -name '*-shm')" ] || fail "left behind: $(ls "$run")"
}
allocations="SELECT count(*) FROM event WHERE op = 'alloc'"

# A handler that allocates, every 100 us: each of its allocations that found room in the ring is there, and freed.
shim_env=(VRAMSCOPE_RING_EVENTS=1048576)
run_shimmed "$tests/prog_hostile" storm
whole
expect_sql "SELECT count(*) >= 10 FROM event WHERE op = 'alloc'" 1
expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0

# Whoever is jumped out of, or cancelled, in the middle of an event costs that event; out of a range again and again, 64
# of them are open at last.
for way in jump cancel; do
    run_shimmed "$tests/prog_hostile" $way
    whole dead_slot ranges
done
shim_env=()

run_shimmed "$tests/prog_hostile" threads
whole
expect_sql "$allocations" 400
expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0
expect_sql "SELECT count(DISTINCT thread) FROM event WHERE op = 'alloc'" 200

# Main returns while threads allocate, and while the recording is only just being started: that is waited for.  What comes
# while the process goes is in the journal.
for moment in 0 1 20 50; do
    run_shimmed "$tests/prog_hostile" leave $moment
    [ -e "$db" ] || [ $moment -lt 20 ] || fail "nothing was recorded in $moment ms"
    [ -e "$db" ] || continue
    expect_sql "SELECT count(*) >= 0 FROM event" 1
    [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
    expect_sql "PRAGMA integrity_check" ok
    [ $moment -lt 20 ] || expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'alloc'" 1
done

run_shimmed "$tests/prog_hostile" spawn
whole
[ "$(databases | wc -l)" = 3 ] || fail "spawn: $(databases)"

# The program after an exec, which has the same pid, has a database of its own; the one before was cut off, as by a kill.
run_shimmed "$tests/prog_hostile" exec
[ "$(databases | wc -l)" = 2 ] || fail "exec: $(databases)"
db=$run/run-2.db
expect_sql "$allocations" 1
expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
recover_run
db=$run/run.db
expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'alloc'" 1

# A daemon outlives the command that started it.
shimmed "$tests/prog_hostile" daemonize
[ "$status" = 0 ] || fail "daemonize: $status"
for _ in {1..3000}; do
    [ -s "$(databases)" ] && [ -z "$(find "$run" -name '*.vsj')" ] && break
    sleep 0.02
done
whole
expect_sql "$allocations" 1

# close_range refused (1: EPERM, 38: ENOSYS), and ten descriptors
for error in 1 38; do
    for limit_n in 10 1024; do
        shimmed bash -c "ulimit -n $limit_n; "'exec "$@"' - "$tests/prog_hostile" refuse $error "$tests/prog_threads"
        [ "$status" = 77 ] && break 2
        [ "$status" = 0 ] || fail "close_range refused with $error: $status"
        ! grep -q ^vramscope "$run/err" || fail "close_range refused with $error: a word"
        expect_sql "$allocations" 8000
        expect_clean
    done
done

# A program with more rights than its caller's (AT_SECURE) lets the caller choose no file: it is not recorded.
[ "$(id -u)" = 0 ] || exit 0
new_run
chmod 755 "$dir" && chmod 777 "$run"
"${CC:-cc}" -o "$run/own_rights" -xc - -xnone "$shim" -Wl,-rpath,"$BUILD/lib:$BUILD/sim" "$BUILD/sim/libcuda.so.1" <<'END' || fail "own_rights"
#include <sys/auxv.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long *, unsigned long);
int main(void)
{
    unsigned long p;
    void *context;
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    return cuMemAlloc_v2(&p, 4096) != 0 ? 3 : getauxval(AT_SECURE) ? 0 : 77;
}
END
for rights in 755 4755; do
    chown nobody "$run/own_rights" && chmod $rights "$run/own_rights"
    VRAMSCOPE_OUTPUT="$run/$rights.db" VRAMSCOPE_JOURNAL_DIR="$run" "$run/own_rights" >"$run/out" 2>"$run/err"
    status=$?
    [ $status = 77 ] || [ $status = 0 ] || fail "own rights $rights: $status"
done
[ -e "$run/755.db" ] || fail "the program without rights of its own was not recorded"
[ $status = 77 ] || [ ! -e "$run/4755.db" ] || fail "a set-user-id program wrote a file of the caller's choice"
