#!/bin/bash
# The allocators of real PyTorch libraries, on a runtime that gives addresses alone, and the simulated one, which must get each
# address that they got: natively and with expandable segments, with limits, refusals, collections and a limit on splitting.
#
#   TORCHES="DIR..."    each with include/ and lib/libc10_cuda.so; what scripts fetched to build/deps/torch unless given
set -u
BUILD=${BUILD:?the build directory}
HERE=$(cd "$(dirname "$0")" && pwd)
SRC=$(cd "$HERE/../../.." && pwd)
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
shopt -s nullglob
read -ra torches <<<"${TORCHES:-$(echo "$SRC"/build/deps/torch/*/lib/python3*/site-packages/torch)}"
if [ ${#torches[@]} = 0 ] || ! command -v readelf >/dev/null; then
    echo "skipped: no PyTorch library or no readelf"
    exit 77
fi
failures=0
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
"${CC:-cc}" -std=gnu11 -O1 -I"$SRC/analyzer" "$HERE/real_replay.c" "$BUILD/analyzer/libroom_replay.a" "$BUILD/analyzer/libroom_base.a" -o "$D/replay" || exit 1

# stubs LIBRARY: functions that answer 0, of the names in it that real_cudart.c does not have
stubs() {
    echo '#define _GNU_SOURCE'
    cat "$HERE/real_cudart.c"
    strings "$1" | grep -xE '(cu|cuda|nvml)[A-Z][A-Za-z0-9_]*' | sort -u | while read -r name; do
        grep -q "[ *]$name(" "$HERE/real_cudart.c" || echo "int $name(void) { return 0; }"
    done
}
# build TORCH: its program, and the runtime it wants, which is the driver and NVML as well
build() {
    local lib=$1/lib/libc10_cuda.so runtime
    runtime=$(readelf -d "$lib" | grep -o 'libcudart\.so\.[0-9]*')
    [ -n "$runtime" ] || return
    rm -rf "${D:?}/lib" && mkdir "$D/lib"
    stubs "$lib" >"$D/cudart.c"
    echo "$runtime { global: *; };" >"$D/map"
    "${CC:-cc}" -std=gnu11 -O1 -shared -fPIC -Wl,-soname,"$runtime" -Wl,--version-script="$D/map" "$D/cudart.c" -o "$D/lib/$runtime" || return
    ln -s "$runtime" "$D/lib/cudart.so" # before what lies beside PyTorch
    ln -s "$runtime" "$D/lib/libcuda.so.1"
    ln -s "$runtime" "$D/lib/libnvidia-ml.so.1"
    "${CXX:-g++}" -std=c++20 -w -I"$1/include" -I"$include" "$HERE/real_program.cpp" -L"$1/lib" -lc10_cuda -lc10 "$D/lib/$runtime" -ldl -o "$D/program"
}
# same SETTINGS FRACTION KEY=VALUE...
same() {
    local seed out
    for seed in 1 2 3; do
        PYTORCH_CUDA_ALLOC_CONF=$1 LD_PRELOAD=$D/lib/cudart.so LD_LIBRARY_PATH=$D/lib:$torch/lib "$D/program" $seed 12000 "$2" >"$D/out" 2>"$D/err" || no "$version $1: $(head -c 300 "$D/err")"
        out=$("$D/replay" "$version" "${@:3}" <"$D/out") || no "$version with '$1', at most $2 of the memory, seed $seed: $out"
        echo "$version ${1:-default} $2: $out"
    done
}

limit=$((140 * (1 << 30) / 64))
for torch in "${torches[@]}"; do
    version=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py")
    build "$torch" || { no "$version: can't be built" && continue; }
    same "" 0
    same "" 0.015625 limit=$limit
    same max_split_size_mb:24 0.015625 limit=$limit max_split=$((24 << 20))
    same garbage_collection_threshold:0.6 0.015625 limit=$limit gc=60
    same expandable_segments:True 0 expandable=1
    same expandable_segments:True 0.015625 limit=$limit expandable=1
done
[ "$failures" = 0 ] && echo ok
exit $((failures > 0))
