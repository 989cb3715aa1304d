#!/bin/bash
# Memory that no seen call asked for (here past every hook, by the C library's own dlsym) is told by the driver's figure for the process;
# without that
# figure, or where all calls are seen, nobody is accused.
. "$(dirname "$0")/../lib/lib.bash"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
src=$(cd "$(dirname "$0")/../../gpu/roads" && pwd)
"${CC:-cc}" -I"${include:-/usr/local/cuda/include}" "$src/past.c" -o "$dir/past" "$BUILD/sim/libcuda.so.1" -ldl ||
    fail "the program does not build"
recorded() { # recorded ARGUMENT...: the program under run
    new_run
    "$V" run --simulated -o "$db" -- "$dir/past" "$@" >"$run/out" 2>"$run/err"
    status=$?
    [ $status != 77 ] || skip "the C library's dlsym has another version here"
    [ $status = 0 ] || fail "status $status"
    "$V" report --all "$db" >"$run/report"
    words=$(tr -s ' \n' ' ' <"$run/report")
}

recorded
said="640.0 MiB of this process on device 0 were allocated by no call that was seen"
grep -q "640.0 MiB UNSEEN" "$run/err" || fail "run says nothing: $(cat "$run/err")"
[[ $words == "UNSEEN: $said"* ]] || fail "the first line is: $(head -n 2 "$run/report")"
! grep -q "nothing was ever allocated\|complete: " "$run/report" || fail "all is well: $(cat "$run/report")"
"$V" check --max-peak=1MiB "$db" >"$run/check"
[ $? = 3 ] || fail "check: $(cat "$run/check")"
[[ $(tr -s ' \n' ' ' <"$run/check") == "CANNOT TELL "*"$said"* ]] || fail "check says: $(cat "$run/check")"
"$V" report --json "$db" | grep -q '"unseen_bytes": 671088640' || fail "JSON has another figure"

# what was lost was seen, and nobody knows how much it was
sqlite3 "$db" "INSERT INTO loss VALUES(1, 0, 5, 'ring_full', 'the ring was full')"
words=$("$V" report --all "$db" | tr -s ' \n' ' ')
[[ $words != *UNSEEN* && $words == *"went past the recording is not known: events were lost"* ]] || fail "beside a loss: $words"

# seen, and managed memory, which lies where it likes: nobody is accused
recorded seen
[[ $words == "complete: "* ]] || fail "$(head -n 1 "$run/report")"
"$V" check --max-peak=700MiB "$db" >/dev/null || fail "check: status $?"

# without a figure for this process nobody can tell, and that is said
export SIMCUDA_NVML=nopid
recorded
[[ $words == *"whether other memory of this process went past the recording is not known: the driver has no figure for this process alone"* ]] ||
    fail "not a word: $(cat "$run/report")"
"$V" report --json "$db" | grep -q '"unseen_bytes": null' || fail "JSON has a figure"
