#!/bin/bash
# run records on the simulated driver: one summary line, a file a process, a killed command's file completed, senseless variables a line
# each.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=200 # every column of the tables
prog=$BUILD/tests/prog_exit
[ -x "$prog" ] && [ -r "$BUILD/sim/libcuda.so.1" ] || { echo "skipped: the simulated driver or prog_exit is not built"; exit 77; }
count() { sqlite3 "$1" "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0 AND size_bytes NOT IN (7777, 8888)"; }
summary='^vramscope: [^ ]+\.db( and [0-9]+ more)?: peak [0-9.]+ [KMG]?i?B allocated, [0-9.]+ [KMG]?i?B reserved, [0-9]+ phases?, no events lost$'

"$V" run --simulated -o a.db -- "$prog" exit 100 >out 2>err
[ $? = 4 ] || no "exit status of the command: $(cat err)"
grep -Eq "$summary" err && [ "$(grep -c '^vramscope:' err)" = 1 ] || no "summary: $(cat err)"
[ "$(count a.db)" = 100 ] || no "a.db has $(count a.db) of 100 allocations"
"$V" report --all a.db | grep -q "^simulated driver: no GPU was involved" || no "the report does not say that it was simulated"

# a killed command: same death, complete file
"$V" run --simulated -o k.db -- "$prog" kill 500 >out 2>err
[ $? = 137 ] || no "status of a killed command"
grep -Eq "$summary" err || no "summary of a killed command: $(cat err)"
[ "$(count k.db)" = 500 ] || no "k.db has $(count k.db) of 500 allocations"
ls /dev/shm/vramscope-*.vsj >/dev/null 2>&1 && for j in /dev/shm/vramscope-*.vsj; do
    grep -aq "$D/" "$j" 2>/dev/null && no "journal $j was left behind"
done

# several processes: the first claims the name, the others get their own
"$V" run --simulated -o m.db -- sh -c "'$prog' exit 10; RANK=3 '$prog' exit 20; true" >out 2>err || no "several processes"
[ "$(count m.db)" = 10 ] || no "m.db has $(count m.db) of 10"
other=$(ls m-rank3-pid*.db 2>/dev/null)
[ -n "$other" ] && [ "$(count "$other")" = 20 ] || no "the second process's file: $(ls)"
grep -q "m.db and 1 more: peak" err || no "summary of two files: $(cat err)"
# a child that is first keeps the name only where the command itself never uses the GPU
pid_of() { sqlite3 "$1" "SELECT pid FROM process"; }
"$V" run --simulated -o c.db -- sh -c "RANK=7 '$prog' exit 30; echo \$\$ >pid; exec '$prog' exit 40" >out 2>err
[ "$(count c.db)" = 40 ] && [ "$(pid_of c.db)" = "$(cat pid)" ] || no "the command's own file: $(ls c*) $(count c.db)"
other=$(ls c-rank7-pid*.db)
[ "$(count "$other")" = 30 ] && [ "$other" = "c-rank7-pid$(pid_of "$other").db" ] || no "the child's file: $(ls c*)"
[ "$(ls c*.db* | wc -l)" = 2 ] && grep -q "^vramscope: c.db and 1 more: peak" err || no "two files: $(ls c*) $(cat err)"
"$V" report --all c.db >page && grep -q "$prog exit 40" page || no "c.db is not whole: $(head -n 3 page)"
"$V" report --all . >out || no "report of a directory"
grep -q "m-rank3" out || no "report of a directory: $(cat out)"

# the default name
"$V" run --simulated -- "$prog" exit 5 >out 2>err
ls vramscope-*-*.db >/dev/null 2>&1 || no "default name: $(ls)"

# the variable's name, where no option gives another; a run inside a run belongs to its job
VRAMSCOPE_OUTPUT=said.db "$V" run --simulated -- "$prog" exit 5 >out 2>err
[ "$(count said.db)" = 5 ] && grep -q "^vramscope: said.db: peak" err || no "VRAMSCOPE_OUTPUT: $(ls) $(cat err)"
VRAMSCOPE_OUTPUT=said.db "$V" run --simulated -- "$prog" exit 5 >out 2>err
[ $? = 2 ] && grep -q "said.db exists" err || no "VRAMSCOPE_OUTPUT names a file that exists: $(cat err)"
VRAMSCOPE_OUTPUT=other.db "$V" run --simulated -o option.db -- "$prog" exit 6 >out 2>err
[ "$(count option.db)" = 6 ] && [ ! -e other.db ] || no "-o goes before VRAMSCOPE_OUTPUT: $(ls)"
mkdir unsaid && (cd unsaid && VRAMSCOPE_OUTPUT='' "$V" run --simulated -- "$prog" exit 5 >out 2>err; ls vramscope-*-*.db >/dev/null 2>&1) ||
    no "an empty VRAMSCOPE_OUTPUT: $(ls unsaid)"
"$V" run --simulated -o outer.db -- sh -c "'$prog' exit 10; '$V' run --simulated -- '$prog' exit 20" >out 2>err
[ $? = 4 ] || no "a run inside a run: $(cat err)"
other=$(ls outer-pid*.db 2>/dev/null)
[ "$(count outer.db)" = 10 ] && [ -n "$other" ] && [ "$(count "$other")" = 20 ] || no "a run inside a run: $(ls)"
[ "$(grep -c '^vramscope: outer.db and 1 more: peak' err)" = 1 ] && [ "$(grep -c '^vramscope:' err)" = 1 ] || no "a run inside a run: $(cat err)"

# patterns in the name
RANK=5 "$V" run --simulated -o pattern-%r.db -- "$prog" exit 5 >out 2>err
[ -s pattern-5.db ] && grep -q "pattern-5.db: peak" err || no "a pattern in the name: $(ls) $(cat err)"

# environment that makes no sense: said, and the default is used
VRAMSCOPE_STACKS=banana VRAMSCOPE_SAMPLE_MS=often VRAMSCOPE_MAX_BYTES=-3 VRAMSCOPE_RING_EVENTS=7 VRAMSCOPE_BANANA=1 \
    "$V" run --simulated -o e.db -- "$prog" exit 50 >out 2>err
[ $? = 4 ] || no "senseless values changed the exit status"
for name in STACKS=banana SAMPLE_MS=often MAX_BYTES=-3 RING_EVENTS=7 BANANA; do
    [ "$(grep -c "^vramscope: VRAMSCOPE_$name" err)" = 1 ] || no "VRAMSCOPE_$name is not one line: $(cat err)"
done
[ "$(count e.db)" = 50 ] || no "senseless values: $(count e.db) of 50 allocations"

# a program that never starts the recording is not told that it never used the GPU
"$V" run --simulated --start-off -o off.db -- "$prog" exit 5 >out 2>err
grep -q '^vramscope: nothing was recorded: the command never called vramscope_record_start(), or never used the GPU (the simulated driver ' err || no "--start-off: $(cat err)"

# a directory that goes away or fills up costs the recording, never the program
mkdir gone
"$V" run --simulated -o gone/x.db -- sh -c "rmdir gone; '$prog' exit 5" >out 2>err
got=$?
[ $got = 4 ] || no "the output directory went away: status $got: $(cat err)"
[ $failures = 0 ] && echo "run records" || exit 1
