#!/bin/bash
# Whole numbers and booleans that follow from what the host knows are what the CPU computes, and are told to nobody.
here=$(dirname "$0")
. "$here/../lib/lib.bash"
. "$here/dry.bash"

dry "$here/values_true.py"
[ "$status" = 0 ] || fail "status $status"
expect_facts value </dev/null
