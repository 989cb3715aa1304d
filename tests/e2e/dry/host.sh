#!/bin/bash
# In a dry run large tensors of floats on the host take no memory of the machine and no time: built, trained, pinned, copied; small tensors and whole
# numbers are computed as ever.
. "$(dirname "$0")/../lib/lib.bash"
python=${TEST_PYTHON:-}
[ -n "$python" ] && "$python" -c 'import torch; assert torch.version.cuda' 2>/dev/null || skip "TEST_PYTHON has no PyTorch for CUDA"
"$python" -c 'import torch; torch.library.get_kernel' 2>/dev/null || skip "this PyTorch's kernels can't be wrapped"
program=$(realpath "$(dirname "$0")/host.py")
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
timeout 200 "$BUILD/bin/vramscope" fit --steps=all --json -- "$python" "$program" >out 2>err
status=$?
[ $status = 0 ] && grep -q '^good$' err || fail "status $status: $(tail -n 5 err)"
grep 'of the host' err
