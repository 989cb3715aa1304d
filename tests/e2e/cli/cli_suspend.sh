#!/bin/bash
# `vramscope suspend` and `resume`: what they ask, of whom, and what they say of each outcome.  Processes that only answer
# (prog_answers) show what is printed; recorded ones that the request reaches the arena, or why it does not.
. "$(dirname "$0")/../lib/lib.bash"
journals=$dir/journals
mkdir "$journals" "$dir/jobs"
export VRAMSCOPE_JOURNAL_DIR=$journals LC_ALL=C.UTF-8
cd "$dir" || exit 1
declare -A fd
until_says() { # NAME PATTERN
    for ((i = 0; i < 6000; i++)); do
        grep -q "$2" "$dir/$1.out" && return
        sleep 0.02
    done
    fail "$1 does not say '$2': $(cat "$dir/$1.out")"
}
begin() { # NAME COMMAND...: $pid, and ${fd[NAME]} its standard input
    local name=$1 in
    shift
    mkfifo "$dir/$name.in"
    ( # without those of the others, whose ends would not come
        for in in "${fd[@]}"; do exec {in}>&-; done
        exec "$@"
    ) <"$dir/$name.in" >"$dir/$name.out" 2>&1 &
    pid=$!
    exec {in}>"$dir/$name.in"
    fd[$name]=$in
    until_says "$name" ready
}
end() { # NAME PID: its status
    local in=${fd[$1]}
    exec {in}>&-
    unset "fd[$1]"
    wait "$2"
}
answers() { # NAME HOW [RANK]
    mkdir -p "$dir/jobs/${1%.*}"
    : >"$dir/jobs/${1%.*}/$1.db"
    begin "$1" "$tests/prog_answers" "$2" "$dir/jobs/${1%.*}/$1.db" "${3:-}"
}
recorded() { # NAME [VARIABLE=VALUE...]
    begin "$1" env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/jobs/$1.db" "${@:2}" "$tests/prog_suspend"
}
# says STATUS 'OUT' 'ERR' WORDS...: what `vramscope WORDS` prints, on both, with its status; of `#` nothing is asked
says() {
    local status=$1 out=$2 err=$3
    shift 3
    timeout 300 "$V" "$@" >out 2>err
    local got=$?
    [ $got = "$status" ] || fail "vramscope $*: status $got, not $status: $(cat out err)"
    [ "$out" = '#' ] || [ "$(cat out)" = "$out" ] || fail "vramscope $*: prints $(cat out)"
    [ "$err" = '#' ] || [ "$(cat err)" = "$err" ] || fail "vramscope $*: says $(cat err)"
}

# ---- what is wrong with the words ----
says 2 '' 'vramscope: suspend: which process? its pid, file or directory, of which vramscope top shows all' suspend
says 2 '' 'vramscope: resume: which process? its pid, file or directory, of which vramscope top shows all' resume a b
says 2 '' 'vramscope: suspend: --role says what goes and --keep what stays: give one of them' suspend --role=parameter --keep=buffer 1
for role in activation nope 'parameter,output' optimizer; do
    says 2 '' "vramscope: suspend: --role takes parameter, gradient, optimizer-state and buffer, the roles that PyTorch tells, not '${role##*,}'" suspend "--role=$role" 1
done
says 2 '' 'vramscope: suspend: --to=nowhere is no directory that can be written: mkdir -p nowhere' suspend --to=nowhere 1
long=$dir/$(printf '%0200d' 0)/$(printf '%060d' 0)
mkdir -p "$long"
says 2 '' "vramscope: suspend: --to takes at most 255 bytes, and $(realpath "$long") has $(realpath "$long" | tr -d '\n' | wc -c): name a shorter one" suspend --to="$long" 1
says 2 '' 'vramscope: suspend: nowhere: no such pid, database, journal or directory: vramscope top shows all that record' suspend nowhere
says 3 '' 'vramscope: resume: pid 999999999 has ended: vramscope top shows all that record now' resume 999999999
says 3 '' "vramscope: suspend: no process of $$ records now: vramscope top shows all that do" suspend $$
says 3 '' 'vramscope: suspend: no process of jobs records now: vramscope top shows all that do' suspend jobs

