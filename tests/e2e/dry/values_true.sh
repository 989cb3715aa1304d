#!/bin/bash
# Whole numbers and booleans that follow from what the host knows are what the CPU computes, and are told to nobody.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"
shim_env=(VRAMSCOPE_DRY_STEPS=all)

follow "$here/values_true.py"
[ "$status" = 0 ] || fail "status $status"
expect_facts value </dev/null
