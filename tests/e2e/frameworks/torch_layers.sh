#!/bin/bash
# Under `vramscope run` each block has the module that was open at its birth: held against PyTorch's own ModuleTracker, in forward, in
# recomputation and in backward.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

shim_env=(CUBLAS_WORKSPACE_CONFIG=:16:1) # what is left is of layers
recorded "$python" "$here/torch_layers.py" "$dir/names" "$dir/log"
[ "$status" = 0 ] || fail "exit status $status"
python3 "$here/torch_layers_check.py" "$dir/names" "$dir/log" "$db" || fail "layers"