# ---- what is asked, and what is said of what came of it ----
answers one does
one=$pid
says 0 "suspended $one (python train.py): 12.00 GiB to the host in 250 ms (48.00 GiB/s); pinning the host's memory took 3.1 s
0 B of the arena's are left on the device" '' suspend "$one"
says 0 "resumed $one (python train.py): 12.00 GiB back in 250 ms (48.00 GiB/s)
12.00 GiB of the arena's are on the device" '' resume jobs/one/one.db
says 0 '#' '' suspend --role=optimizer-state,gradient --timeout=5s "$one"
says 0 '#' '' suspend "--role=optimizer state" "$journals/answers-$one.vsj"
mkdir to
says 0 '#' '' suspend --keep=parameter,buffer --to=to jobs/one
grep -q " 12.00 GiB to files in " out || fail "a suspend to files: $(cat out)"
cat >wanted <<END
ready
suspend roles=0 keep=0 to= timeout=60000000000
resume roles=0 keep=0 to= timeout=60000000000
suspend roles=c keep=0 to= timeout=5000000000
suspend roles=8 keep=0 to= timeout=60000000000
suspend roles=0 keep=12 to=$(realpath to) timeout=60000000000
END
diff wanted one.out || fail "what was asked"
says 0 '#' '' suspend --json "$one"
python3 - "$one" <<'PY' || fail "--json: $(cat out)"
import json, sys
document = json.load(open("out"))
process, = document["processes"]
assert document["json_version"] == 1 and process.pop("file").endswith("/one.db"), process
assert process == {"pid": int(sys.argv[1]), "rank": None, "command": "python train.py", "state": "done", "moved_bytes": 12 << 30, "moving_ns": 250000000,
                   "host_ns": 3100000000, "left_bytes": 0, "beside_bytes": None, "why": None}, process
PY
# what is withdrawn is never carried out
stopped() { # PID
    kill -STOP "$1"
    until grep -q '^State:.T' "/proc/$1/status"; do sleep 0.02; done
}
stopped "$one"
says 1 '' '#' suspend --role=buffer --timeout=0.2s "$one"
kill -CONT "$one"
says 0 '#' '' resume "$one"
tail -n 2 one.out | tr '\n' ' ' | grep -q '^suspend roles=0 .* resume ' || fail "carried out though withdrawn: $(cat one.out)"
# nor withdrawn by another asker
until_locked() { # JOURNAL: somebody asks
    for ((i = 0; i < 3000; i++)); do
        flock -n "$1" true || return
        sleep 0.02
    done
    fail "nobody asks: $(cat err)"
}
stopped "$one"
timeout 300 "$V" suspend "$one" >first 2>first.err &
first=$!
until_locked "$journals/answers-$one.vsj"
says 1 '' "vramscope: resume: another request to pid $one is under way: try again, or with a longer --timeout" resume --timeout=0.2s "$one"
kill -CONT "$one"
wait "$first" || fail "an asker among two: $(cat first first.err)"
answers refuses refuses
says 1 '' "vramscope: suspend: pid $pid (python train.py) refuses: block 0x7f00 is mapped by\\nanother process" suspend jobs/refuses
end refuses "$pid"
answers late late
says 1 '' "vramscope: suspend: pid $pid (python train.py) gave up: work of the device has not ended" suspend "$pid"
end late "$pid"

# ---- a job: all or none ----
answers job.0 does 0
rank0=$pid
answers job.1 does 1
rank1=$pid
says 0 '#' '' suspend jobs/job
[ "$(grep -c '^suspended ' out)" = 2 ] && [ "$(sed -n 's/^suspended \([0-9]*\) .*/\1/p' out | tr '\n' ' ')" = "$rank0 $rank1 " ] || fail "two ranks: $(cat out)"
answers job.2 refuses 2
rank2=$pid
says 1 '' "vramscope: suspend: pid $rank2 (python train.py) refuses: block 0x7f00 is mapped by\\nanother process
vramscope: suspend: pid $rank0 was suspended and is resumed, as others were not suspended
vramscope: suspend: pid $rank1 was suspended and is resumed, as others were not suspended" suspend jobs/job
tail -n 1 job.0.out | grep -q "^resume " && tail -n 1 job.1.out | grep -q "^resume " || fail "nobody resumed the others"
says 1 '#' '#' suspend --json jobs/job
python3 -c 'import json; p = json.load(open("out"))["processes"]; s = [(x["rank"], x["state"], x["moved_bytes"]) for x in p]; assert s == [(0, "undone", None), (1, "undone", None), (2, "refused", None)], s' || fail "--json of a job: $(cat out)"
answers job.3 stays 3
rank3=$pid
says 1 '' '#' suspend jobs/job
grep -qx "vramscope: suspend: pid $rank3 (python train.py) refuses: others have the memory" err && grep -qx "vramscope: suspend: pid $rank3 stays suspended: vramscope resume $rank3" err ||
    fail "one that does not resume: $(cat err)"
