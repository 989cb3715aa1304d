#!/bin/bash
# Whole numbers and booleans that follow from what the host knows are what the CPU computes, and are told to nobody: also what a rank that is alone
# gets from collectives.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"

shim_env=(VRAMSCOPE_DRY_STEPS=all MEETING="$dir/meeting")
follow "$here/values_true.py"
[ "$status" = 0 ] || fail "status $status"
[ "$(head -n 1 "$run/out")" = "[3, 4] [3, 4] [3, 4]" ] || fail "other contents"
expect_facts value </dev/null
