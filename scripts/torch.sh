#!/bin/bash
# torch.sh - a Python that imports PyTorch, for tests on a machine without a GPU.  The last line of its output is the command that starts it.
#
#   scripts/torch.sh VERSION [PYTHON]    as 2.11.0; PYTHON is python3 unless given
#
# Fetches the wheel that PyTorch publishes on PyPI for CUDA, with the Python packages that it asks for and NumPy, but nothing of NVIDIA's: in
# its place torch_stubs.py makes functions that say that there is no device.  So programs run on the CPU, with the very libraries that run
# on GPUs.  It goes to build/deps/torch/VERSION-cp3XX, once: some 1 GB, and half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD

version=${1:?torch.sh: which version? scripts/torch.sh VERSION [PYTHON]}
base=${2:-python3}
[ "$(uname -m)" = x86_64 ] || {
    echo "torch.sh: only for x86_64" >&2
    exit 1
}
tag=$("$base" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
into=$here/build/deps/torch/$version-$tag
if [ ! -d "$into" ]; then
    part=$into.part
    rm -rf "$part"
    mkdir -p "$part"
    trap 'rm -rf "$part"' EXIT
    pip() { "$base" -m pip --quiet --disable-pip-version-check --no-cache-dir "$@" >&2; }
    pip download --no-deps --only-binary :all: --dest "$part/wheel" "torch==$version"
    "$base" -m venv --without-pip "$part"
    site=$("$part/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$base" -m zipfile -e "$part"/wheel/torch-*.whl "$site"
    rm -r "$part/wheel"
    chmod +x "$site"/torch/bin/*
    # shellcheck disable=SC2046 # a package a line, without blanks
    pip install --no-compile --target "$site" numpy $("$part/bin/python" scripts/torch_stubs.py packages)
    "$part/bin/python" scripts/torch_stubs.py make "$site/torch"
    PYTHONDONTWRITEBYTECODE='' "$part/bin/python" -c 'import torch, torch._dynamo; assert not torch.cuda.is_available()' >&2 # and compiles nearly all that programs import
    mv "$part" "$into"
fi
echo "$into/bin/python"