for rank in 0 1 2 3; do
    eval "end job.$rank \$rank$rank"
done

# ---- killed meanwhile ----
answers dies dies
says 3 '' "vramscope: suspend: pid $pid was killed, or left without its exit handlers: vramscope report $dir/jobs/dies/dies.db completes its file" suspend "$pid"
wait "$pid" 2>/dev/null

# ---- two askers: the second has its turn, or is told ----
answers slow slow
slow=$pid
timeout 300 "$V" suspend --timeout=0.2s "$slow" >first 2>first.err &
first=$!
until_says slow '^suspend'
says 1 '' "vramscope: resume: another request to pid $slow is under way: try again, or with a longer --timeout" resume --timeout=0.1s "$slow"
timeout 300 "$V" resume "$slow" >second 2>second.err &
second=$!
for ((i = 0; i < 3000; i++)); do
    grep -q "is at it for longer than --timeout" first.err && break
    sleep 0.02
done
grep -qx "vramscope: suspend: pid $slow is at it for longer than --timeout; waiting on" first.err || fail "what takes long is not said: $(cat first.err)"
echo >&"${fd[slow]}"
wait "$first" || fail "the first asker: $(cat first first.err)"
until_says slow '^resume'
echo >&"${fd[slow]}"
wait "$second" || fail "the second asker: $(cat second second.err)"
grep -q "^suspended $slow " first && grep -q "^resumed $slow " second || fail "two askers: $(cat first second)"
# an asker that is killed leaves its turn, and a request that was taken is waited for
timeout 300 "$V" suspend "$slow" >/dev/null 2>&1 &
first=$!
for ((i = 0; i < 3000 && $(grep -c '^suspend' slow.out) < 2; i++)); do sleep 0.02; done
kill -KILL "$(pgrep -P "$first")"
wait "$first" 2>/dev/null
timeout 300 "$V" resume "$slow" >second 2>second.err &
second=$!
echo >&"${fd[slow]}"
for ((i = 0; i < 3000 && $(grep -c '^resume' slow.out) < 2; i++)); do sleep 0.02; done
echo >&"${fd[slow]}"
wait "$second" || fail "after an asker that was killed: $(cat second second.err)"
# stopped in the midst of one
timeout 300 "$V" suspend --timeout=0.2s "$slow" >first 2>first.err &
first=$!
for ((i = 0; i < 3000 && $(grep -c '^suspend' slow.out) < 3; i++)); do sleep 0.02; done
kill -STOP "$slow"
wait "$first"
[ $? = 3 ] && grep -q "pid $slow runs, but its recording has said nothing for " first.err || fail "stopped in the midst: $(cat first first.err)"
kill -CONT "$slow"
echo >&"${fd[slow]}"
end slow "$slow"

# ---- a recorded process without the arena ----
recorded plain
no_arena="vramscope: suspend: pid $pid ($tests/prog_suspend) refuses: it does not run under the arena: vramscope run --allocator=arena"
for operand in "$pid" jobs/plain.db "$(echo "$journals"/*"$pid"*.vsj)"; do
    says 1 '' "$no_arena" suspend "$operand"
