#!/usr/bin/env bash
# bench.sh TESTS LIB - the micro-benchmarks, from a folder of the bench_* programs, on whatever machine this is.
#
# TESTS: build/release/tests (or a copy of its bench_* and hooks/libcuda.so.1); LIB: libvramscope.so.
set -u
tests=$(realpath "$1"); lib=$(realpath "$2")
grep -m 1 'model name' /proc/cpuinfo; nproc; uptime
cd "$(mktemp -d)" || exit 1
for name in record ranges stacks; do echo "== bench_$name"; "$tests/bench_$name"; done
fake=$(find "$tests/hooks" -name libcuda.so.1 | grep -v old | head -1)
export LD_LIBRARY_PATH=${fake%/*}:$tests
for stacks in off driver; do
  echo "== bench_hooks, VRAMSCOPE_STACKS=$stacks"
  VRAMSCOPE_STACKS=$stacks VRAMSCOPE_OUTPUT=$PWD/hooks.db LD_PRELOAD=$lib "$tests/bench_hooks"; rm -f hooks.db*
done
for i in 1 2 3; do echo "== bench_drain, run $i"; "$tests/bench_drain" 10000000 "$PWD"; done
