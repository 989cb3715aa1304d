#!/bin/bash
# Under limits on address space, processes, files, locked memory and descriptors the program runs as without us; what was recorded is whole, or a
# line says what is missing.
. "$(dirname "$0")/../lib/lib.bash"

# limited 'SHELL COMMANDS' PROGRAM...: as without the shim but for at most one line of ours
limited() {
    local how=$1 plain
    shift
    bash -c "$how"'; exec "$@"' - "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    shimmed bash -c "$how"'; exec "$@"' - "$@"
    [ "$status" = "$plain" ] || fail "$how: status $status, $plain without the shim"
    cmp -s "$dir/plain.out" "$run/out" || fail "$how: other output"
    grep -v '^vramscope: ' "$run/err" | cmp -s "$dir/plain.err" - || fail "$how: other stderr"
    said=$(grep '^vramscope: ' "$run/err")
    [ "$(grep -c . <<<"$said")" -le 1 ] || fail "$how: $said"
}
complete() { # COUNT [LOSSES]: nothing lost, whatever lies where; or counted
    [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT (SELECT count(*) FROM event WHERE op IN ('alloc', 'free')) + (SELECT ifnull(sum(events), 0) FROM loss)" $(($1 * 2))
    [ $# -gt 1 ] || expect_sql "SELECT count(*) FROM loss" 0
}

# Address space: where there is little the program has it, and a word is said.  (One arena: whether malloc finds room for more is luck.)
export MALLOC_ARENA_MAX=1
for mb in 250 400 1000; do
    limited "ulimit -v $((mb * 1024))" "$tests/prog_threads"
    [ ! -e "$db" ] && grep -q 'leaves less than 1 GiB; nothing is recorded' <<<"$said" || fail "ulimit -v of $mb MiB: $said"
done
limited "ulimit -v 2000000" "$tests/prog_threads"
complete 8000
unset MALLOC_ARENA_MAX

# file sizes: beyond the limit the kernel's answer is a deadly signal
shim_env=(VRAMSCOPE_RING_EVENTS=131072)
for kb in 30000 $(! in_full || echo 34000); do
    limited "ulimit -f $kb" "$tests/prog_burst" 300000
    [ -s "$db" ] || [ -n "$said" ] || fail "ulimit -f $kb: nothing, and not a word"
    [ ! -s "$db" ] || expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'alloc'" 1
done
shim_env=()

# locked memory, data, stack
limited "ulimit -l 0" "$tests/prog_threads"
complete 8000
limited "ulimit -s unlimited" "$tests/prog_linked"
expect_clean
limited "ulimit -s 128" "$tests/prog_linked"
expect_clean

# descriptors: as few as the program itself needs
for n in 4 8 $(! in_full || echo 5 6 16); do
    limited "ulimit -n $n" "$tests/prog_threads"
    [ $n -lt 8 ] || complete 8000
done

# closed standard streams: our files do not take their places
closes=('2>&-' '<&- >&- 2>&-')
! in_full || closes+=('<&-' '>&-' '<&- >&-')
for closed in "${closes[@]}"; do
    limited "exec $closed" "$tests/prog_threads"
    complete 8000
done

# a huge environment, immediate binding
limited 'export HUGE_$(printf "%0120000d" 1)=x BIG=$(printf "%0120000d" 1); for i in {1..3000}; do export "V$i=$i"; done' "$tests/prog_linked"
expect_clean
limited 'export LD_BIND_NOW=1' "$tests/prog_dlopen"
expect_clean

# no thread may be started: all is written at the end
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip "only root can become nobody (the rest passed)"
chmod 755 "$dir"
new_run
chmod 777 "$run"
setpriv --reuid 65534 --clear-groups env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" \
    bash -c 'ulimit -u 1; exec "$@"' - "$tests/prog_burst" 20000 >"$run/out" 2>"$run/err" || fail "no processes: status $?"
[ "$(grep -c '^vramscope: no drain thread' "$run/err")" = 1 ] || fail "no processes: not a word"
complete 20000
echo "within every limit"
