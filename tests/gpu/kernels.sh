#!/bin/bash
# kernels.sh TREE OUT - the linear cross-entropy on the GPU: right, clean under compute-sanitizer, and how fast.
#
# TREE: an installed vramscope whose liblinear_cross_entropy.so was built with nvcc.  OUT: folder for logs.  Needs NumPy,
# and PyTorch for its cuBLASLt and for the times.  KERNELS_PARTS says what is run; default
# "check memcheck racecheck synccheck time".  Exit 77 without a GPU.
#
# racecheck and synccheck look at our kernels only, by their prefix: cuBLAS's own are not ours to judge, and racecheck
# does report hazards inside them.  That the filter matches is shown in the same run by a kernel of that prefix with a
# race planted in it, which has to be reported, as the only one.  initcheck is not run: what matrix products write by
# bulk copies would be "uninitialised" to it; instead every buffer that may not be read begins as NaN in the checks.
set -u
tree=$(realpath "$1") out=$2 here=$(dirname "$(realpath "$0")")
mkdir -p "$out"
out=$(realpath "$out")
library=$tree/lib/liblinear_cross_entropy.so
parts=" ${KERNELS_PARTS:-check memcheck racecheck synccheck time} "
export PYTHONDONTWRITEBYTECODE=1
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
    echo "no GPU, or no PyTorch for python3"
    exit 77
}
# PyTorch's own cuBLASLt, for the runs that do not load PyTorch
blas=$(python3 -c 'import torch
torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")
print(sorted(line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line)[-1])')
[ -n "$blas" ] && export LCE_CUBLASLT=$blas
echo "cuBLASLt: ${blas:-by its name}"
command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-compute/compute-sanitizer
failed=0

# part NAME SECONDS COMMAND...: one part, its log shown from its end where it fails.
part() {
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    case $parts in *" $name "*) ;; *) return ;; esac
    if "$@" "$limit" >"$out/$name.log" 2>&1; then
        echo "ok    $name ($((SECONDS - start)) s): $(tail -n 1 "$out/$name.log")"
    else
        echo "FAIL  $name (status $?, $((SECONDS - start)) s)"
        grep -E '^FAIL' "$out/$name.log" | head -n 40
        tail -n 25 "$out/$name.log"
        failed=1
    fi
}

# All but the last argument, for at most so many seconds.
limited() { timeout --kill-after=5 "${!#}" "${@:1:$#-1}"; }

checks=("$here/kernels_check.py" "$library" cuda)
sanitizer() { limited compute-sanitizer --error-exitcode 9 --print-limit 30 "$@"; }

# The filter in the words of the sanitizer that is here.
ours() {
    if compute-sanitizer --help | grep -q -- '--kernel-name '; then
        echo "--kernel-name kernel_substring=lce_"
    else
        echo "--kernel-regex kns=lce_"
    fi
}

# Every hazard is the planted one, and there is one; all checks passed.
racecheck() {
    local log=$out/racecheck.log all planted
    # shellcheck disable=SC2046
    sanitizer --tool racecheck $(ours) python3 "${checks[@]}" --quick --planted "$1"
    all=$(grep -cE '(Error|Warning): .*(Race|hazard)' "$log")
    planted=$(grep -cE '(Error|Warning): .*(Race|hazard).* lce_planted_race' "$log")
    echo "$(grep -E '^[0-9]+ passed' "$log"); $all hazards in our kernels, $planted of them planted"
    [ "$planted" -gt 0 ] && [ "$planted" -eq "$all" ] && grep -qE '^[0-9]+ passed, 0 failed' "$log"
}

# shellcheck disable=SC2046
synccheck() { sanitizer --tool synccheck $(ours) python3 "${checks[@]}" --quick "$1"; }

part check 150 limited python3 "${checks[@]}"
part memcheck 100 sanitizer --tool memcheck python3 "${checks[@]}" --quick
part racecheck 100 racecheck
part synccheck 60 synccheck
unset LCE_CUBLASLT # in PyTorch's process its copy is found
part time 90 limited python3 "$here/kernels_time.py" "$library" --tune
for name in check time; do
    case $parts in *" $name "*) cat "$out/$name.log" ;; esac
done
exit $failed
