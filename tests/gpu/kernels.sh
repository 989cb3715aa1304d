#!/bin/bash
# kernels.sh TREE OUT - the linear cross-entropy on the GPU: right, clean under compute-sanitizer, and how fast.
#
# TREE: an installed vramscope whose liblinear_cross_entropy.so was built with nvcc.  OUT: folder for logs and tables.
# Needs NumPy; PyTorch for the times.  KERNELS_PARTS (default "check memcheck racecheck bench") says what is run.
# KERNELS_BENCH: the options of kernels_bench.py.  Exit 77 without a GPU.
set -u
tree=$(realpath "$1") out=$2 here=$(dirname "$(realpath "$0")")
mkdir -p "$out"
out=$(realpath "$out")
library=$tree/lib/liblinear_cross_entropy.so
parts=" ${KERNELS_PARTS:-check memcheck racecheck bench} "
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
    echo "no GPU, or no PyTorch for python3"
    exit 77
}
# PyTorch's own cuBLASLt, for the runs that do not load PyTorch
blas=$(python3 -c 'import torch
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line}
torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")
maps |= {line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line}
print(sorted(maps)[-1] if maps else "")')
[ -n "$blas" ] && export LCE_CUBLASLT=$blas
echo "cuBLASLt: ${blas:-by its name}"
failed=0

# part NAME SECONDS COMMAND...: one part, its log shown from its end
part() {
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    case $parts in *" $name "*) ;; *) return ;; esac
    if timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1; then
        echo "ok    $name ($((SECONDS - start)) s): $(tail -n 1 "$out/$name.log")"
    else
        echo "FAIL  $name (status $?, $((SECONDS - start)) s)"
        tail -n 40 "$out/$name.log"
        failed=1
    fi
}

sanitizer() {
    local tool=$1
    shift
    command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-compute/compute-sanitizer
    part "$tool" 150 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$@"
}

part check 120 python3 "$here/kernels_check.py" "$library" cuda
sanitizer memcheck python3 "$here/kernels_check.py" "$library" cuda --quick
sanitizer racecheck python3 "$here/kernels_check.py" "$library" cuda --quick
unset LCE_CUBLASLT # in PyTorch's process its copy is found
# shellcheck disable=SC2086
part bench 420 python3 "$here/kernels_bench.py" "$library" "$out/bench.tsv" ${KERNELS_BENCH:---modes --profile --exact --compile}
case $parts in *" bench "*) cat "$out/bench.log" ;; esac
exit $failed
