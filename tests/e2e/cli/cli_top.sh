#!/bin/bash
# What `vramscope top` shows is what the process holds, and whatever becomes of the process or its journal is a line.  On a terminal:
# cli_top_terminal.py.
. "$(dirname "$0")/../lib/lib.bash"
journals=$dir/journals
mkdir "$journals" "$dir/jobs"
export VRAMSCOPE_JOURNAL_DIR=$journals COLUMNS=200 LC_ALL=C.UTF-8
cd "$dir" || exit 1
start() { # NAME HOW [VARIABLE=VALUE...]: prog_top, $pid and {in}
    local name=$1 how=$2
    shift 2
    mkfifo "$dir/$name.in"
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/jobs/$name.db" "$@" "$tests/prog_top" "$how" <"$dir/$name.in" >"$dir/$name.out" 2>&1 &
    pid=$!
    exec {in}>"$dir/$name.in"
    for ((i = 0; i < 200; i++)); do
        grep -q ready "$dir/$name.out" && return
        sleep 0.05
    done
    fail "$name does not begin: $(cat "$dir/$name.out")"
}
top() { timeout 300 "$V" top "$@"; }
shows() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    for ((i = 0; i < 20; i++)); do # a look may come before the drain's first word
        top --once "$@" >frame 2>frame.err && grep -qE -- "$pattern" frame && return
    done
    fail "top --once $* does not show '$pattern': $(cat frame frame.err)"
}

mkdir empty
top --once empty >frame 2>err
[ $? = 3 ] && grep -q "no process of empty records now" err || fail "nothing of a directory: $(cat frame err)"
# of the host there may be processes of other tests, or one of them may just end: until none is there
for ((i = 0; i < 100; i++)); do
    top --once >frame 2>err
    status=$?
    [ $status = 0 ] || grep -q "has ended" err || break
    sleep 0.2
done
[ $status = 3 ] && grep -q "no process records on this host" err || [ $i = 100 ] || fail "nothing there: $(cat frame err)"

start one hold RANK=3 WORLD_SIZE=8
one=$pid one_in=$in
# 128 + 32 MiB now, 128 + 64 at the peak; three steps ended
COLUMNS=80 shows "^ +$one +3 +0 160.0 MiB  192.0 MiB  160.0 MiB .* attention$" "$one"
grep -q "step 4 under way; in forward > attention" frame || fail "ranges: $(cat frame)"
grep -q "^device 0: .*; peak 192.0 MiB at " frame || fail "device: $(cat frame)"
grep -q "192.0 MiB *[^ ]" frame || grep -q "192.0 MiB " frame || fail "no curve: $(cat frame)"
[ "$(wc -L <frame)" -le 80 ] || fail "wider than 80 columns: $(cat frame)"
LC_ALL=C top --once "$one" | LC_ALL=C grep -q '[^ -~]' && fail "not ASCII in the C locale"
for operand in "$dir/jobs/one.db" "$dir/jobs" "$(echo "$journals"/*.vsj)"; do
    shows "^ +$one " "$operand"
done
start two steps
two=$pid two_in=$in
shows "^\*? *$two +- +0 .*iB +[0-9.]+ +[0-9.]+ " # the host: both, and the second one's steps a second, which take two looks
[ "$(grep -cE "^[* ] *($one|$two) " frame)" = 2 ] || fail "two processes: $(cat frame)"
awk -v pid="$two" '{ sub(/^\*/, "* ") } $1 == pid || $2 == pid { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9.]+$/ && $i > 5 && i > 9) found = 1 } END { exit !found }' frame || fail "steps a second: $(cat frame)"
python3 "$here/cli_top_terminal.py" "$V" "$one" || fail "on a terminal"

