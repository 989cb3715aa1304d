#!/bin/bash
# Before anything is parked the report says what link parking would need. It says nothing where that would be false: a state is used elsewhere too, uses may be
# missing, the peak is in the optimizer, there were few steps, there was no GPU, or states were parked.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
forecast() { # BYTES (of states, "": nothing is said) ARGUMENT...
    shimmed "$tests/prog_park" "${@:2}"
    [ $status = 0 ] || fail "${*:2}: status $status"
    says "$1" "${*:2}" "UPDATE process SET simulated = 0"
}
says() { # BYTES WHAT SQL; as if the program had filled its states in the optimizer, and looked at none of them outside of phases
    cp "$db" "$run/gpu.db"
    sqlite3 "$run/gpu.db" "UPDATE access_kind SET phases = phases & ~1; $3" || fail "$2: no copy"
    "$V" report "$run/gpu.db" 2>&1 | tr -s ' \n' ' ' >"$run/report"
    if [ -z "$1" ]; then
        ! grep -q 'run --park' "$run/report" || fail "$2: $(cat "$run/report")"
        return
    fi
    grep -qE "$1 of what was allocated are optimizer states that the device is given in the optimizer alone, on average every [0-9.]+ m?s: at that pace vramscope run --park=optimizer-state needs a link of at least [0-9.]+ [MG]iB/s to have all of them on the host meanwhile" "$run/report" || fail "$2: $(cat "$run/report")"
}
shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on)
forecast '96.00 MiB' 10
# as far apart as the recording has it, and the link that takes them there and back meanwhile
read -r every rate <<<"$(sqlite3 "$db" "SELECT max((last - first) / (steps - 1)), 2 * sum(l.size_bytes) / (max((last - first) / (steps - 1)) / 1e9) / 1048576 FROM access_times u JOIN live_at_peak l USING (alloc_seq) JOIN framework_role USING (alloc_seq) WHERE steps > 1" | tr '|' ' ')"
python3 - "$run/report" "$every" "$rate" <<'PY' || fail "other figures: $(cat "$run/report"), not every $every ns and $rate MiB/s"
import re, sys
text, every, rate = open(sys.argv[1]).read(), float(sys.argv[2]), float(sys.argv[3])
said = re.search(r"on average every ([0-9.]+) (m?s):.* link of at least ([0-9.]+) ([MG])iB/s", text).groups()
assert abs(float(said[0]) * (1e6 if said[1] == "ms" else 1e9) / every - 1) < 0.02, said
assert abs(float(said[2]) * (1 if said[3] == "M" else 1024) / rate - 1) < 0.02, said
PY
says '' 'the simulated driver' ''
says '' 'where the peak is in the optimizer' "UPDATE process SET simulated = 0; UPDATE ev SET phase = (SELECT id FROM phase WHERE name = 'optimizer') WHERE seq IN (SELECT seq FROM peak)"
says '' 'states that something outside of phases uses' "UPDATE process SET simulated = 0; UPDATE access_kind SET phases = phases | 1"
says '' 'a dry run' "UPDATE process SET simulated = 2"
forecast '88.00 MiB' 10 unforeseen # one of twelve is read in forward
forecast '' 10 unknown             # kernels that find addresses in memory may have read them all
forecast '' 6                      # eight steps are the least, and what comes before and after them counts as one
shim_env+=(SIMCUDA_CLOCK=work VRAMSCOPE_PARK=optimizer-state)
forecast '' 10 # it was parked, and the report has that
