#!/bin/bash
# SIGKILL at random moments of a caching allocator, with a ring of 1024 events: recover completes every number once, totals follow from the rows, and
# the framework's agree.  KILLS: of each kind (3).
. "$(dirname "$0")/../lib/lib.bash"

# Every row's totals against the sums of what the rows before it say.
replay="WITH change AS (
  SELECT seq, framework_bytes AS total, CASE op WHEN 'block_alloc' THEN size_bytes WHEN 'block_free' THEN -size_bytes
    WHEN 'free_missed' THEN iif(space = 'none', -size_bytes, 0) ELSE 0 END AS delta FROM event WHERE device = 0 AND status = 0)
SELECT count(*) FROM (SELECT total, sum(delta) OVER (ORDER BY seq) AS ours FROM change) WHERE total <> ours"

kill_at() { # MODE RING SECONDS
    new_run
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_RING_EVENTS="$2" \
        "$tests/prog_caching" "$1" 0 forever >"$run/out" 2>"$run/err" </dev/null &
    pid=$!
    for ((i = 0; i < 500; i++)); do
        [ -z "$(head -c 8 "$run"/*.vsj 2>/dev/null | tr -d '\0')" ] || break # whose first bytes are written last
        sleep 0.01
    done
    sleep "$3"
    kill -KILL $pid
    wait $pid 2>/dev/null
}

check() { # WHAT
    recover_run
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT count(*) = max(seq) OR count(*) = 0 FROM ev" 1
    # a full ring drops events, and then no sum can agree: the rest is for those that lost none
    if [ "$(ask "SELECT count(*) FROM loss WHERE events > 0")" = 0 ]; then
        whole=$((whole + 1))
        expect_sql "$replay" 0
        expect_sql "SELECT count(*) FROM mismatch" 0
        expect_sql "SELECT count(*) FROM peak p WHERE kind = 'allocated' AND device = 0
          AND peak_bytes <> (SELECT max(allocated_bytes) FROM timeline WHERE device = 0)" 0
    fi
    events=$((events + $(ask "SELECT count(*) FROM ev")))
}

kills=0 whole=0 events=0
for ((n = 0; n < ${KILLS:-$(in_full && echo 3 || echo 1)}; n++)); do
    for mode in native expandable; do
        for ring in 1024 65536; do
            kill_at $mode $ring 0.$((RANDOM % 10))$((RANDOM % 10))
            check
            kills=$((kills + 1))
            rm -rf "$run"
        done
    done
done
echo "$kills kills, $events events, $whole recordings without a loss"
[ "$whole" -gt 0 ] || skip "every recording lost events: the machine is too slow"
