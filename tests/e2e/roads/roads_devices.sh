#!/bin/bash
# Of two devices each event, total and nested range's peak belongs to its own, whatever thread or context it came from.
. "$(dirname "$0")/../lib/lib.bash"

shim_env=(SIMCUDA_DEVICES=2)
run_shimmed "$tests/prog_devices"
ask "SELECT device || ' ' || op || ' ' || phase || ' ' || (size_bytes / 1048576) || ' -> ' || (allocated_bytes / 1048576) || ' ' || (reserved_bytes / 1048576)
     FROM event WHERE op IN ('alloc', 'free', 'phys_create', 'phys_release') ORDER BY seq" >"$run/events"
diff - "$run/events" >"$run/difference" <<'END' || fail "device op phase size -> allocated reserved (< wanted, > recorded): $(cat "$run/difference")"
0 alloc forward 10 -> 10 10
1 alloc forward 3 -> 3 3
1 alloc logits 20 -> 23 23
1 free logits 20 -> 3 3
0 alloc backward 3 -> 13 13
0 alloc backward 4 -> 17 17
0 free backward 4 -> 13 13
0 alloc backward 2 -> 15 15
1 alloc backward 1 -> 4 4
1 alloc backward 4 -> 8 8
1 free backward 4 -> 4 4
0 free backward 2 -> 13 13
0 alloc backward 3 -> 16 16
0 alloc backward 4 -> 20 20
0 free backward 4 -> 16 16
0 alloc none 2 -> 18 18
1 alloc backward 1 -> 5 5
1 alloc backward 4 -> 9 9
1 free backward 4 -> 5 5
0 free backward 2 -> 16 16
1 alloc none 6 -> 11 11
1 free none 6 -> 5 37
1 phys_create none 8 -> 13 45
1 phys_release none 8 -> 5 37
END
expect_sql "SELECT r.phase, p.device, p.allocated_bytes / 1048576, p.reserved_bytes / 1048576 FROM range_peak p JOIN range r ON r.id = p.range ORDER BY r.id, p.device" \
    $'forward|0|10|10\nforward|1|23|23\nlogits|0|10|10\nlogits|1|23|23\nbackward|0|17|17\nbackward|1|8|8'
expect_sql "SELECT phase, device, allocated_bytes / 1048576, ranges FROM phase_peak WHERE phase IN ('forward', 'logits', 'backward') ORDER BY phase, device" \
    $'backward|0|20|1\nbackward|1|9|1\nforward|0|10|1\nforward|1|23|1\nlogits|0|10|1\nlogits|1|23|1'
expect_sql "SELECT device, kind, peak_bytes / 1048576, end_bytes / 1048576 FROM peak WHERE kind IN ('allocated', 'reserved') AND device >= 0 ORDER BY 1, 2" \
    $'0|allocated|20|16\n0|reserved|20|16\n1|allocated|23|5\n1|reserved|45|37'
expect_sql "SELECT device, sum(size_bytes) / 1048576 FROM live_at_peak GROUP BY device ORDER BY device" $'0|20\n1|23'
expect_sql "SELECT id, total_bytes > 0 FROM device ORDER BY id" $'0|1\n1|1'
expect_sql "SELECT max(allocated_bytes) / 1048576 FROM timeline WHERE device = 1" 23
expect_sql "SELECT count(*) FROM thread WHERE autograd = 1" 4
expect_clean

if [ -x "$V" ]; then
    "$V" report --all "$db" >"$run/report" || fail "report"
    for device in 0 1; do grep -qE "^ *device $device" "$run/report" || fail "no device $device in the report: $(cat "$run/report")"; done
    "$V" report --json "$db" | python3 -c 'import json, sys
files = json.load(sys.stdin)["files"]
assert [d["device"] for d in files[0]["devices"]] == [0, 1]' || fail "no two devices in report --json"
    for device in 0 1; do "$V" peak --device $device "$db" >"$run/peak" || fail "peak --device $device"; done
    "$V" plot "$db" -o "$run/plot.gp" || fail "plot"
    # a curve for each, and a panel that draws it
    for device in 0 1; do
        grep -q "^\$curve_$device << EOD" "$run/plot.gp" || fail "no curve of device $device in the plot"
        grep -q "^ *\$curve_$device using" "$run/plot.gp" || fail "no panel of device $device"
    done
fi
echo "each device has its own"
