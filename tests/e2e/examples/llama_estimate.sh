#!/bin/bash
# The estimate of examples/torch_llama.py's memory: published figures, and every allocation that PyTorch makes in a step.
set -u
here=$(dirname "$(realpath "$0")")
: "${BUILD:?BUILD is the build directory}"
python=${TEST_PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so
"$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch 2>/dev/null || {
    echo "skipped: only published figures, no Python with PyTorch here (TEST_PYTHON names one)"
    "${python:-python3}" "$here/llama_estimate.py" || exit 1
    exit 77
}
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR
"$python" "$here/llama_estimate.py" 2>/dev/null
