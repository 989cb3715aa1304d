#!/bin/bash
# spill.sh TREE OUT - `vramscope run --spill`: jobs that need 1.1 to 1.3 times what a limit leaves them run to their end, with losses equal to the bit; what
# a step takes beside the same job where it fits. A twin in managed memory (cuMemAllocManaged), to hold the times against, is left out: on the machines that
# these scripts run on a program with more managed memory than the card has free can hang the GPU.
#
# Parts: spill.py; SPILL_PARTS: these alone. SIMULATED=1: on TREE's simulated driver with TEST_PYTHON, small. Else it needs a GPU of 80 GiB that nobody else
# uses, and 40 GiB of the host's memory; 12 minutes. Ends with "N passed, N failed".
. "$(dirname "$0")/gpu.bash"
[ -n "${SIMULATED:-}" ] || need
export SIMULATED=${SIMULATED:-} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tree/share/vramscope/examples:$tree/share/vramscope/python
unset LD_PRELOAD PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
until=$((SECONDS + ${SPILL_SECONDS:-800}))

for name in ${SPILL_PARTS:-llama card layers vit convs experts}; do
    case $name in
    llama | card) part spill "$name" 200 ;;
    *) part spill "$name" 90 ;;
    esac
done
echo "took $SECONDS s"
counted
