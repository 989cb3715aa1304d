# shellcheck shell=bash
# gpu.bash - sourced by the scripts of this folder. Each is called with TREE (an installed vramscope) and OUT (a folder for what it
# leaves), and exits 77 where there is no GPU or no PyTorch. TEST_PYTHON names the Python, else python3.
#
#     $tree, $out, $here      both, and the script's own folder
#     $python, $V, $shim      the Python, the tree's command and library
#     $work                   a folder that goes when the script ends
#     need [MODULE...]        skips the script unless PyTorch has a GPU, and the modules are there
#     find_driver             $driver: libcuda.so.1 of the folder $DRIVER (the simulated one), or of the GPU
#     pass, fail, skip WHAT   a line, and one more in $passed, $failed or $skipped
#     verdict STATUS [WHAT]   pass or fail; without WHAT the line was written by who found the status
#     ask DB SQL              one figure of a recording
#     part SCRIPT NAME SECONDS  a part of SCRIPT.py, until $until; no run of its begins after SECONDS; its lines, and what it leaves in SCRIPT.tgz
#     counted                 "N passed, N failed", and the exit status
set -u
# shellcheck disable=SC2034 # the tests use them
here=$(dirname "$(realpath "$0")") tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} python=${python:-${TEST_PYTHON:-python3}}
# shellcheck disable=SC2034
V=$tree/bin/vramscope shim=$tree/lib/libvramscope.so passed=0 failed=0 skipped=
mkdir -p "$out" && out=$(realpath "$out") && work=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
need() {
    "$python" - "$@" 2>/dev/null <<'END' || { echo "SKIP: no GPU, or $python has no PyTorch${*:+, or lacks one of $*}" && exit 77; }
import importlib, sys
import torch
for name in sys.argv[1:]:
    importlib.import_module(name)
sys.exit(not torch.cuda.is_available())
END
}
find_driver() {
    if [ -n "${DRIVER:-}" ]; then
        export LD_LIBRARY_PATH=$DRIVER
        driver=$DRIVER/libcuda.so.1
    else
        driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => //p' | head -n 1)
        [ -e /dev/nvidiactl ] && [ -n "$driver" ] || { echo "SKIP: no GPU here" && exit 77; }
    fi
}
pass() { passed=$((passed + 1)) && echo "PASS $*"; }
fail() { failed=$((failed + 1)) && echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)) && echo "SKIP $*"; }
ask() { "$python" -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' "$1" "$2"; }
verdict() {
    case $1,${2:-} in
    0,) passed=$((passed + 1)) ;;
    0,*) pass "$2" ;;
    *,) failed=$((failed + 1)) ;;
    *) fail "$2" ;;
    esac
}
part() {
    local status log=$work/$2.log most=$((until - SECONDS)) begins=$3
    echo "--- $2 ($SECONDS s)"
    [ $most -gt 30 ] || { fail "$2: there is no time left" && return; }
    [ "$begins" -lt $((most - 50)) ] || begins=$((most - 50)) # the last run has time to end
    timeout -k 5 $most "$python" "$here/$1.py" "$2" "$tree" "$work" "$begins" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    passed=$((passed + $(grep -c '^PASS' "$log"))) failed=$((failed + $(grep -c '^FAIL' "$log"))) skipped=$((skipped + $(grep -c '^SKIP' "$log")))
    [ "$status" -le 1 ] || fail "$2: status $status"
    grep -q '^PASS\|^FAIL\|^SKIP' "$log" || fail "$2 shows nothing"
    find "$work" -name '*.log' -printf '%P\n' -o -name '*.stderr' -printf '%P\n' | tar -C "$work" -czf "$out/$1.tgz" -T -
    rm -f "$work"/*.db
}
counted() {
    echo "$passed passed, $failed failed${skipped:+, $skipped skipped}"
    [ "$failed" = 0 ]
}
