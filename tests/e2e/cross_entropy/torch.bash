# shellcheck shell=bash
# torch.bash - sourced by the tests of the loss in PyTorch on the CPU.
#
#   on_cpu PROGRAM [MODULE...]   runs PROGRAM.py of this folder; skips the test where no Python has PyTorch and the MODULEs
set -u
: "${BUILD:?BUILD is the build directory}"
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR

on_cpu() {
    local python=${TEST_PYTHON:-python3} module
    for module in torch "${@:2}"; do
        "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$module" 2>/dev/null || { echo "skipped: $python has no $module (TEST_PYTHON names another)" && exit 77; }
    done
    LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so "$python" "$(dirname "${BASH_SOURCE[0]}")/$1.py" cpu
}
