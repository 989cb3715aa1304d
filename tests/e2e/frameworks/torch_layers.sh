#!/bin/bash
# Under `vramscope run` each block has the module that was open at its birth: held against PyTorch's own ModuleTracker, in forward, in
# recomputation and in backward.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch.utils.module_tracker' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch with a ModuleTracker (TEST_PYTHON names one that has)"; exit 77; }
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/cpu_blocks.c" || fail "cpu_blocks.c"

new_run
CPU_BLOCKS_LOG=$run/log LD_PRELOAD=$dir/cpu_blocks.so timeout 300 \
    "$BUILD/bin/vramscope" run --simulated -o "$db" -- "$python" "$here/torch_layers.py" "$run/names" >"$run/out" 2>"$run/err" ||
    fail "exit status $?"
python3 "$here/torch_layers_check.py" "$run/names" "$run/log" "$db" || fail "layers"
