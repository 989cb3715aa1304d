#!/bin/bash
# bench.sh TESTS LIB - the micro-benchmarks, one after the other. TESTS: build/release/tests after `cmake --build build/release
# --target benches`, or a copy of its bench_* and hooks/libcuda.so.1. LIB: libvramscope.so. Figures depend on the processor and on
# what else runs.
set -u
[ $# = 2 ] || { sed -n '2s/^# /usage: /p' "$0" >&2 && exit 2; }
tests=$(realpath "$1") lib=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

grep -m 1 'model name' /proc/cpuinfo
nproc
uptime
for name in record offered ranges stacks autograd; do
    echo "== bench_$name"
    "$tests/bench_$name"
done

fake=$(find "$tests/hooks" -name libcuda.so.1 | grep -v old | head -n 1)
export LD_LIBRARY_PATH=${fake%/*}
for stacks in off driver; do
    echo "== bench_hooks, VRAMSCOPE_STACKS=$stacks"
    VRAMSCOPE_STACKS=$stacks VRAMSCOPE_OUTPUT=$dir/hooks.db LD_PRELOAD=$lib "$tests/bench_hooks"
    rm -f hooks.db*
done

if command -v python3 >/dev/null; then
    echo "== a capture of Python frames"
    python3 "$(dirname "$0")/../python/bench.py" "$tests/libprobe_python.so"
fi

for i in 1 2 3; do
    echo "== bench_drain, run $i"
    "$tests/bench_drain" 10000000 "$dir"
done
