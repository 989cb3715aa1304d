#!/bin/bash
# In a dry run large tensors of floats on the host take no memory of the machine and no time; small tensors and whole numbers are computed as ever.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
program=$(realpath "$(dirname "$0")/host.py")
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
timeout 200 "$BUILD/bin/vramscope" fit --steps=all --json -- "$python" "$program" >out 2>err
status=$?
! grep -q "has no attribute 'get_kernel'" err || skip "this PyTorch's kernels can't be wrapped"
[ $status = 0 ] && grep -q '^good$' err || fail "status $status: $(tail -n 5 err)"
grep 'of the host' err
