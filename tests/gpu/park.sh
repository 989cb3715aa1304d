#!/bin/bash
# park.sh TREE OUT - `vramscope run --park=optimizer-state`: losses stay equal to the bit, the peak falls by what is parked, a step takes
# hardly longer; beside it optimizers that are on the host by other means, and the prediction of `vramscope whatif`.
#
# Parts: park.py; PARK_PARTS: these alone.  SIMULATED=1: on TREE's simulated driver with TEST_PYTHON, small.  Else it needs a GPU of 140 GiB
# that nobody else uses, and 40 GiB of the host's memory; 8 minutes.  Ends with "N passed, N failed".
. "$(dirname "$0")/gpu.bash"
[ -n "${SIMULATED:-}" ] || need
export SIMULATED=${SIMULATED:-} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tree/share/vramscope/examples:$tree/share/vramscope/python
unset LD_PRELOAD PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
until=$((SECONDS + ${PARK_SECONDS:-540}))

for name in ${PARK_PARTS:-llama wide parts logged peers}; do
    case $name in
    llama) part park llama 190 ;;
    peers) part park peers 60 ;;
    *) part park "$name" 40 ;;
    esac
done
echo "took $SECONDS s"
counted
