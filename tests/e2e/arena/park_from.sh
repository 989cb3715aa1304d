#!/bin/bash
# With run --park --from=FILE states are parked from the first optimizer on, so that a job fits that would fail in its second step. Where the recording is of another
# program one line says so, and it is as without; a use that it did not foresee finds its bytes.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
cd "$dir" || exit 1
export SIMCUDA_CLOCK=work
run() { "$V" run -q -f --simulated "$@" 2>"$dir/err"; }
steps_before() { sqlite3 "$1" "SELECT count(*) FROM step WHERE seq < (SELECT min(seq) FROM away_block)"; }
run -o before.db --allocator=arena --access -- "$tests/prog_park" 6 born >/dev/null || fail "the recording: $(cat err)"
run -o measured.db --park=optimizer-state -- "$tests/prog_park" 8 born >/dev/null || fail "without: $(cat err)"
[ "$(steps_before measured.db)" -ge 2 ] || fail "without a recording it parked after $(steps_before measured.db) steps"
run -o from.db --park=optimizer-state --from=before.db -- "$tests/prog_park" 8 born >/dev/null || fail "with: $(cat err)"
[ "$(steps_before from.db)" = 1 ] || fail "with a recording it parked after $(steps_before from.db) steps: $(cat err)"
[ "$(sqlite3 from.db "SELECT max(away_bytes) >> 20 FROM away")" = 96 ] || fail "not all states went: $(cat err)"
"$V" report from.db | tr -s ' \n' ' ' | grep -q 'optimizer states that lay idle for .* of a step in the recording before; at' || fail "report: $("$V" report from.db)"
run -o again.db --park=optimizer-state --from=from.db -- "$tests/prog_park" 8 born >/dev/null || fail "from a parked one: $(cat err)"
[ "$(steps_before again.db)" = 1 ] || fail "from a parked one: $(cat err)"
sqlite3 from.db "INSERT OR REPLACE INTO meta(key, value) VALUES('park_later', 20000000)" && run -o later.db --park=optimizer-state --from=from.db -- "$tests/prog_park" 3 born >/dev/null
grep -q 'idle for 20 ms of a step' err || fail "a time that was shorter once it parked: $(cat err)"

# the second step takes 66 MiB of context, 144 of activations, 24 of gradients and 96 of states
export SIMCUDA_CAPACITY=290MiB
run -o out.db --park=optimizer-state -- "$tests/prog_park" 4 born >/dev/null && fail "it fits without a recording: the test tests nothing"
run -o fits.db --park=optimizer-state --from=before.db -- "$tests/prog_park" 4 born >/dev/null || fail "it does not fit: $(cat err)"
unset SIMCUDA_CAPACITY

# of another program
plans=("ns=50000000;8388608x11" "50 ms")
! in_full || plans+=("ns=50000000;4194304x2" "ns=;8388608x12" "ns=50000000;8388608")
for plan in "${plans[@]}"; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on VRAMSCOPE_PARK=optimizer-state "VRAMSCOPE_PARK_FROM=$plan")
    shimmed "$tests/prog_park" 8 born
    [ $status = 0 ] || fail "$plan: status $status"
    [ "$(grep -cE 'the recording of --from has [0-9]+ optimizer states of [0-9.]+ MiB, this process [0-9]+: idle time is measured first|VRAMSCOPE_PARK_FROM=.* is no plan of vramscope run --from' "$run/err")" = 1 ] || fail "$plan: $(cat "$run/err")"
    [ "$(steps_before "$db")" -ge 2 ] || fail "$plan is believed"
done
shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on VRAMSCOPE_PARK=optimizer-state "VRAMSCOPE_PARK_FROM=ns=50000000;8388608x12")
for how in late $(! in_full || echo unforeseen unknown freed suspends); do # each looks at all bytes
    shimmed "$tests/prog_park" 10 $how
    [ $status = 0 ] || fail "$how: status $status"
    [ "$(steps_before "$db")" -le 3 ] || fail "$how: it parked after $(steps_before "$db") steps"
done

# before anything is started
refused() { # SENTENCE ARGUMENT...
    "$V" run "${@:2}" -o no.db -- touch started 2>err
    [ $? = 2 ] && grep -qF -- "$1" err && [ ! -e started ] || fail "${*:2}: $(cat err)"
}
refused 'run: --from=before.db is read for --park=optimizer-state: name that, too' --from=before.db
refused 'run: --from: ' --park=optimizer-state --from=none.db
run -o plain.db --allocator=arena -- "$tests/prog_park" 3 >/dev/null || fail "a recording without --access"
refused 'knows no optimizer states of 2 MiB or more that the optimizer alone uses: record two steps or more with --access' --park=optimizer-state --from=plain.db
