#!/bin/bash
# wheel.sh - makes dist/vramscope-VERSION-py3-none-manylinux_2_N_x86_64.whl, for any Python from 3.8 on, and prints its path.
#
#   scripts/wheel.sh
#
# Builds in build/wheel, without tests and examples: two minutes on two cores.  The fused loss gets its kernels for a GPU where setup.sh finds or
# fetches nvcc; `vramscope doctor` of the installed wheel says whether it has them.
set -euo pipefail
cd "$(dirname "$0")/.."

include=$(scripts/setup.sh gpu | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
BUILD_DIR=build/wheel scripts/build.sh release "$include" -DVRAMSCOPE_TESTS=OFF -DVRAMSCOPE_EXAMPLES=OFF
rm -rf build/wheel/tree
cmake --install build/wheel --prefix "$PWD/build/wheel/tree" --strip >build/wheel/install.log
python3 scripts/wheel.py build/wheel/tree dist
