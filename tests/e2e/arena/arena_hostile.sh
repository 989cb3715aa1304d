#!/bin/bash
# What no program should do to its memory, and some do: it ends, and is answered, as on the driver alone.
. "$(dirname "$0")/../lib/lib.bash"
export VRAMSCOPE_RING_EVENTS=1048576 # some of its programs have more events than the default

played() { # PART NAME=VALUE...
    for free in wait defer; do
        shim_env=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ARENA_FREE="$free" SIMCUDA_BANNER=0 SIMCUDA_CAPACITY=8GiB "${@:2}")
        run_shimmed "$tests/prog_arena_hostile" "$1"
        [ -n "${may_fail:-}" ] || [ "$status" = 0 ] || fail "$*: status $status"
    done
}
for part in init stale other many wrong child exit signals cancel reopen; do played $part; done
# a driver that cannot be initialized, has no device, no context, no memory
for error in cuInit:*=999 cuInit:*=100 cuDevicePrimaryCtxRetain:*=2 cuMemAddressReserve:*=2 cuMemCreate:*=999; do
    played init SIMCUDA_FAIL="$error"
done
for bytes in 65MiB 68MiB 80MiB; do # the context takes 64: nearly nothing, as of a small part of a device
    may_fail=1 played stale SIMCUDA_CAPACITY="$bytes"
done
echo "hostile programs are answered as by the driver"
