#!/bin/bash
# kernels.sh TREE OUT - the linear cross-entropy on the GPU: right, and clean under compute-sanitizer.
#
# KERNELS_PARTS (check memcheck racecheck synccheck), KERNELS_GROUPS (separated by commas): these alone. KERNELS_SHARES=N processes
# under a sanitizer. KERNELS_SECONDS: each sanitizer's limit. Needs NumPy, PyTorch for its cuBLASLt, and TREE's kernels.
#
# racecheck died of two threads that launch at once, so such groups are left out there. initcheck is not run: it takes what matrix
# products write by bulk copies for uninitialised. Instead every buffer that may not be read begins as NaN.
. "$(dirname "$0")/gpu.bash"
need
library=$tree/lib/liblinear_cross_entropy.so
parts=" ${KERNELS_PARTS:-check memcheck racecheck synccheck} "
export PYTHONDONTWRITEBYTECODE=1
# PyTorch's own cuBLASLt, for the runs that do not load PyTorch
blas=$("$python" -c 'import torch
torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")
print(sorted(line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line)[-1])')
[ -n "$blas" ] && export LCE_CUBLASLT=$blas
echo "cuBLASLt: ${blas:-by its name}"
command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-compute/compute-sanitizer

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

shares=${KERNELS_SHARES:-1}

# shared TOOL JUDGE [OPTION...] SECONDS: the checks under TOOL, in as many processes as there are shares.  JUDGE STATUS LOG says of each
# process whether it is clean.
shared() {
    local tool=$1 judge=$2 k one status failures=0 processes=() passed=0
    shift 2
    for ((k = 0; k < shares; k++)); do
        sanitizer --tool "$tool" "$python" "${checks[@]}" --quick --share "$k/$shares" "$@" >"$out/$tool.$k.log" 2>&1 &
        processes+=($!)
    done
    for ((k = 0; k < shares; k++)); do
        wait "${processes[k]}"
        status=$?
        echo "ended with $status" >>"$out/$tool.$k.log"
        "$judge" "$status" "$out/$tool.$k.log" >"$out/$tool.$k.verdict" || failures=$((failures + 1))
        cat "$out/$tool.$k.verdict"
        one=$(sed -n 's/^\([0-9]*\) passed, 0 failed.*/\1/p' "$out/$tool.$k.verdict" | tail -n 1)
        passed=$((passed + ${one:-0}))
    done
    echo "$passed passed in $shares processes, $failures of them failed"
    [ "$failures" = 0 ]
}

# clean STATUS LOG: memcheck's own status counts reports and failed checks alike.
clean() {
    tail -n 25 "$2"
    [ "$1" = 0 ]
}

# Of racecheck and synccheck the status says nothing, as reports in cuBLAS's kernels are among it.
raced() { "$python" "$here/sanitizer_verdict.py" "$2" --planted; }
synchronized() { "$python" "$here/sanitizer_verdict.py" "$2"; }

# Without what takes more than 2^31 elements: racecheck, which is some 50 times slower, would not end.
leave=(--without "contexts,streams,graphs,processes,beyond")
[ -z "${KERNELS_GROUPS:-}" ] || leave=()

part check 200 limited "$python" "${checks[@]}"
part memcheck "${KERNELS_SECONDS:-140}" shared memcheck clean
part racecheck "${KERNELS_SECONDS:-420}" shared racecheck raced "${leave[@]}" --planted
part synccheck "${KERNELS_SECONDS:-80}" shared synccheck synchronized "${leave[@]}"
case $parts in *" check "*) cat "$out/check.log" ;; esac
exit "$failed"
