#!/bin/bash
# A real PyTorch on the simulated driver in dry mode keeps its books, finds the same addresses in every run, and is refused where memory ends; models
# of any size take no memory of the machine.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
[ -r "$BUILD/dry/libcudart.so.13" ] || skip "the stand-in for CUDA's runtime is not built"
preload=$BUILD/sim/libcuda.so.1
for library in "$BUILD"/dry/*.so.*; do preload=$preload:$library; done
dry() {
    env LD_PRELOAD="$preload" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" SIMCUDA_DRY=1 VRAMSCOPE_DRY=1 SIMCUDA_BANNER=0 "$@" 2>"$dir/err"
}
case_of() { dry "$@" || fail "$*: $(tail -n 3 "$dir/err")"; }
program=$(dirname "$0")/driver_torch.py

case_of SIMCUDA_DEVICES=8 SIMCUDA_CAPACITY=1TiB "$python" "$program" books eight graph huge
case_of "$python" "$program" trains >"$dir/first"
case_of "$python" "$program" trains >"$dir/second"
cmp "$dir/first" "$dir/second" || fail "two runs differ"
case_of PYTORCH_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "$python" "$program" trains >"$dir/expandable"
[ "$(head -n 1 "$dir/first" | cut -d' ' -f1)" = "$(head -n 1 "$dir/expandable" | cut -d' ' -f1)" ] || fail "expandable segments change what is allocated"
case_of SIMCUDA_CAPACITY=8GiB "$python" "$program" dies
echo "PyTorch $("$python" -c 'from importlib.metadata import version; print(version("torch"))') runs on the driver's dry mode"