# ends: cleanly, killed, killed while it wrote
echo >&"$one_in"
exec {one_in}>&-
wait "$one" || fail "prog_top ended with $?: $(cat one.out)"
top --once "$one" >frame 2>err
[ $? = 3 ] && grep -q "no process of $one records now" err || fail "one has ended: $(cat frame err)"
journal=$(echo "$journals"/*.vsj)
kill -KILL "$two"
wait "$two" 2>/dev/null
exec {two_in}>&-
mkdir kept && cp "$journal" kept/
shows "^pid $two was killed, or left without its exit handlers: vramscope report $dir/jobs/two.db completes its file" "$two"
tear() { # JOURNAL: as while its process writes the page of the present
    python3 - "$1" <<'PY'
import struct, sys
with open(sys.argv[1], "r+b") as f:
    head = f.read(512)
    places = struct.unpack_from("<22Q", head, 8 + 4 + 4 + 8 * 4 + 4 + 4 + 40)
    f.seek(places[20]) # the eleventh section: the page of the present, its sequence first
    sequence, = struct.unpack("<Q", f.read(8))
    assert sequence and sequence % 2 == 0, sequence
    f.seek(places[20])
    f.write(struct.pack("<Q", sequence + 1))
PY
}
tear "$journal"
shows "^pid $two was killed, or left without its exit handlers, while these figures were written: " "$two"
# another version's, no journal, another user's
python3 -c "
f = open('kept/' + '$(basename "$journal")', 'r+b'); f.seek(8); f.write(b'\x63')"
cp kept/*.vsj "$journals/newer.vsj"
top --once "$journals/newer.vsj" >frame 2>err
[ $? = 3 ] && grep -q "newer.vsj is of a newer vramscope" err || fail "a newer journal: $(cat frame err)"
echo junk >"$journals/junk.vsj"
top --once "$journals/junk.vsj" >frame 2>err
[ $? = 3 ] && grep -q "is no journal of vramscope" err || fail "junk: $(cat frame err)"
if [ "$(id -u)" = 0 ]; then
    chown nobody "$journals/newer.vsj"
    top --once "$journals/newer.vsj" >frame 2>err
    [ $? = 3 ] && grep -q "newer.vsj is another user's" err || fail "another user's: $(cat frame err)"
fi
rm "$journals"/*.vsj
top --once nowhere >frame 2>err
[ $? = 2 ] && grep -q "nowhere: no such pid, database, journal or directory" err || fail "nowhere: $(cat err)"

# PID, of timeout: until its command has the journal open, which looks at that once more a second later
until_open() {
    for ((i = 0; i < 3000; i++)); do
        grep -q " $journals/.*\.vsj$" "/proc/$(pgrep -P "$1")/maps" 2>/dev/null && return
        sleep 0.01
    done
    fail "top does not open the journal"
}
# somebody truncates the journal while top looks at it
start three hold
three=$pid three_in=$in
timeout 300 "$V" top --once "$three" >frame 2>err &
watcher=$!
until_open $watcher
: >"$(echo "$journals"/*.vsj)"
wait $watcher
status=$?
[ $status = 0 ] && grep -q "of pid $three was truncated by somebody" frame || fail "a cut journal: status $status: $(cat frame err)"
exec {three_in}>&-
wait "$three"

# figures that are being written at every look are neither silence nor nothing
rm -f "$journals"/*.vsj
start four hold
four=$pid four_in=$in
journal=$(echo "$journals"/*.vsj)
shows "^ +$four " "$four"
kill -STOP "$four"
until grep -q '^State:.T' "/proc/$four/status"; do sleep 0.02; done
tear "$journal"
top --once "$four" >frame 2>err
grep -q "^pid $four runs, and its figures were being written at each look" frame && ! grep -qE "said nothing|nothing yet" frame || fail "half written: $(cat frame err)"
kill -CONT "$four"
shows "^ +$four " "$four"
# its journal as the operand: it ends, and top with it, with a line
python3 "$here/cli_top_terminal.py" "$V" "$four" "$journal" "$dir/four.in" || fail "the journal goes away at the end"
exec {four_in}>&-
wait "$four"

# somebody removes the journal of a process that lives
start five hold
five=$pid five_in=$in
shows "^ +$five " "$five"
timeout 300 "$V" top --once "$five" >frame 2>err &
watcher=$!
until_open $watcher
rm "$journals"/*.vsj
wait $watcher
status=$?
[ $status = 0 ] && grep -q "^pid $five still runs, but its journal is gone" frame && ! grep -q "has ended" frame || fail "a removed journal: status $status: $(cat frame err)"
exec {five_in}>&-
wait "$five"

# a program without steps is in none
start six still
six=$pid six_in=$in
shows "^no step has ended; in forward > attention" "$six"
exec {six_in}>&-
wait "$six"
echo "top shows what is there, and says what is not"
