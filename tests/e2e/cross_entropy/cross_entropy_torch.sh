#!/bin/bash
# The linear cross-entropy on the CPU against a real PyTorch: torch.nn.functional.cross_entropy in double precision.
set -u
: "${BUILD:?BUILD is the build directory}"
here=$(dirname "$(realpath "$0")")
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch numpy 2>/dev/null || { echo "skipped: no Python with PyTorch and NumPy here (TEST_PYTHON names one)"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/cross_entropy_torch.py" "$BUILD/lib/liblinear_cross_entropy.so"
