#!/bin/bash
# A preloaded library behind ours that stands before the driver stays there: by every road a call goes from the program to us, to it, to the driver,
# and all is recorded.
. "$(dirname "$0")/../lib/lib.bash"
src=$(cd "$here/../../gpu/roads" && pwd)
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
sim=$BUILD/sim/libcuda.so.1
compile() { "${CC:-cc}" -O1 -g "-I${include:-/usr/local/cuda/include}" -o "$dir/$1" "${@:2}" -ldl || fail "$1 does not build"; }
compile roads "$src/roads.c"
compile roads_linked -DLINKED "$src/roads.c" "$sim"
compile roads_lazy -Wl,-z,lazy -DLINKED "$src/roads.c" "$sim"
compile plugin.so -shared -fPIC "$src/plugin.c" "$sim"
quota() { compile "$1.so" -shared -fPIC "$here/quota.c" "${@:2}"; }
quota exported
quota symbolic -Wl,-Bsymbolic
quota hidden -fvisibility=hidden
quota next -DNEXT
quota linked -DLINKED "$sim"
cat >"$dir/helper.c" <<'C'
#include <dlfcn.h>
void *find_driver(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
C
compile helper.so -shared -fPIC "$dir/helper.c"
quota helped -DHELPER "$dir/helper.so" "-Wl,-rpath,$dir"

whole=$shim
seen='quota: alloc 1000: 0
quota: free: 0
quota: alloc 2000: 0
quota: alloc 17592186044416: 2'
events='alloc|device|cuMemAlloc_v2|1000|0|0
free|device|cuMemFree_v2|1000|0|0
alloc|device|cuMemAlloc_v2|2000|0|0
alloc|device|cuMemAlloc_v2|17592186044416|0|2'

# behind QUOTA PROGRAM ARG...: prints, ends and is told the same as without us, and is recorded
behind() {
    local quota=$dir/$1.so
    shift
    LD_PRELOAD=$quota "$@" >"$dir/plain.out" 2>"$dir/plain.err" || fail "$quota $*: does not run without us: $(cat "$dir/plain.err")"
    shim=$whole:$quota shimmed "$@"
    [ "$status" = 0 ] || fail "$quota $*: status $status"
    cmp -s "$dir/plain.out" "$run/out" || fail "$quota $*: other output"
    cmp -s "$dir/plain.err" "$run/err" || fail "$quota $*: < without us, > with us: $(diff "$dir/plain.err" "$run/err")"
    expect_events "op IN ('alloc', 'free', 'free_failed') AND space = 'device'" <<<"$events"
    expect_clean
}
sees_all() { [ "$(grep '^quota:' "$run/err")" = "$seen" ] || fail "the quota saw: $(cat "$run/err")"; }

for quota in exported symbolic; do
    for road in dlsym local deepbound global next program proc1 proc2 ptsz "absolute $sim"; do
        # shellcheck disable=SC2086 # a road and its argument
        behind $quota "$dir/roads" $road
        sees_all
    done
    for program in roads_linked roads_lazy; do
        behind $quota "$dir/$program" linked
        sees_all
    done
done
# one that no reference leads to stands before the look-ups alone
for road in dlsym global program proc1 proc2 ptsz; do
    behind hidden "$dir/roads" $road
    sees_all
done
behind hidden "$dir/roads_linked" linked
# and one without a dlsym of its own before the references alone
for quota in next linked helped; do
    behind $quota "$dir/roads_linked" linked
    sees_all
    behind $quota "$dir/roads" dlsym
    behind $quota "$dir/roads" proc2
done
# a library that is loaded later, bound to the global scope
events="$events
alloc|device|cuMemAlloc_v2|3000|0|0
free|device|cuMemFree_v2|3000|0|0"
behind exported "$dir/roads_linked" plugin "$dir/plugin.so"
behind symbolic "$dir/roads" plugin "$dir/plugin.so"