done
says 1 '' "$no_arena" suspend --role=parameter "$pid"
# stopped: withdrawn in time, and never carried out; then it goes on
stopped "$pid"
says 1 '' '#' suspend --timeout=0.5s "$pid"
grep -qE "pid $pid (has not noticed the request, which is withdrawn: try again|runs, but its recording has said nothing for .*; the request is withdrawn$)" err || fail "a stopped process: $(cat err)"
says 1 '' '#' suspend --timeout=4s "$pid"
grep -q "said nothing for .*; the request is withdrawn$" err || fail "a process that was stopped for long: $(cat err)"
kill -CONT "$pid"
says 1 '' "$no_arena" suspend "$pid"
# killed before it noticed; its journal truncated
ask_a_stopped() {
    stopped "$pid"
    timeout 300 "$V" suspend "$pid" >out 2>err &
    first=$!
    until_locked "$journals"/*"$pid"*.vsj
}
ask_a_stopped
kill -KILL "$pid"
wait "$first"
[ $? = 3 ] && grep -q "suspend: pid $pid was killed" err || fail "killed before it noticed: $(cat out err)"
wait "$pid" 2>/dev/null
recorded cut
ask_a_stopped
: >"$(echo "$journals"/*"$pid"*.vsj)"
wait "$first"
[ $? = 3 ] && grep -q "of pid $pid was truncated by somebody" err || fail "a journal that is truncated meanwhile: $(cat out err)"
kill -CONT "$pid"
end cut "$pid" || fail "prog_suspend without its journal: $(cat cut.out)"
rm "$journals"/*"$pid"*.vsj
# a journal of a vramscope that knew no requests, and one of another user
recorded old
python3 - "$(echo "$journals"/*"$pid"*.vsj)" "$journals/old-format.vsj" <<'PY'
import struct, sys
content = bytearray(open(sys.argv[1], "rb").read())
at = 8 + 4 + 4 + 8 * 4 + 4 + 4 + 40
assert struct.unpack_from("<Q", content, at + 21 * 8) == (2,)  # the pages, the last section
struct.pack_into("<Q", content, at + 21 * 8, 1)
open(sys.argv[2], "wb").write(content)
PY
says 3 '' "vramscope: suspend: pid $pid records with an older vramscope, which can't be asked: start it again" suspend "$journals/old-format.vsj"
cp one.out before
cp "$journals/old-format.vsj" "$journals/answers-again.vsj" # a job with one that can't be asked: nobody is
python3 - "$journals/answers-again.vsj" "$dir/jobs/one/one.db" <<'PY'
import struct, sys
with open(sys.argv[1], "r+b") as f:
    content = f.read(1 << 16)
    at = content.index(b"/jobs/old.db\0")
    at = content.rindex(b"\0", 0, at) + 1
    f.seek(at)
    f.write(sys.argv[2].encode() + b"\0")
PY
says 3 '' "vramscope: suspend: pid $pid records with an older vramscope, which can't be asked: start it again" suspend jobs/one
cmp one.out before || fail "asked all the same: $(cat one.out)"
rm "$journals/answers-again.vsj"
"$V" top --once "$journals/old-format.vsj" >out 2>err && grep -q " $pid " out || fail "top of an older journal: $(cat out err)"
if [ "$(id -u)" = 0 ]; then
    chown nobody "$journals/old-format.vsj"
    says 3 '' '#' suspend "$journals/old-format.vsj"
    grep -q "is another user's" err || fail "another user's: $(cat err)"
fi
rm "$journals/old-format.vsj"
end old "$pid" || fail "prog_suspend: $(cat old.out)"

# ---- under the arena ----
has_arena || { echo "asked and answered; no arena in this build" && exit 0; }
recorded arena VRAMSCOPE_ALLOCATOR=arena
refuses="vramscope: suspend: pid $pid ($tests/prog_suspend) refuses:"
unknown="nothing that is alive in the arena is known to be"
says 1 '' "$refuses $unknown gradient, buffer: PyTorch says so under vramscope run" suspend --role=gradient,buffer "$pid"
says 1 '' "$refuses $unknown buffer: PyTorch says so under vramscope run" suspend --keep=buffer "$pid"
for to in "" "--to=to" --role=parameter --keep=buffer,optimizer-state; do
    says 0 '#' '' suspend $to "$pid"
    grep -qE "^suspended $pid \($tests/prog_suspend\): [0-9.]+ MiB to (the host|files) in " out || fail "suspend $to: $(cat out)"
    [ "${to#--[rk]}" != "$to" ] || grep -qx "0 B of the arena's are left on the device" out || fail "suspend $to: $(cat out)"
    says 1 '' "$refuses it is suspended already" suspend "$pid"
    says 0 '#' '' resume jobs/arena.db
    grep -qE "^resumed $pid \($tests/prog_suspend\): [0-9.]+ MiB back in " out || fail "resume: $(cat out)"
    says 1 '' "${refuses/suspend/resume} it is not suspended" resume "$pid"
done
ended=$pid
end arena "$pid" && grep -qx whole arena.out || fail "prog_suspend under the arena: $(cat arena.out)"
says 3 '' 'vramscope: resume: the process of jobs/arena.db has ended: vramscope report jobs/arena.db shows what was recorded' resume jobs/arena.db
says 3 '' "vramscope: resume: pid $ended has ended: vramscope top shows all that record now" resume "$ended"
end one "$one"
echo "asked, refused and answered; all or none of a job"
