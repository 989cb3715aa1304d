#!/bin/bash
# What the drain's thread asks of the kernel in a steady run: bench_drain_calls.sh BUILD
#
# tests/e2e/host/prog_steady.c makes 1046 events in four phases every 58 ms.  strace counts the system calls of the drain's
# thread for four seconds in the middle; its processor time comes from a second run, without strace.
set -eu
build=$(cd "$1" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH=$build/sim

start() {
    LD_PRELOAD=$build/lib/libvramscope.so VRAMSCOPE_OUTPUT=$dir/$1.db VRAMSCOPE_JOURNAL_DIR=$dir \
        "$build/tests/prog_steady" 120 >/dev/null 2>&1 &
    sleep 2 # past the first pages and names
    for task in "/proc/$!/task/"*; do
        [ "$(cat "$task/comm")" != vramscope ] || thread=${task##*/}
    done
    process=$!
}
cpu() { cut -d' ' -f1 "/proc/$process/task/$thread/schedstat"; }

start calls
timeout 4 strace -c -o "$dir/calls" -p "$thread" 2>/dev/null || true
wait "$process"
start time
before=$(cpu)
sleep 4
after=$(cpu)
wait "$process"

events=72000 # 4 s
cat "$dir/calls"
awk -v events=$events -v ns=$((after - before)) '
    $1 ~ /^[0-9.]+$/ && $NF != "total" { n += $4; if ($NF ~ /^(mprotect|mmap|munmap|brk|madvise)$/) space += $4 }
    END {
        printf "%.1f system calls per 1000 events, %.1f a second that change the address space, %.2f ms of CPU per 1000 events\n",
            n * 1000 / events, space / 4, ns / 1e6 * 1000 / events
    }' "$dir/calls"
