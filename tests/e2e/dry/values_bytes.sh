#!/bin/bash
# Following values changes no byte of what a program's tensors take where no value matters: autograd takes the same formulas, adds
# gradients in place where it would, and nothing lives longer.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"

shim_env=(VRAMSCOPE_DRY=0)
follow "$here/values_bytes.py"
[ "$status" = 0 ] || fail "status $status without it"
cp "$run/out" "$dir/plain"
shim_env=(VRAMSCOPE_DRY_STEPS=all)
follow "$here/values_bytes.py"
[ "$status" = 0 ] || fail "status $status"
diff "$dir/plain" "$run/out" || fail "other bytes (< without, > with)"
expect_facts value </dev/null
