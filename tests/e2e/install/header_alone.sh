#!/bin/bash
# vramscope.h by itself is clean in C99 and C++; without the library every call does nothing, and under it every call reaches it.
. "$(dirname "$0")/../lib/command.bash"
lib=$BUILD/lib/libvramscope.so
command -v gcc >/dev/null || { echo "skipped: no gcc here"; exit 77; }

cp "$SRC/shim/vramscope.h" . # nothing else of the tree is to be seen
cat >program.c <<'C'
#include "vramscope.h"
#include <stdio.h>

int main(void)
{
    int active = vramscope_active(), outer = vramscope_range_push("outer"), inner = vramscope_range_push("inner");
    vramscope_mark("here");
    vramscope_step();
    vramscope_record_stop();
    vramscope_record_start();
    int closed = vramscope_range_pop(), last = vramscope_range_pop();
    printf("%d %d %d %d %d %d\n", active, outer, inner, closed, last, vramscope_range_pop());
    return 0;
}
C
cat >second.c <<'C'
#include "vramscope.h"
#include "vramscope.h"
int second(void);
int second(void)
{
    return vramscope_active();
}
C
cp program.c program.cc && cp second.c second.cc

# try COMPILER SOURCES... -- FLAG...: builds without a warning; does nothing alone, all of it under the library
tried=0
try() {
    local what="$*" compiler=$1 sources=()
    shift
    while [ "$1" != -- ]; do sources+=("$1") && shift; done
    shift
    command -v "$compiler" >/dev/null || return 0
    "$compiler" -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror "$@" -I. -o program "${sources[@]}" 2>err ||
        { no "$what: $(cat err)" && return; }
    tried=$((tried + 1))
    [ "$(./program)" = "0 -1 -1 -1 -1 -1" ] || no "$what: without the library: $(./program)"
    [[ " $* " == *" -static "* ]] && return
    [ "$(LD_PRELOAD=$lib ./program)" = "1 0 1 1 0 -1" ] || no "$what: under the library: $(LD_PRELOAD=$lib ./program)"
}

for place in "-fPIE -pie" "-fno-pie -no-pie" "-fPIC -no-pie" "-O2 -fno-pie -no-pie" "-O2"; do
    # shellcheck disable=SC2086 # words
    for compiler in gcc clang; do
        try $compiler program.c second.c -- -std=c99 $place
        try $compiler program.c second.c -- -std=gnu17 $place
    done
    # shellcheck disable=SC2086
    for compiler in g++ clang++; do
        try $compiler program.cc second.cc -- -std=c++11 $place
        try $compiler program.cc second.cc -- -std=c++17 $place
    done
done
for linker in gold lld; do
    command -v ld.$linker >/dev/null && try gcc program.c -- -std=c99 -fuse-ld=$linker -fno-pie -no-pie
done
try gcc program.c -- -std=c99 -static
try gcc program.c -- -std=c99 -O2 -static -fno-pie -no-pie
if command -v nm >/dev/null; then
    gcc -std=c99 -I. -c second.c && nm -u second.o | grep -vE ' w |_GLOBAL_OFFSET_TABLE_' && no "the header needs more than its own weak names"
fi

# everything that the header declares is there; beside it only what the automatic phases, the pools of other libraries and benchmarks call
if command -v readelf >/dev/null; then
    grep -oE '^VRAMSCOPE_API [a-z]+ \*?vramscope_[a-z_]+' vramscope.h | grep -oE 'vramscope_[a-z_]+$' | sort >declared
    readelf --dyn-syms -W "$lib" | awk '$7 != "UND" && $8 ~ /^vramscope_/ && $8 !~ /^vramscope_((auto|torch|benchmark)_|pool_use$)/ {print $8}' | sort >exported
    diff declared exported >difference || no "declared and exported differ: $(cat difference)"
fi
[ $failures = 0 ] && echo "the header works alone ($tried programs)" || exit 1
