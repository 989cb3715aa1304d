#!/bin/bash
# VRAMSCOPE_MAX_BYTES: the file stays under it, its WAL too while it grows, whatever a program reports; totals, peaks, every range's
# peak and what lived at the peak are those of an unlimited recording.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"

limit=100
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
    expect_sql "SELECT count(*) FROM loss WHERE events > 0 AND why NOT LIKE 'thinned%'" 0
    expect_sql "SELECT count(*) FROM mismatch" 0
}
facts() {
    ask "SELECT kind, device, peak_bytes, end_bytes FROM peak ORDER BY 1, 2" >"$dir/$1.peaks"
    ask "SELECT r.id, r.name, p.device, p.allocated_bytes, p.reserved_bytes FROM range r JOIN range_peak p ON p.range = r.id ORDER BY 1, 3" >"$dir/$1.ranges"
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
expect_sql "SELECT count(*) > 0 FROM loss WHERE why LIKE 'thinned%'" 1
for what in peaks ranges phases live counters; do
    diff "$dir/unlimited.$what" "$dir/limited.$what" >"$run/difference" || fail "$what (< unlimited, > limited): $(head "$run/difference")"
done
[ "$(wc -l <"$dir/limited.ranges")" -ge 900 ] || fail "$(wc -l <"$dir/limited.ranges") peaks of ranges"
