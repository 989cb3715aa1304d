#!/bin/bash
# The linear cross-entropy's CPU back end under the very test that runs on a GPU: options, types, row lengths, corners.
set -u
: "${BUILD:?BUILD is the build directory}"
gpu=$(realpath "$(dirname "$(realpath "$0")")/../../gpu")
python=${TEST_PYTHON:-python3}
[ -n "${TEST_PYTHON:-}" ] || export PYTHONPATH=$BUILD/../deps/numpy
"$python" -c 'import numpy' 2>/dev/null || { echo "skipped: no NumPy: scripts/setup.sh test fetches it from PyPI into build/deps/numpy, and TEST_PYTHON names another Python"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 "$python" "$gpu/kernels_check.py" "$BUILD/lib/liblinear_cross_entropy.so" cpu --quick
