#!/bin/bash
# The PyTorch binding of the linear cross-entropy on the CPU: F.cross_entropy's values and gradients, autograd's manners,
# errors; and it finds its library in the source tree and in an installed one.
set -u
: "${BUILD:?BUILD is the build directory}"
here=$(dirname "$(realpath "$0")")
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch 2>/dev/null || { echo "skipped: no Python with PyTorch here (TEST_PYTHON names one)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor # else it leaves a directory in TMPDIR
trap 'rm -rf "$dir"' EXIT
LCE_LIBRARY=$BUILD/lib/liblinear_cross_entropy.so "$python" "$here/cross_entropy_binding.py" cpu || exit 1

python_in_tree=$dir/tree/share/vramscope/python python_in_source=$dir/source/shim/framework/python
mkdir -p "$dir/tree/lib" "$python_in_tree" "$python_in_source" "$dir/source/build/release/lib"
failed=0
# found DIRECTORY PATTERN: the library that the binding in DIRECTORY finds
found() {
    cp -r "$here"/../../../shim/framework/python/vramscope "$1"
    local got
    got=$(cd / && PYTHONPATH=$1 "$python" -c 'import vramscope._cross_entropy_library as l
try: print(l.find())
except l.Error as error: print(error)')
    # shellcheck disable=SC2254 # a pattern
    case $got in
    $2) ;;
    *) echo "FAIL: in $1 it finds '$got', not $2" && failed=1 ;;
    esac
}
touch "$dir/tree/lib/liblinear_cross_entropy.so" "$dir/source/build/release/lib/liblinear_cross_entropy.so"
found "$python_in_tree" "$dir/tree/lib/liblinear_cross_entropy.so"
found "$python_in_source" "$dir/source/build/release/lib/liblinear_cross_entropy.so"
rm "$dir/source/build/release/lib/liblinear_cross_entropy.so"
found "$python_in_source" '*is not at */source/build/release/lib/*: build it, or name it in LCE_LIBRARY'
LCE_LIBRARY=/nowhere.so found "$python_in_source" '*is not at /nowhere.so: build it*'
exit $failed
