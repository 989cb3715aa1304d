#!/bin/bash
# By every road into the driver that needs no CUDA runtime a program has exactly these events, and prints what it prints without the shim.
# tests/gpu/roads.sh walks the same ones on a GPU.
. "$(dirname "$0")/../lib/lib.bash"
src=$(cd "$(dirname "$0")/../../gpu/roads" && pwd)
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
sim=$BUILD/sim/libcuda.so.1
flags=(-O1 -g "-I${include:-/usr/local/cuda/include}")

make_program() { "${CC:-cc}" "${flags[@]}" -o "$dir/$1" "$src/roads.c" "${@:2}" -ldl || fail "$1 does not build"; }
make_library() { "${CC:-cc}" "${flags[@]}" -shared -fPIC -o "$dir/$1" "$src/plugin.c" "${@:2}" -ldl || fail "$1 does not build"; }
make_program roads
make_program roads_linked -DLINKED "$sim"
make_library plugin_now.so -Wl,-z,now,-z,relro "$sim"
make_library plugin_lazy.so -Wl,-z,lazy,-z,relro "$sim"
make_library plugin_plain.so -Wl,-z,lazy,-z,norelro "$sim"
make_library plugin_weak.so -DPLUGIN_WEAK
make_library plugin_asks.so -DPLUGIN_ASKS
"${CC:-cc}" "${flags[@]}" -shared -fPIC -o "$dir/plugin_loads.so" -DPLUGIN_LOADS "$src/plugin.c" "$dir/plugin_asks.so" "$sim" "-Wl,-rpath,$dir" ||
    fail "plugin_loads.so does not build"

work='alloc|device|cuMemAlloc_v2|1000|0|0
free|device|cuMemFree_v2|1000|0|0
alloc|device|cuMemAlloc_v2|2000|0|0
alloc|pinned|cuMemHostAlloc|4096|-1|0
alloc|device|cuMemAlloc_v2|17592186044416|0|2
free|pinned|cuMemFreeHost|4096|-1|0'
more='alloc|device|cuMemAlloc_v2|3000|0|0
free|device|cuMemFree_v2|3000|0|0'
memory="op IN ('alloc', 'free', 'free_failed')"

run_shimmed "$dir/roads_linked" linked
expect_events "$memory" <<<"$work"
expect_clean
for road in dlsym local deepbound global next program proc1 proc2 ptsz "absolute $sim"; do
    # shellcheck disable=SC2086 # a road and its argument
    run_shimmed "$dir/roads" $road
    expect_events "$memory" <<<"$work"
    expect_clean
done

# a library that is loaded later and bound to the driver itself, past the global scope
for library in now lazy plain; do
    for road in plugin deepbind deepbind-local; do
        for eager in '' 1; do
            shim_env=("LD_BIND_NOW=$eager")
            run_shimmed "$dir/roads" $road "$dir/plugin_$library.so"
            expect_events "$memory" <<<"$work
$more"
            expect_clean
        done
    done
done
shim_env=()

# one that refers to the driver weakly, where none is: it must not take us for one; and where one is
run_shimmed "$dir/roads" plugin "$dir/plugin_weak.so"
grep -qx "no driver" "$run/out" || fail "a weak reference found a driver: $(cat "$run/out")"
[ ! -e "$db" ] || fail "a program without a driver was recorded"
run_shimmed "$dir/roads_linked" plugin "$dir/plugin_weak.so"
expect_events "$memory" <<<"$work
$more"
expect_clean

# one that finds the driver only among the libraries of the one that loaded it
run_shimmed "$dir/roads" plugin "$dir/plugin_loads.so"
expect_events "$memory" <<<"$work"
expect_clean

# a second copy of the driver under another name has a state of its own: its calls stay its own, and that is told
cp "$sim" "$dir/libcuda-copy.so"
run_shimmed "$dir/roads" twice "$dir/libcuda-copy.so"
expect_events "$memory" <<<"$work"
expect_sql "SELECT DISTINCT events || '|' || code || '|' || why FROM loss" "0|not_covered|not covered: a second CUDA driver in the process, $dir/libcuda-copy.so"
"$BUILD/bin/vramscope" report --all "$db" | grep -q "^GAP: .*not covered: a second CUDA driver" || fail "the report is silent about it"

