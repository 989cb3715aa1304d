#!/bin/bash
# wheel.sh - makes dist/vramscope-VERSION-py3-none-manylinux_2_N_x86_64.whl, which `pip install` takes with any Python from 3.8 on.
#
#   scripts/wheel.sh
#
# Sets up and builds in build/wheel, without tests and examples, and packs what would be installed (scripts/wheel.py).  The
# fused loss gets its kernels for a GPU where nvcc is found or can be fetched, which setup.sh tries; `vramscope doctor` of the
# installed wheel says whether it has them.  Takes about two minutes on two cores, most of it for these kernels.  Prints the
# wheel's path.
set -euo pipefail
cd "$(dirname "$0")/.."

include=$(scripts/setup.sh gpu | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
BUILD_DIR=build/wheel scripts/build.sh release "$include" -DVRAMSCOPE_TESTS=OFF -DVRAMSCOPE_EXAMPLES=OFF
rm -rf build/wheel/tree
cmake --install build/wheel --prefix "$PWD/build/wheel/tree" --strip >build/wheel/install.log
python3 scripts/wheel.py build/wheel/tree dist
