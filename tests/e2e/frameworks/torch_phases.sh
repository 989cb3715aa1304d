#!/bin/bash
# Automatic phases of PyTorch programs are where the programs say; in tests/run.sh full output and exit status are the same without them,
# too.
here=$(cd "$(dirname "$0")" && pwd)
which=${1:-eager} # or compiling
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$work/inductor
mkdir "$work/plain" "$work/with"

in_full() { [ -n "${FULL:-}" ]; } # what a program prints is the same: torch_unharmed.sh, and tests/run.sh full here
in_full && { "$python" "$here/torch_phases.py" "$work/plain" "$which" 2>"$work/err" & }
LD_PRELOAD=$BUILD/tests/libframework_log.so PYTHONPATH=$here/../../../shim/framework/python \
    "$python" "$here/torch_phases.py" "$work/with" "$which" || { echo "the run with phases failed"; exit 1; }
! in_full || wait $! || { cat "$work/err"; echo "SKIPPED: torch does not work here"; exit 77; }

failed=0
cd "$work/with" || exit 1
for expected in *.expected; do
    case=${expected%.expected}
    ok=1
    touch "$case.log"
    wanted=0
    ! in_full || wanted=$(cat "../plain/$case.status")
    [ "$(cat "$case.status")" = "$wanted" ] || { echo "$case: exit status $(cat "$case.status"), not $wanted"; ok=0; }
    for kind in $(! in_full || echo out err); do # warnings begin with the time and the process
        diff <(sed 's/^[A-Z][0-9]* [0-9:.]* [0-9]* //' "../plain/$case.$kind") \
             <(sed 's/^[A-Z][0-9]* [0-9:.]* [0-9]* //' "$case.$kind") >"$work/d" ||
            { echo "$case: $kind differs (< plain, > with phases)"; tail -12 "$work/d"; ok=0; }
    done
    # logits may be open at the end: no backward comes any more
    if [ "$(grep -c '^+' "$case.log")" -gt $(($(grep -c '^-' "$case.log") + 1)) ]; then
        echo "$case: phases are not balanced"
        ok=0
    fi
    if [ "$(cat "$expected")" != any ] && ! diff "$expected" "$case.log" >"$work/d"; then
        echo "$case: phases differ (< expected, > told)"
        cat "$work/d"
        ok=0
    fi
    if [ $ok = 1 ]; then echo "ok $case"; else failed=1; fi
done
exit $failed