cat >"$dir/both.c" <<'END'
#define _GNU_SOURCE
#include "work.h"
#include <dlfcn.h>
int main(int argc, char **argv)
{
    CUdeviceptr p;
    CUcontext context;
    MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_DEEPBIND);
    MUST(library != NULL && dlsym(library, "plugin_run") != NULL);
    return cuMemAlloc_v2(&p, 1000) != 0;
}
END
"${CC:-cc}" "${flags[@]}" "-I$src" -o "$dir/both" "$dir/both.c" "$sim" -ldl || fail "both does not build"

# one whose code itself holds the addresses (text relocations) stays as it is, works, and what goes past us is told
if [ "$(uname -m)" = x86_64 ]; then
    make_library plugin_text.so -fno-pic -mcmodel=large -Wl,-z,notext "$sim"
    run_shimmed "$dir/roads" plugin "$dir/plugin_text.so"
    expect_events "$memory" <<<"$work
$more"
    expect_clean
    run_shimmed "$dir/roads" deepbind "$dir/plugin_text.so"
    run_shimmed "$dir/both" "$dir/plugin_text.so"
    expect_sql "SELECT count(*) FROM loss WHERE why = 'not covered: cuMemAlloc_v2 as called by $dir/plugin_text.so, whose reference to it cannot be changed'" 1
fi

# where the kernel does not tell which page can be written, one of the loader's is left alone, and what goes past us is told
cat >"$dir/filter.c" <<'END'
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static __attribute__((constructor)) void deny(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
                                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE_OP_PRIVATE, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof all / sizeof *all, all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        _Exit(77);
}
END
"${CC:-cc}" -shared -fPIC -o "$dir/filter.so" "$dir/filter.c" || fail "the filter does not build"
writable="SELECT state FROM contract WHERE name = 'kernel_writable'"
run_shimmed "$dir/both" "$dir/plugin_now.so"
expect_sql "$writable" proven
whole=$shim
shim=$dir/filter.so:$whole
shimmed "$dir/both" "$dir/plugin_now.so"
if [ "$status" != 77 ]; then
    [ "$status" = 0 ] || fail "where no page is known to be writable: status $status"
    expect_sql "$writable" broken
    expect_sql "SELECT count(*) FROM loss WHERE why LIKE 'not covered: cuMemAlloc_v2 as called by %, whose reference to it cannot be changed'" 1
fi
shim=$whole

# loaded and unloaded by several threads at once, under look-ups of others; one of them takes long to bind
make_library plugin_slow.so -DPLUGIN_SLOW -Wl,-z,now,-z,relro "$sim"
for i in 1 2; do cp "$dir/plugin_now.so" "$dir/plugin_$i.so"; done
cp "$dir/plugin_slow.so" "$dir/plugin_3.so"
for _ in 1 2 3; do
    shimmed "$tests/prog_rebind" "$dir"/plugin_[123].so
    [ "$status" = 0 ] || fail "libraries that come and go: status $status"
done

# the loader, in the midst of binding a library, calls a resolver of another one, which looks a name up: the library is left to
# the loader, and bound to us at the next look-up
cat >"$dir/resolver.c" <<'END'
#include <dlfcn.h>
static int answer(void) { return 7; }
static int (*resolve(void))(void) { return dlsym(RTLD_DEFAULT, "getpid") ? answer : 0; }
int chosen(void) __attribute__((ifunc("resolve")));
END
cat >"$dir/late.c" <<'END'
#define _GNU_SOURCE
#include "work.h"
#include <dlfcn.h>
int main(int argc, char **argv)
{
    MUST(argc == 3 && dlopen("libcuda.so.1", RTLD_NOW) != NULL && dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) != NULL);
    void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    MUST(plugin != NULL);
    void (*run)(void) = (void (*)(void))dlsym(plugin, "plugin_run");
    MUST(run != NULL);
    run();
    return 0;
}
END
"${CC:-cc}" -O1 -shared -fPIC -Wl,-z,now -o "$dir/libresolver.so" "$dir/resolver.c" -ldl || fail "the resolver does not build"
"${CC:-cc}" "${flags[@]}" "-I$src" -o "$dir/late" "$dir/late.c" -ldl || fail "late does not build"
for how in now,-z,relro lazy,-z,relro now,-z,norelro; do
    make_library plugin_chosen.so -DPLUGIN_CHOSEN "-Wl,-z,$how" "$sim" "$dir/libresolver.so" "-Wl,-rpath,$dir"
    run_shimmed "$dir/late" "$dir/libresolver.so" "$dir/plugin_chosen.so"
    expect_events "$memory" <<<"$work
$more"
    expect_clean
done
