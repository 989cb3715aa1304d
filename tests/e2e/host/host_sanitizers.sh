#!/bin/bash
# Programs built with sanitizers run as without the library and are recorded whole; the sanitizer still finds their faults, and none of ours.
. "$(dirname "$0")/../lib/lib.bash"
command -v gcc >/dev/null || skip "there is no gcc"

cat >"$dir/bug.c" <<'END'
#include "prog.h"
int main(int argc, char **argv)
{
    CUdeviceptr p;
    char *block = malloc(10);
    begin();
    go(1); /* threads of ours have looked at the loaded libraries again */
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemFree(p));
    puts("done");
    if (argc > 1 && argv[1][0] == 'u') { /* used after free */
        free(block);
        return block[3];
    }
    if (argc > 1) { /* leaked */
        block = NULL;
        return 0;
    }
    free(block);
    return 0;
}
END
include=$(sed -nE 's/^CUDA_INCLUDE_DIR:[A-Z]+=//p' "$BUILD/CMakeCache.txt")
here=$(cd "$(dirname "$0")" && pwd)
tried=0 ran=''
looked="SELECT count(*) > 0 FROM sample WHERE source = 'nvml_process'"
# clang's lie in the program itself, whose functions then stand in the place of the C library's
for cc in gcc clang; do
    command -v $cc >/dev/null || {
        echo "there is no $cc: its sanitizers stay untested"
        continue
    }
    for kind in address undefined thread leak memory; do
        built=$dir/$kind
        [ $cc = gcc ] || built=$dir/clang-$kind
        $cc -g "-fsanitize=$kind" -I"$here/../lib" -I"$here/../../../shim" -I"$include" "$dir/bug.c" -o "$built" -L"$BUILD/sim" \
            -l:libcuda.so.1 2>/dev/null || continue
        "$built" >/dev/null 2>&1 || continue # a sanitizer that does not run here
        tried=$((tried + 1))
        seen "$looked" -- run_shimmed "$built"
        expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'free')" 2
        expect_clean ""
        ran="$ran $cc's $kind"
    done
done
# What threads of ours do beside each other inside the loader is no race of the program's.  Whether the sanitizer sees it as one
# depends on the length of the path of the library that they load, modulo 8.
pad=''
[ ! -x "$dir/thread" ] || while [ ${#pad} -lt 8 ]; do
    pad=${pad}x
    mkdir "$dir/sim$pad"
    cp "$BUILD"/sim/*.so* "$dir/sim$pad"
    LD_LIBRARY_PATH=$dir/sim$pad seen "$looked" -- shimmed "$dir/thread"
    [ "$status" = 0 ] || fail "exit status $status: a race in a program that has none, with $pad in the path"
done
[ "$tried" -gt 0 ] || skip "no sanitizer runs here"

[ ! -x "$dir/address" ] || for bug in "use heap-use-after-free" "leak 10 byte(s) leaked in 1 allocation"; do
    "$dir/address" "${bug%% *}" >/dev/null 2>"$dir/plain.err"
    plain=$?
    grep -qF "${bug#* }" "$dir/plain.err" || continue # leaks are not looked for everywhere
    seen "$looked" -- shimmed "$dir/address" "${bug%% *}"
    [ "$status" = "$plain" ] || fail "$bug: exit status $status, $plain without the library"
    grep -qF "${bug#* }" "$run/err" || fail "not found under the library: $bug"
    grep -q libvramscope "$run/err" && fail "something of ours was reported"
done
echo "$tried sanitizers:$ran"
