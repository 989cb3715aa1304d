#!/bin/bash
# Exit: at most two seconds later than without us, however hard threads allocate meanwhile, and soon where none does.
. "$(dirname "$0")/../lib/lib.bash"

export VRAMSCOPE_EXIT_MS=2000 # the default
ms() { # of a run of COMMAND
    local before
    before=$(date +%s%N)
    "$@" >/dev/null 2>&1
    took=$((($(date +%s%N) - before) / 1000000))
}

# threads that allocate without pause while main returns: the bound is the contract's two seconds (and a busy machine's share)
for way in flood "flood late"; do
    for _ in 1 2 3 4 5; do # one time of several: a busy machine makes anything late
        # shellcheck disable=SC2086
        ms "$tests/prog_leave" $way
        plain=$took
        # shellcheck disable=SC2086
        ms shimmed "$tests/prog_leave" $way
        [ "$status" = 0 ] || fail "$way: status $status"
        [ $took -ge $((plain + 2700)) ] || break
    done
    [ $took -lt $((plain + 2700)) ] || fail "$way: $took ms, $plain without the shim"
    [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT count(*) > 1000 FROM event" 1
    echo "$way: $took ms, $plain without"
done

# nothing going on: no wait
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "${least:-500}" -ge 500 ] || break
    ms shimmed "$tests/prog_linked"
    [ -z "${least:-}" ] || [ $took -lt "$least" ] && least=$took
done
[ "$least" -lt 500 ] || fail "a quiet exit takes $least ms"

echo "gone in time"
