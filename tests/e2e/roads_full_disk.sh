#!/bin/bash
# Disks that are full, or become so: the program runs on as without us and stderr has one line; what fitted is there, the
# rest waits in the journal and is there once there is room, or is counted as lost.
if [ "${1:-}" != inside ]; then # a mount of our own
    unshare --mount --map-root-user true 2>/dev/null || { echo "skipped: this user can't mount here"; exit 77; }
    exec unshare --mount --map-root-user "$0" inside
fi
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"
V=$BUILD/bin/vramscope
small=$dir/small
mkdir "$small"
mount -t tmpfs -o size=400k none "$small" 2>/dev/null || skip "this user can't mount here"
trap 'umount "$small"; rm -rf "$dir"' EXIT
said() { grep -c '^vramscope:' "$run/err"; }
plain() { # PROGRAM...: the run was the same without us
    "$@" >"$dir/plain.out" 2>/dev/null
    local status_plain=$?
    [ "$status" = $status_plain ] || fail "$*: exit status $status, $status_plain without the shim"
    cmp -s "$dir/plain.out" "$run/out" || fail "$*: other output"
}

# no room for the journal where it was asked for: it takes another place, and nothing is missing
shimmed env VRAMSCOPE_JOURNAL_DIR="$small" "$tests/prog_exit" exit 100
plain "$tests/prog_exit" exit 100
[ "$(said)" = 1 ] && grep -q 'No space left.*another place' "$run/err" || fail "no room for the journal: $(cat "$run/err")"
[ -z "$(ls -A "$small")" ] || fail "no room for the journal: something was left: $(ls "$small")"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 100

# the database's disk fills up half way
shimmed env VRAMSCOPE_OUTPUT="$small/run.db" VRAMSCOPE_JOURNAL_DIR="$run" "$tests/prog_exit" exit 30000
plain "$tests/prog_exit" exit 30000
[ "$(said)" = 1 ] && grep -qi 'full\|no space' "$run/err" || fail "a full disk under the database: $(cat "$run/err")"
db=$small/run.db
# as it is: a report, or one line that says why there is none
"$V" report "$db" >"$run/report" 2>"$run/report.err" </dev/null
case $? in
0) grep -qiE 'lost|journal|good order' "$run/report" || fail "the report does not say that something is missing: $(head -n 3 "$run/report")" ;;
*) [ "$(wc -l <"$run/report.err")" = 1 ] || fail "report on a full disk: $(cat "$run/report.err")" ;;
esac
# with room again: every event is there or counted as lost
mount -o remount,size=100m "$small"
"$V" report "$db" >"$run/report" 2>"$run/report.err" || fail "report with room again: $(cat "$run/report.err")"
expect_sql "PRAGMA integrity_check" ok
expect_sql "SELECT (SELECT count(*) FROM event WHERE op IN ('alloc', 'free')) + (SELECT ifnull(sum(events), 0) FROM loss) >= 45000" 1
lost=$(ask "SELECT ifnull(sum(events), 0) FROM loss")
[ "$lost" = 0 ] || grep -q "$lost" "$run/report" || fail "$lost events were lost, and the report does not say so: $(head -n 3 "$run/report")"

# no room for the database at all
mount -o remount,size=100m "$small"
rm -f "$small"/*
head -c 99900k /dev/zero >"$small/filler" 2>/dev/null
head -c 4M /dev/zero >>"$small/filler" 2>/dev/null
shimmed env VRAMSCOPE_OUTPUT="$small/run.db" VRAMSCOPE_JOURNAL_DIR="$run" "$tests/prog_exit" exit 100
plain "$tests/prog_exit" exit 100
[ "$(said)" = 1 ] || fail "no room for the database: $(cat "$run/err")"
# and the analyzer's own output
python3 "$(dirname "$0")/../data/make_db.py" "$(dirname "$0")/../../shim/trace/schema.sql" "$dir/good.db" || fail "make_db"
"$V" plot "$dir/good.db" -o "$small/x.gp" 2>"$run/err"
[ $? = 2 ] && [ "$(wc -l <"$run/err")" = 1 ] && grep -q 'full' "$run/err" || fail "plot onto a full disk: $(cat "$run/err")"
[ ! -e "$small/x.gp" ] || fail "plot onto a full disk left half a file"
echo "full disks cost the recording, never the program"
