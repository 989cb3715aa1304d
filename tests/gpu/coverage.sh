#!/bin/bash
# coverage.sh TREE OUT - every allocation of real programs is recorded: all that need one GPU, and with two GPUs the rest.
set -u
here=$(dirname "$(realpath "$0")")
"$here/oracle/oracle.sh" "$1" "$2" || exit
if [ "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)" -ge 2 ]; then
    "$here/oracle/oracle.sh" "$1" "$2/two" torch_ddp torch_fsdp
fi
