#!/bin/bash
# A rank that is alone gets from collectives what it gave, and DistributedDataParallel finds its parameters to be the others'.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"

shim_env=(VRAMSCOPE_DRY_STEPS=all MEETING="$dir/meeting")
follow "$here/values_collectives.py"
[ "$status" = 0 ] || fail "status $status"
[ "$(cat "$run/out")" = "[3, 4] [3, 4] [3, 4]" ] || fail "other contents"
expect_facts value </dev/null
