#!/bin/bash
# What grows from step to step is found, named by phase, size and owner, and is not called static; what only seems to grow is
# not: states that come with the first step, lengths that change, evaluations, a cache that fills, a list that is cleared,
# buffers that are made anew in turn.
. "$(dirname "$0")/../lib/lib.bash"
record() { # HOW STEPS
    shimmed "$tests/prog_grow" "$1" "$2"
    [ "$status" = 0 ] || fail "$*: status $status"
    "$V" report --all "$db" >"$run/report" || fail "$*: report"
    "$V" report --json "$db" >"$run/json" || fail "$*: report --json"
    [ "$(wc -L <"$run/report")" -le 200 ] || grep -q '─' "$run/report" || fail "$*: a line of $(wc -L <"$run/report") columns"
}
says() { grep -qF -- "$1" "$run/report" || fail "the report does not say '$1': $(sed -n '/growth/,$p' "$run/report")"; }
figure() { # EXPRESSION of d, the device
    python3 -c "import json, sys; d = json.load(open(sys.argv[1]))['files'][0]['devices'][0]; g = d['growth']; x = $1; print(x)" "$run/json"
}
expect() { # EXPRESSION VALUE
    [ "$(figure "$1")" = "$2" ] || fail "$1 is $(figure "$1"), not $2"
}

record leak 40
says "  growth: 35.00 MiB of what steps 6 to 40 made was still there when step 40 ended: 1.00 MiB a step"
says "    1.00 MiB      1  1.00 MiB  direct, prog_grow, made in forward"
says "  (prog_grow)" # the frame that asked, by name: report looks it up where nobody has yet
says "the recording cannot tell which"
expect "g['per_step_bytes'], g['grows'][0]['library'], g['grows'][0]['phase'], g['first_step'], len(g['grows'])" "(1048576, 'prog_grow', 'forward', 6, 1)"
# the peak lies in a late step: what the steps before left is a bound for it, and no static memory
expect "d['savings']['static_bytes'] <= 66 << 20 and d['savings']['left_by_earlier_steps_bytes'] >= 30 << 20" True
expect "d['savings']['step_saves_at_most_bytes'] < 24 << 20" True
says "were left by earlier steps, each of which adds to it (growth):"
"$V" peak "$db" | grep -q '^  growth: 35.00 MiB' || fail "peak does not say it"
leak=$db
record states 40
"$V" diff "$leak" "$db" | grep -q "NOTE: A leaks on device 0, +1.00 MiB a step since step 1, direct, prog_grow" || fail "diff: $("$V" diff "$leak" "$db" | head -n 9)"

record returns 40 # what the program's end gave back in the last step had grown until then
says "  growth: 35.00 MiB of what steps 6 to 40 made was still there when step 40 last allocated (it was freed before the step's end): 1.00 MiB a step"
expect "g['per_step_bytes'], g['grows'][0]['phase'], g['first_step'], len(g['grows'])" "(1048576, 'forward', 6, 1)"
expect "d['savings']['static_bytes'] > 60 << 20 and d['savings']['left_by_earlier_steps_bytes'] >= 30 << 20" True

record history 40 # each step's length is another: found without the size
expect "g['per_step_bytes'] > 8 << 20, [(x['phase'], x['least_allocation_bytes'] >> 20, x['greatest_allocation_bytes'] >> 20) for x in g['grows']]" \
    "(True, [('forward', 2, 10), ('forward', 1, 5)])"
record teacher 40
expect "g['per_step_bytes']" 1048576
record leak 400
expect "g['first_step'], g['per_step_bytes']" "(51, 1048576)"

for how in states lengths stops fills cleared turns evaluation crumbs; do
    record $how 40
    grep -q growth "$run/report" && fail "$how is said to grow: $(sed -n '/growth/,/^$/p' "$run/report")"
    expect "g['size_bytes'], g['per_step_bytes'], g['grows'], d['savings']['left_by_earlier_steps_bytes']" "(0, 0, [], 0)"
done
# a long run: of the steps that are in full, after those that are folded
shim_env=(VRAMSCOPE_MAX_BYTES=1MiB)
record drip 3000
expect_sql "SELECT count(*) > 0 FROM folded" 1
expect "g['per_step_bytes'], g['last_step'], 3 < g['first_step'] < 2980" "(4096, 3000, True)"
shim_env=()
record leak 10 # too few steps to tell
"$V" report --all "$db" | grep -qx "    growth: unknown, 10 steps in full in the file, 11 needed" || fail "growth was not judged, and the report does not say so: $("$V" report --all "$db")"
expect "g['size_bytes'], g['grows']" "(None, [])"
echo "what grows is found, and nothing else"
