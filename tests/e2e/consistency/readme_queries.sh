#!/bin/bash
# Every query that the README and docs/sql.md show, and every one of examples/queries.sql, runs on a recording of the example and
# says something where it should.
set -u
: "${BUILD:?where the build is}"
cd "$(dirname "$0")/../../.." || exit 1
if ! command -v sqlite3 >/dev/null; then
    echo "no sqlite3 command here"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "FAIL: $*"
    exit 1
}

LD_LIBRARY_PATH=$BUILD/sim "$BUILD/bin/vramscope" run --access -o "$dir/run.db" -- "$BUILD/bin/train_lm" \
    --steps 10 --batch 2048 --vocab 1024 --hidden 32 --rate 0.02 LICENSE >"$dir/log" 2>&1 || fail "no recording: $(cat "$dir/log")"

# Their lines are run as a reader would: by the shell, with run.db in the current directory.
grep -h '^sqlite3 ' README.md docs/sql.md >"$dir/lines"
[ "$(wc -l <"$dir/lines")" -ge 16 ] || fail "the pages show fewer queries than they did"
while IFS= read -r line; do
    (cd "$dir" && bash -euc "$line") >"$dir/out" 2>&1 || fail "$line: $(cat "$dir/out")"
    case $line in
    *'FROM loss'*) [ ! -s "$dir/out" ] || fail "events were lost: $(cat "$dir/out")" ;;
    *'FROM leak'*) [ ! -s "$dir/out" ] || fail "the example leaks: $(cat "$dir/out")" ;;
        *'FROM live_at_oom'*) [ ! -s "$dir/out" ] || fail "the example ran out of memory: $(cat "$dir/out")" ;;
    # fullest, not the sample after the context's end; on the simulated driver the context is nearly all of it
    *residual_mib*) grep -Eq '│ nvml_process │ [1-9][0-9]* ' "$dir/out" || fail "no residual: $(cat "$dir/out")" ;;
    *) [ -s "$dir/out" ] || fail "no answer to: $line" ;;
    esac
done <"$dir/lines"

sqlite3 -bail -box "$dir/run.db" <examples/queries.sql >"$dir/out" 2>&1 || fail "queries.sql: $(tail -n 3 "$dir/out")"
# each of them by itself: it answers, but where nothing was folded, left, lost, refused or short of memory
python3 - "$dir/run.db" examples/queries.sql <<'PY' || fail "queries.sql"
import re
import sqlite3
import sys

queries, query = [], ""
for part in re.sub("--[^\n]*", "", open(sys.argv[2]).read()).split(";")[:-1]:
    query += part + ";"
    if sqlite3.complete_statement(query):
        queries.append(query.strip())
        query = ""
assert len(queries) == 20 and not query, len(queries)
db = sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True)
for query in queries:
    rows = db.execute(query).fetchall()
    silent = re.search("FROM (folded|leak|loss|mismatch|live_at_oom)|op = 'oom'", query)
    assert bool(rows) != bool(silent), (rows[:2], query)
PY
for phase in forward logits backward optimizer; do
    grep -q "$phase" "$dir/out" || fail "queries.sql never shows the phase $phase"
done

# What the example holds can be counted by hand: two matrices rows x vocab of fp32 live at the peak.
logits=$((2 * 2048 * 1024 * 4))
peak=$(sqlite3 "$dir/run.db" "SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'allocated'")
[ "$peak" -gt $logits ] && [ "$peak" -lt $((logits * 2)) ] || fail "a peak of $peak bytes with $logits of logits"
at_peak=$(sqlite3 "$dir/run.db" "WITH top AS (SELECT seq FROM peak WHERE device = 0 AND kind = 'allocated')
    SELECT sum(size_bytes) FROM event, top WHERE event.seq <= top.seq AND op = 'alloc' AND status = 0 AND device = 0
    AND event.seq NOT IN (SELECT mate FROM event, top WHERE event.seq <= top.seq AND op = 'free')")
view=$(sqlite3 "$dir/run.db" "SELECT sum(size_bytes) FROM live_at_peak WHERE device = 0")
[ "$view" = "$peak" ] || fail "live_at_peak adds up to $view, the peak is $peak"
[ "$at_peak" = "$peak" ] || fail "what lives at the peak adds up to $at_peak, the peak is $peak"
largest=$(sqlite3 "$dir/run.db" "SELECT phase FROM event WHERE op = 'alloc' ORDER BY size_bytes DESC, seq LIMIT 1")
[ "$largest" = logits ] || fail "the largest allocation is in phase $largest"
end=$(sqlite3 "$dir/run.db" "SELECT end_bytes FROM peak WHERE device = 0 AND kind = 'allocated'")
[ "$end" = 0 ] || fail "$end bytes at the end, though the example frees all"
echo "all queries of the README, of docs/sql.md and of queries.sql answer"
