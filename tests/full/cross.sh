#!/bin/bash
# The shim compiles for aarch64 as it does here, so that what depends on the processor stays in shim/core/arch.  Nothing
# is linked and nothing runs: cross.sh CUDA_INCLUDE_DIR.  77 without Debian's cross compiler.
set -u
cd "$(dirname "$0")/../.." || exit 1
cuda=${1:?CUDA_INCLUDE_DIR}
cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null || { echo "skipped: no $cc (scripts/setup.sh full installs it)"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/include" || exit 1
sqlite=$(echo '#include <sqlite3.h>' | ${CC:-cc} -E -xc - | sed -n 's/^# 1 "\(.*sqlite3\.h\)".*/\1/p' | head -n 1)
cp "$sqlite" "$dir/include" || exit 1 # the same for all processors, but in a folder with what is not
flags=(-std=gnu11 -O2 -fPIC -fno-omit-frame-pointer -Wall -Wextra -Werror -Wno-unused-parameter -Ishim -isystem "$cuda" -isystem "$dir/include"
    -DVRAMSCOPE_BUILDING_LIBRARY -DVRAMSCOPE_ARENA "-DVRAMSCOPE_VERSION=\"0\"" "-DVS_SCHEMA_FILE=\"$PWD/shim/trace/schema.sql\"")
compile() {
    "${@:3}" -c "$1" -o "$2/$(echo "$1" | tr / _).o" || echo "$1"
}
export -f compile
find shim -name '*.c' -o -name '*.S' | sort >"$dir/files"
xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' - {} "$dir" $cc "${flags[@]}" <"$dir/files" >"$dir/failed" 2>"$dir/errors"
count=$(wc -l <"$dir/files")
made=$(find "$dir" -name '*.o' | wc -l)
[ "$made" = "$count" ] || { grep -m 20 error "$dir/errors"; echo "$made of $count files of the shim compile for aarch64; not:"; cat "$dir/failed"; exit 1; }
aarch64-linux-gnu-objdump -d "$dir"/shim_hooks_symbols_dlsym.S.o | grep -q 'br.*x16' || { echo "dlsym does not jump"; exit 1; }
echo "$count files compile for aarch64"
