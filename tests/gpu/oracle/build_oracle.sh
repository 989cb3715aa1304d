#!/bin/bash
# build_oracle.sh DIR - DIR/liboracle.so, from the CUPTI of the toolkit or of the Python package. 77 without these, or a compiler.
set -u
work=$1 here=$(dirname "$(realpath "$0")")

cupti_places() {
    local cuda packages
    for cuda in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-13* /opt/cuda; do
        [ -n "$cuda" ] && printf '%s\n' "$cuda/extras/CUPTI" "$cuda/targets/x86_64-linux" "$cuda"
    done
    while read -r packages; do
        printf '%s\n' "$packages/cuda_cupti" "$packages/cu13"
    done < <(python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null)
}

# the first folder with the header, and the first with the library: they need not be the same
find_cupti() {
    local place dir file
    include='' library=''
    while read -r place; do
        [ -z "$include" ] && [ -e "$place/include/cupti.h" ] && include=$place/include
        for dir in "$place/lib64" "$place/lib"; do
            file=$(compgen -G "$dir/libcupti.so*" | sort | head -n 1)
            [ -z "$library" ] && [ -n "$file" ] && library=$file
        done
    done < <(cupti_places)
    [ -n "$include" ] && [ -n "$library" ]
}

# cupti.h wants cuda.h, which may lie elsewhere
headers() {
    local dir
    for dir in "$include" "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include "$include/../../cuda_runtime/include"; do
        [ -e "$dir/cuda.h" ] && printf -- '-I%s ' "$dir"
    done
}

find_cupti || {
    echo "SKIP: no CUPTI (cupti.h and libcupti.so) on this machine; set CUDA_HOME"
    exit 77
}
command -v gcc >/dev/null || {
    echo "SKIP: no gcc"
    exit 77
}
echo "CUPTI: $include, $library"
python3 "$here/calls.py" unknown "$include" >"$work/unknown" ||
    echo "functions that calls.py does not know, logged by name alone: $(tr '\n' ' ' <"$work/unknown")"
python3 "$here/calls.py" generate "$include" >"$work/calls.inc" || exit 1
# shellcheck disable=SC2046  # several words are meant
gcc -std=gnu11 -Wall -Wextra -O2 -g -fPIC -shared -fvisibility=hidden -I"$work" -I"$include" $(headers) \
    "$here/oracle.c" -o "$work/liboracle.so" "$library" -Wl,-rpath,"$(dirname "$library")"
