#!/bin/bash
# The CUDA back end of the linear cross-entropy, emulated on this processor (tests/emulated), under the very test that runs on a GPU.  Without the
# emulation's barriers the test must fail.
#
#   cross_entropy_emulated.sh [all]      without `all` a part of the checks
set -u
: "${BUILD:?BUILD is the build directory}"
BUILD=$(cd "$BUILD" && pwd)
gpu=$(realpath "$(dirname "$(realpath "$0")")/../../gpu")
python=${TEST_PYTHON:-python3}
[ -e "$BUILD/emulated/libcuda.so.1" ] || { echo "skipped: built without nvcc, or without a C++ compiler"; exit 77; }
[ -n "${TEST_PYTHON:-}" ] || export PYTHONPATH=$BUILD/../deps/numpy
"$python" -c 'import numpy' 2>/dev/null || { echo "skipped: no NumPy: scripts/setup.sh test fetches it from PyPI into build/deps/numpy, and TEST_PYTHON names another Python"; exit 77; }
export LD_LIBRARY_PATH=$BUILD/emulated PYTHONDONTWRITEBYTECODE=1
check() { "$python" "$gpu/kernels_check.py" "$BUILD/lib/liblinear_cross_entropy.so" cuda --quick --emulated "$@"; }
without_barriers() {
    if out=$(EMULATED_NO_BARRIERS=1 check "$@" 2>&1); then
        echo "FAILED: without barriers nothing was noticed: $(tail -n 1 <<<"$out")"
        exit 1
    fi
}
if [ "${1:-}" = all ]; then
    check || exit 1
    # as a GPU of compute capability 8.0 with another number of multiprocessors: the groups whose plans depend on that
    EMULATED_MAJOR=8 EMULATED_PROCESSORS=54 check --without shapes,options,borrowed,corners,regimes,refusals,combinations,wanted,labels,nonfinite,buffers,contexts,processes,beyond || exit 1
    without_barriers
else
    check --only policy,compaction,corners,half_precision,portable,scaled,parts,refusals,combinations,labels,buffers,contexts || exit 1
    check --share 1/9 --only options,shapes,segments,borrowed,odds || exit 1 # case by case
    EMULATED_MAJOR=8 EMULATED_PROCESSORS=54 check --only policy,compaction,half_precision,portable || exit 1
    without_barriers --only corners
fi
