#!/bin/bash
# PyTorch's own functions tell what tensor a block is made for: each element type by PyTorch's name, every shape, request
# and stride, exceptions and all, in the installed PyTorch; and where it is built for CUDA, libtorch_cuda calls them through the linker.
set -u
here=$(cd "$(dirname "$0")" && pwd)
shim=${BUILD:?}/lib/libvramscope.so
python=${TEST_PYTHON:-python3}
# the spec alone: importing it takes seconds
torch=$("$python" -c 'import importlib.util as u, os; s = u.find_spec("torch"); print(os.path.dirname(s.origin) if s else "")' 2>/dev/null)
[ -n "$torch" ] || { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
[ -f "$torch/include/ATen/EmptyTensor.h" ] && [ -f "$torch/lib/libtorch_cpu.so" ] || { echo "SKIPPED: $torch has no headers or libraries"; exit 77; }
grep -q getDtypeNames "$torch/include/c10/core/ScalarType.h" || { echo "SKIPPED: the C++ of this PyTorch (before 2.5) has no names of element types"; exit 77; }
command -v "${CXX:=g++}" >/dev/null || { echo "skip: no C++ compiler"; exit 77; }
command -v sqlite3 >/dev/null || { echo "skip: sqlite3 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $1"; exit 1; }

strings_are_new=1 # wheels before 2.7 have the standard library's older ones
grep -qa '_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx11' "$torch/lib/libc10.so" || strings_are_new=0
"$CXX" -std=c++20 -D_GLIBCXX_USE_CXX11_ABI=$strings_are_new -O1 -shared -fPIC -I"$torch/include" -o "$work/stand_in.so" "$here/torch_tensors.cc" \
    -L"$torch/lib" -ltorch_cpu -lc10 -Wl,-rpath,"$torch/lib" 2>"$work/err" || { head -n 5 "$work/err"; fail "it does not build"; }
"$CXX" -std=c++17 -DMAIN -o "$work/main" "$here/torch_tensors.cc" -ldl || fail "the program does not build"
LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/run.db VRAMSCOPE_JOURNAL_DIR=$work timeout 60 "$work/main" "$work/stand_in.so" >"$work/said" 2>"$work/err" ||
    { cat "$work/err" "$work/said"; fail "the program"; }
[ "$(wc -l <"$work/said")" -ge 40 ] || fail "PyTorch has few element types: $(cat "$work/said")"
sqlite3 "$work/run.db" "SELECT size_bytes, request_bytes, element_type, shape FROM allocation WHERE made_for = 'tensor' ORDER BY alloc_seq" |
    diff - "$work/said" || fail "what PyTorch says of its tensors (>) is recorded otherwise (<)"
[ "$(sqlite3 "$work/run.db" "SELECT size_bytes, made_for FROM allocation ORDER BY alloc_seq DESC LIMIT 1")" = "4194304|raw" ] || fail "the block without a tensor"
[ "$(sqlite3 "$work/run.db" "SELECT request_bytes, element_type, shape FROM oom JOIN tensor_text t ON t.id = tensor")" = "4194304|float32|[1048576]" ] ||
    fail "the refused tensor"
echo "ok $(wc -l <"$work/said") tensors of PyTorch's"

[ -f "$torch/lib/libtorch_cuda.so" ] && command -v readelf >/dev/null || { echo "skip: no libtorch_cuda.so or no readelf"; exit 0; }
readelf -rW "$torch/lib/libtorch_cuda.so" 2>/dev/null | grep -oE 'R_[A-Z0-9_]*JUMP_SLO?T.* _ZN2at(6detail(13empty_generic|21empty_strided_generic)E|6native17resize_bytes_cudaE)' >"$work/slots"
[ "$(wc -l <"$work/slots")" = 3 ] || fail "libtorch_cuda calls other than through the linker: $(cat "$work/slots")"
echo "ok libtorch_cuda.so calls the three through the linker"
