#!/bin/bash
# Work of other contexts on an arena's memory: no block is given out again before whoever may reach it has done.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.bash"

played() { # PART NAME=VALUE...
    shim_env=(VRAMSCOPE_ALLOCATOR=arena SIMCUDA_DEVICES=2 SIMCUDA_CAPACITY=2GiB "${@:2}")
    shimmed "$tests/prog_arena_contexts" "$1"
    [ "$status" = 0 ] || fail "$*: status $status"
}
for part in deferred own many ending; do played $part VRAMSCOPE_ARENA_FREE=defer; done
played own VRAMSCOPE_ARENA_FREE=defer SIMCUDA_FAIL="cuCtxRecordEvent:*=801" # a driver that has no event for a whole context
for part in waiting ending; do played $part VRAMSCOPE_ARENA_FREE=wait; done
played references SIMCUDA_FAIL="cuDevicePrimaryCtxGetState:*=999"
echo "other contexts' work is regarded"
