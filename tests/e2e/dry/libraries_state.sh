#!/bin/bash
# What is set is told again, results that a program looks at are there, and versions are those of the library's name: CUDA 12 and 13.
# A function that can't be stood in for says its name, and ends the run with status 3.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
for major in 13 12; do
    dry python3 "$here/libraries_state.py" $major
    [ "$status" = 0 ] && [ "$(cat "$run/out")" = "all kept" ] || fail "CUDA $major: status $status"
    echo "ok CUDA $major"
done

ends() { # LIBRARY FUNCTION
    dry python3 -c "import ctypes; ctypes.CDLL('$1').$2(); print('went on')"
    [ "$status" = 3 ] || fail "$2: status $status"
    [ ! -s "$run/out" ] || fail "$2: $(cat "$run/out")"
    grep -qF "$2 of $1 is not simulated" "$run/err" || fail "$2: $(cat "$run/err")"
    [ "$(cat "$run/facts")" = "$(printf 'missing\t%s\t%s' "$1" "$2")" ] || fail "$2: $(cat "$run/facts")"
    echo "ok $2"
}
ends libcurand.so.10 curandCreateGeneratorHost
ends libcufile.so.0 cuFileRead
ends libnvshmem_host.so.3 nvshmem_malloc
ends libcusolver.so.12 cusolverDnSSgesv
ends libcusparse.so.12 cusparseSnnz
ends libcufft.so.12 cufftXtSetGPUs
