#!/bin/bash
# `fit --max` finds the largest size that fits, and has run the next, which does not; of two axes for each value of the second.  Nothing is run
# twice, also after a kill, and nothing that was written stays.
. "$(dirname "$0")/../lib/lib.bash"
unset LD_LIBRARY_PATH
program=$tests/prog_largest # 1 GiB, and 256 MiB for each 1024 tokens
cd "$dir" || exit 1
mkdir tmp && export TMPDIR=$PWD/tmp
word=largest-$$ # in the command lines of this test's programs
fit() { # STATUS ARGUMENT...: the answer is in out
    local wanted=$1 got
    shift
    COLUMNS=200 timeout 240 "$V" fit "$@" >out 2>err </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(head -c 3000 out err)"
}
has() { grep -qE -- "$1" out || fail "no '$1': $(cat out)"; }
json() { # EXPRESSION WANTED: of the answer in out
    local got
    got=$(python3 -c 'import json, sys
d = json.load(open("out")); rows = d["largest"]
print(eval(sys.argv[1]))' "$1") || fail "$1: $(cat out)"
    [ "$got" = "$2" ] || fail "$1: $got, not $2: $(cat out)"
}
outcome() { cut -d' ' -f1 "$1/outcome"; }

# the largest of all whole numbers, by fewer runs than there are; nothing stays where nothing was asked for
fit 0 --capacity=24GiB --max batch=1..256 -- "$program" '{batch}' 1024
has '^largest batch that fits a device of 24\.00 GiB: 89, with [0-9.]+ MiB to spare$'
has '^  90 does not; both were run$'
has '^batch=89 +ok .* exact$'
has '^batch=90 +oom, asked 23\.50 GiB'
has '^dry runs, no GPU'
[ "$(grep -c '^batch=' out)" -le 12 ] || fail "as many runs as that: $(cat out)"
[ -z "$(ls -A tmp)" ] && [ -z "$(find . -maxdepth 1 -newer tmp ! -name out ! -name err ! -name .)" ] || fail "left behind: $(ls -A . tmp)"

# of a list; all fit; none does
fit 0 --capacity=24GiB --max batch=8,64,96,128 --json -- "$program" '{batch}' 1024
json '[(r["at"], r["largest"], r["next"], r["next_outcome"], r["refused"]) for r in rows]' "[(None, '64', '96', 'oom', '96')]"
fit 0 --capacity=24GiB --max batch=8,16 -- "$program" '{batch}' 1024
has ': 16, with .* to spare$'
has '^  it is the largest that was asked for$'
fit 1 --capacity=1GiB --max batch=8,16 -- "$program" '{batch}' 1024
has '^no batch fits a device of 1\.00 GiB$'
has '^  8, the smallest, does not$'

# for each length; table, database and picture are a sweep's; a second call runs nothing; a wider one runs what is new
fit 0 --capacity=24GiB -o two --max batch=1..256 --max seq=1024,2048,4096 -- "$program" '{batch}' '{seq}'
has '^ +1024 +89 .* 90 does not'
has '^ +2048 +44 .* 45 does not'
has '^ +4096 +22 .* 23 does not'
[ "$(sqlite3 two/sweep.db "SELECT group_concat(x) FROM (SELECT seq || ' ' || max(batch + 0) x FROM sweep WHERE outcome = 'ok' GROUP BY seq ORDER BY seq + 0)")" = '1024 89,2048 44,4096 22' ] || fail "the database"
[ "$(sqlite3 two/sweep.db "SELECT DISTINCT simulated FROM process")" = 2 ] && "$V" report --all two/sweep.db >report && grep -q 'dry run' report || fail "the database is not of dry runs"
"$V" plot two -o two.gp && grep -q 'xlabel "batch"' two.gp && grep -q 'seq=2048' two.gp || fail "the picture: $(grep -e xlabel -e title two.gp)"
[ "$(head -n 1 two/sweep.csv | cut -d, -f1,2)" = seq,batch ] || fail "the rows: $(head -n 1 two/sweep.csv)"
fit 0 --capacity=24GiB -o two --json --max batch=1..256 --max seq=1024,2048,4096 -- "$program" '{batch}' '{seq}'
json 'd["points_run"], [r["largest"] for r in rows], d["searched"], d["for_each"]' "(0, ['89', '44', '22'], 'batch', 'seq')"
json '{p["point"]: (p["outcome"], p["exact"], p["reserved_bytes"] >> 20) for p in d["points"]}["seq=2048,batch=44"]' "('ok', True, 23552)"
fit 0 --capacity=24GiB -o two --json --max batch=1..512 --max seq=512,1024 -- "$program" '{batch}' '{seq}'
json '[r["largest"] for r in rows], {p["values"][0]["value"] for p in d["points"]} == {"512", "1024"}, 0 < d["points_run"] < 10' "(['179', '89'], True, True)"
fit 2 --capacity=25GiB -o two --max batch=1..256 --max seq=1024 -- "$program" '{batch}' '{seq}'
grep -q 'has points of another command' err || fail "another question in one directory: $(cat err)"

# the program fails by itself: beyond the largest, which is no "does not fit"; at the smallest, where others have an answer; at all
fit 2 --capacity=24GiB --max batch=1..256 -o fails -- "$program" '{batch}' 1024 fails=89
has ': 88, with'
has '^  at 89 the program failed by itself, it ended with status 3: this batch divides nothing$'
[ "$(outcome fails/batch=89)" = crash ] || fail "its outcome: $(cat fails/*/outcome)"
fit 2 --capacity=24GiB --json --max batch=1..256 -o fails -- "$program" '{batch}' 1024 fails=89
json 'rows[0]["largest"], rows[0]["next_outcome"], rows[0]["next_why"], rows[0]["refused"], 0 < d["points_run"] < 3' "('88', 'crash', 'it ended with status 3: this batch divides nothing', None, True)" # that one is run again
if in_full; then
    fit 0 --capacity=24GiB --max batch=1..256 -- "$program" '{batch}' 1024 fails=1
    has ': 89, with'
    has '^  at 1 the program failed by itself'
fi
fit 2 --capacity=24GiB --max batch=2,3 -- sh -c 'echo no {batch} >&2; exit 7'
has '^it is not known which batch fits'
has 'at 2 the program failed by itself, it ended with status 7: no 2$'
fit 3 --capacity=24GiB --max batch=2,3 -- echo '{batch}'
has 'at 2 nobody can tell, the program never used a GPU'
fit 2 --max batch=2,3 -- "$dir/nothing-there" '{batch}'
[ "$(wc -l <err)" = 1 ] && [ ! -s out ] || fail "a command that is none: $(cat err out)"

# what is not known exactly straddles the limit: between two sizes, each tried
fit 0 --capacity=24GiB --json --max batch=1..256 -- "$program" '{batch}' 1024 guess=600000000
json 'rows[0]["largest"], rows[0]["next"], rows[0]["next_outcome"], rows[0]["refused"]' "('87', '88', 'between', '93')"
json '{p["point"]: p["outcome"] for p in d["points"] if p["point"] in ("batch=87", "batch=92", "batch=93")}' "{'batch=87': 'ok', 'batch=92': 'between', 'batch=93': 'oom'}"

# what contradicts the assumption is said
fit 0 --capacity=24GiB --max batch=1..12 --jobs=4 -- sh -c '[ {batch} = 3 ] && exec "$0" 200 1024; exec "$0" {batch} 1024' "$program"
has '^  a smaller one than the largest does not fit'

# killed while two run: what they run ends, what was done is not run again, and the answer is the same
kept() { (cd stop && find . -name outcome -newermt @2 | sort); }
touch go-1 go-16
timeout 120 "$V" fit --capacity=24GiB --jobs=2 -o stop --max batch=1..256 -- "$program" '{batch}' 1024 'wait=go-{batch}' $word >out 2>err &
for ((i = 0; i < 600; i++)); do
    [ "$(find stop -name outcome 2>/dev/null | wc -l)" = 2 ] && pgrep -f "prog_largest .* $word" >/dev/null && break
    sleep 0.1
done
kill -KILL "$(pgrep -P $!)"
wait $!
for ((i = 0; i < 600; i++)); do pgrep -f "prog_largest .* $word" >/dev/null || break; sleep 0.1; done
! pgrep -f "prog_largest .* $word" >/dev/null || fail "a killed search runs on: $(pgrep -af "prog_largest .* $word")"
touch -d @1 stop/*/outcome
for ((i = 1; i < 257; i++)); do : >go-$i; done
flock stop true
fit 0 --capacity=24GiB --jobs=2 -o stop --max batch=1..256 -- "$program" '{batch}' 1024 'wait=go-{batch}' $word
has '^largest batch that fits a device of 24\.00 GiB: 89,'
[ "$(find stop -name outcome ! -newermt @2 | sort | tr '\n' ' ')" = 'stop/batch=1/outcome stop/batch=16/outcome ' ] || fail "run again: $(find stop -name outcome -newermt @2)"
[ -z "$(find stop -name '.vramscope-dry-*')" ] || fail "left behind: $(find stop)"

# several at once write over a file that is there: it is as it was
if unshare -m true 2>/dev/null || unshare -Um true 2>/dev/null; then
    echo "hours of work" >checkpoint
    fit 0 --capacity=24GiB --jobs=4 --max batch=1..256 -- "$program" '{batch}' 1024 write=checkpoint
    has ': 89, with'
    [ "$(cat checkpoint)" = "hours of work" ] || fail "a checkpoint was overwritten: $(cat checkpoint)"
fi

# on a terminal a line says how far it is, and is gone at the end
python3 - "$V" "$program" <<'PY' || fail "the line of progress"
import os, pty, sys
told = b""
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], [sys.argv[1], "fit", "--capacity=24GiB", "--max", "batch=1..256", "--", sys.argv[2], "{batch}", "1024"])
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    told += piece
assert os.waitpid(pid, 0)[1] == 0, told
lines = told.split(b"\r\033[K")
assert any(b"running: batch=" in x for x in lines) and any(b"batch fits 16" in x for x in lines), told
assert lines[-1].startswith(b"largest batch"), told
PY

# bad requests are one line
for bad in '--max batch' '--max batch=8,4' '--max batch=a,b' '--max seq=1..4' '--max batch=1..2 --max batch=3' '--max batch=1,2 --force'; do
    # shellcheck disable=SC2086 # some are two
    fit 2 $bad -- "$program" '{batch}' 1024
    [ "$(wc -l <err)" = 1 ] && [ ! -s out ] || fail "$bad: $(cat err out)"
done
