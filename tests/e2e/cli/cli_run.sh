#!/bin/bash
# run: the command's output, exit status and signals are what they are without it; its environment is set up.
. "$(dirname "$0")/../lib/command.bash"
[ -r "$BUILD/lib/libvramscope.so" ] || { echo "libvramscope.so is not built"; exit 77; }
status() { # status WANT COMMAND...
    local want=$1
    shift
    "$@" >out 2>err
    local got=$?
    [ $got = "$want" ] || no "$*: exit $got, want $want: $(cat err)"
}

for n in 0 1 2 42 255; do status $n "$V" run -q -o s.db -- sh -c "exit $n"; done
for s in TERM KILL SEGV ABRT; do
    status $((128 + $(kill -l $s))) "$V" run -q -o s.db -- sh -c "kill -$s \$\$"
done
"$V" run -q -o s.db -- sh -c 'printf "out\n"; printf "err\n" >&2; cat' >out 2>err <<<"in"
[ "$(cat out)" = $'out\nin' ] && [ "$(cat err)" = err ] || no "streams are not passed through"
status 0 "$V" run -q -o s.db -- sh -c '[ "$1" = "a b" ] && [ "$2" = "" ] && [ "$3" = --json ]' x "a b" "" --json

# environment
lib=$BUILD/lib/libvramscope.so
env LD_PRELOAD=libm.so.6 NVTX_INJECTION64_PATH=/other/tool.so "$V" run -q -o e.db --stacks=all --sample-ms=7 -- env >env.txt 2>/dev/null
grep -qx "LD_PRELOAD=$lib:libm.so.6" env.txt || no "LD_PRELOAD: $(grep LD_PRELOAD env.txt)"
grep -qx "NVTX_INJECTION64_PATH=/other/tool.so" env.txt || no "another tool's NVTX_INJECTION64_PATH"
"$V" run -q -o n.db -- env 2>/dev/null | grep -qx "NVTX_INJECTION64_PATH=$lib" || no "NVTX_INJECTION64_PATH"
grep -qx "VRAMSCOPE_OUTPUT=$D/e.db" env.txt || no "VRAMSCOPE_OUTPUT is not absolute"
grep -qx "VRAMSCOPE_CLAIM=1" env.txt && grep -qx "VRAMSCOPE_STACKS=all" env.txt && grep -qx "VRAMSCOPE_SAMPLE_MS=7" env.txt || no "options"

# signals that somebody sends to us reach the command, once
cat >trap.sh <<'SH'
n=0
for s in INT TERM HUP USR1 USR2; do trap "echo $s >>signals" $s; done
echo ready >ready
while [ ! -e leave ]; do sleep 0.05; done
exit 7
SH
"$V" run -q -o t.db -- sh trap.sh &
pid=$!
for _ in $(seq 100); do [ -e ready ] && break; sleep 0.05; done
for s in TERM HUP USR1 USR2; do
    kill -$s $pid
    for _ in $(seq 600); do grep -qx $s signals 2>/dev/null && break; sleep 0.05; done
done
kill -TERM $pid # once this one is there as well, the last one has come as often as it does
for _ in $(seq 600); do [ "$(grep -cx TERM signals)" -lt 2 ] || break; sleep 0.05; done
touch leave
wait $pid
got=$?
[ $got = 7 ] || no "the status after signals: $got"
[ "$(sort signals | tr '\n' ' ')" = "HUP TERM TERM USR1 USR2 " ] || no "signals seen: $(tr '\n' ' ' <signals)"

# two runs at once with one output: the second would take the first one's file for its own
rm -f ready leave
"$V" run -q -o one.db -- sh -c 'touch ready; until [ -e leave ]; do sleep 0.05; done' &
pid=$!
until [ -e ready ]; do sleep 0.05; done
"$V" run -o one.db -- touch second 2>err
[ $? = 2 ] && [ ! -e second ] && grep -q "another vramscope run writes to .*/one.db now: give another -o" err || no "a second run: $(cat err)"
"$V" run -q -o other.db -- true || no "a run beside it"
touch leave
wait $pid || no "the first run's status"
"$V" run -q -o one.db -- true || no "a run after it"

# a signal that kills the command kills us as well
"$V" run -q -o k.db -- sh -c 'touch begun; exec sleep 30' &
pid=$!
for _ in $(seq 600); do [ -e begun ] && break; sleep 0.05; done
kill -TERM $pid
wait $pid
got=$?
[ $got = 143 ] || no "TERM: status $got"

# nothing recorded is said, and no file is made
"$V" run -o n.db -- true 2>err
grep -q "^vramscope: nothing was recorded" err || no "no word about an unused GPU: $(cat err)"
says() { # says WORDS COMMAND...: why nothing was recorded
    local words=$1
    shift
    "$V" run -o n.db -- "$@" >out 2>err
    grep -q "^vramscope: nothing was recorded: $words" err || no "$*: $(cat err)"
}
says "signal 11 (Segmentation fault) ended the command before it used the GPU" sh -c 'kill -SEGV $$'
says "the command ended with status 127, as loaders and shells do" sh -c no_such_command_here
mkdir gone && "$V" run -o gone/n.db -- sh -c 'rm -r gone' 2>err
grep -q "^vramscope: nothing was recorded: .*/gone/n.db can't be made: No such file" err || no "no output: $(cat err)"
"$V" run -o /proc/n.db -- touch started 2>err
[ $? = 2 ] && [ ! -e started ] && grep -q "run: /proc/n.db can't be made: " err || no "an output in /proc: $(cat err)"
echo 'int main(void) { return 0; }' >still.c
! "${CC:-cc}" -static still.c -o still 2>/dev/null || says "./still is linked statically, and no library can be preloaded into it" ./still
[ -e n.db ] && no "a file was made although the GPU was never used"
[ $failures = 0 ] && echo "run stays out of the way" || exit 1
