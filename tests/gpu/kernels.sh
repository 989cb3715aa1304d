#!/bin/bash
# kernels.sh TREE OUT - the linear cross-entropy on the GPU: right, clean under compute-sanitizer, and how fast.
#
# TREE: an installed vramscope whose liblinear_cross_entropy.so was built with nvcc.  OUT: folder for logs.  Needs NumPy,
# and PyTorch for its cuBLASLt and for the times.  KERNELS_PARTS says what is run; default
# "check memcheck racecheck synccheck time".  KERNELS_GROUPS: of the checks only these groups, separated by commas.
# Exit 77 without a GPU.
#
# racecheck and synccheck are judged by sanitizer_verdict.py: what they report in cuBLAS's kernels is counted, a report in
# ours fails, and a race that is planted must be seen.  Groups that launch the same kernels again from several streams,
# threads or a graph are left out there: racecheck died of two threads that launch at once.  initcheck is not run: what
# matrix products write by bulk copies would be "uninitialised" to it; instead every buffer that may not be read begins
# as NaN in the checks.
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
[ -z "${KERNELS_GROUPS:-}" ] || checks+=(--only "$KERNELS_GROUPS")
sanitizer() { limited compute-sanitizer --error-exitcode 9 "$@"; }

# judged TOOL PLANTED SECONDS: the tool's own status says nothing, as reports in cuBLAS's kernels are among it.  Without what
# takes more than 2^31 elements: racecheck, which is some 50 times slower, would not end.
judged() {
    local leave=(--without "contexts,streams,graphs,processes,large_gaps,beyond")
    [ -z "${KERNELS_GROUPS:-}" ] || leave=()
    sanitizer --tool "$1" python3 "${checks[@]}" --quick "${leave[@]}" ${2:+"$2"} "$3"
    python3 "$here/sanitizer_verdict.py" "$out/$1.log" ${2:+"$2"} >"$out/$1.verdict"
    local status=$?
    cat "$out/$1.verdict"
    return $status
}

part check 200 limited python3 "${checks[@]}"
part memcheck 140 sanitizer --tool memcheck python3 "${checks[@]}" --quick
part racecheck 420 judged racecheck --planted
part synccheck 80 judged synccheck ''
unset LCE_CUBLASLT # in PyTorch's process its copy is found
part time 90 limited python3 "$here/kernels_time.py" "$library" --tune
for name in check time; do
    case $parts in *" $name "*) cat "$out/$name.log" ;; esac
done
exit $failed
