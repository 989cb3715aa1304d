#!/bin/bash
# Under VRAMSCOPE_MAX_BYTES the file and its WAL stay, while totals, peaks and what lived at the peak are those of an unlimited recording.
. "$(dirname "$0")/../lib/lib.bash"

limit=300
blocks=${BLOCKS:-300000}
megabytes=8

# recorded NAME MAX_BYTES: sets $largest, what database and WAL took together at most
recorded() {
    new_run
    LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_MAX_BYTES=$1 VRAMSCOPE_RING_EVENTS=4194304 \
        timeout $limit "$tests/prog_steps" "$blocks" >"$run/out" 2>"$run/err" </dev/null &
    local pid=$! size
    largest=0
    while kill -0 $pid 2>/dev/null; do
        size=$(stat -c %s "$db" "$db-wal" 2>/dev/null | awk '{n += $1} END {print n + 0}')
        [ "$size" -le $largest ] || largest=$size
        sleep 0.02
    done
    wait $pid || fail "status $?"
    [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
    expect_sql "SELECT count(*) FROM loss WHERE events > 0" 0
    expect_sql "SELECT count(*) FROM mismatch" 0
}
facts() {
    ask "SELECT kind, device, peak_bytes, end_bytes FROM peak ORDER BY 1, 2" >"$dir/$1.peaks"
    ask "SELECT r.id, r.name, p.device, p.allocated_bytes, p.reserved_bytes FROM range r JOIN range_peak p ON p.range = r.id" | sort >"$dir/$1.ranges"
    ask "SELECT (SELECT count(*) FROM rng) + (SELECT coalesce(sum(ranges), 0) FROM range_fold WHERE device = -1),
                (SELECT sum(last_seq - first_seq + 1) FROM stretch) - (SELECT count(*) FROM sample) - (SELECT coalesce(sum(samples), 0) FROM folded),
                (SELECT sum(steps) FROM stretch), (SELECT upto_seq = max(last_seq) FROM mark, stretch)" >"$dir/$1.counts"
    "$BUILD/bin/vramscope" report --all --bytes "$db" | sed -n '/peak: /,/= *allocated/s/ at .* step / at step /p' >"$dir/$1.peak"
    "$BUILD/bin/vramscope" plot --whole "$db" -o "$run/plot.gp"
    grep -o '"peak [^"]*"' "$run/plot.gp" >"$dir/$1.plot"
    ask "SELECT device, phase, allocated_bytes, reserved_bytes, ranges FROM phase_peak ORDER BY 1, 2" >"$dir/$1.phases"
    ask "SELECT device, phase, category, sum(size_bytes) FROM live_at_peak GROUP BY 1, 2, 3 ORDER BY 1, 2, 3" >"$dir/$1.live"
    ask "SELECT name, value FROM counter ORDER BY 1" >"$dir/$1.counters"
}

recorded 16GiB
facts unlimited
full=$(stat -c %s "$db")
[ "$full" -gt $((megabytes * 1048576 * 2)) ] || fail "only $full bytes without a limit: the test tests nothing"
recorded ${megabytes}MiB
facts limited
final=$(stat -c %s "$db")
[ "$final" -le $((megabytes * 1048576)) ] || fail "$final bytes at the end with a limit of $megabytes MiB ($full without)"
[ "$largest" -le $((megabytes * 1048576)) ] || fail "database and WAL took $largest bytes with a limit of $megabytes MiB"
expect_sql "SELECT count(*) > 0 FROM folded" 1
for what in peaks phases live counters peak plot; do
    diff "$dir/unlimited.$what" "$dir/limited.$what" >"$run/difference" || fail "$what (< unlimited, > limited): $(head "$run/difference")"
done
[ -s "$dir/limited.peak" ] && [ -s "$dir/limited.plot" ] || fail "report or plot show no peak"
cut -d'|' -f1,3,4 "$dir/unlimited.counts" >"$dir/all"
cut -d'|' -f1,3,4 "$dir/limited.counts" | diff - "$dir/all" || fail "ranges, steps: $(cat "$dir"/*.counts)"
[ "$(cat "$dir/all")" = "900|300|1" ] || fail "counted: $(cat "$dir/all")"
comm -23 "$dir/limited.ranges" "$dir/unlimited.ranges" >"$dir/false"
[ ! -s "$dir/false" ] || fail "ranges that are in full have other peaks: $(head "$dir/false")"
# in full: the first three steps, the peak's, the last ones; and samples to the end
expect_sql "SELECT count(*) FROM folded WHERE first_step <= 3 OR last_step >= 290" 0
expect_sql "SELECT count(*) FROM folded f JOIN peak p ON p.kind = 'allocated' AND p.seq BETWEEN f.stretch AND f.stretch + f.events - 1" 0
expect_sql "SELECT max(s.t_ns) > 0.9 * (SELECT max(t_ns) FROM step) FROM sample s" 1
"$BUILD/bin/vramscope" report --all "$db" | grep -q '^folded: .* (steps [0-9]* to [0-9]*), stand .* no peak is affected$' || fail "the report does not say what is folded"
grep -q 'with filledcurves fs transparent pattern' "$run/plot.gp" || fail "the plot hatches nothing"
# the README's queries: what they list of a limited file is as it is in the unlimited one
expect_sql "SELECT max(allocated_bytes) = (SELECT peak_bytes FROM peak WHERE kind = 'allocated' AND device = 0) FROM timeline WHERE device = 0" 1
