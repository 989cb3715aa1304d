#!/bin/bash
# Work on an arena's memory: no block is given out again before whoever may reach it has done, other contexts included; and
# whoever waits for that keeps nobody from getting on.
. "$(dirname "$0")/../lib/lib.bash"
export VRAMSCOPE_RING_EVENTS=1048576 # some of its programs have more events than the default

program=contexts
played() { # PART NAME=VALUE...
    shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_DEVICES=2 SIMCUDA_CAPACITY=2GiB "${@:2}")
    shimmed "$tests/prog_arena_$program" "$1"
    [ "$status" = 0 ] || fail "$*: status $status"
}
for part in deferred own many ending; do played $part VRAMSCOPE_ARENA_FREE=defer; done
played own VRAMSCOPE_ARENA_FREE=defer SIMCUDA_FAIL="cuCtxRecordEvent:*=801" # a driver that has no event for a whole context
for part in waiting ending; do played $part VRAMSCOPE_ARENA_FREE=wait; done
played references SIMCUDA_FAIL="cuDevicePrimaryCtxGetState:*=999"
program=hang
for part in pools cached streams; do played $part; done
played spilled VRAMSCOPE_ACCESS=on VRAMSCOPE_SPILL=on SIMCUDA_CAPACITY=400MiB
for free in wait defer; do played crowd VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_CAPACITY=250MiB; done
echo "other contexts' work is regarded, and nobody is kept waiting who is waited for"
