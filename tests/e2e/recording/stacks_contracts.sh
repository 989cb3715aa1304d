#!/bin/bash
# Where the C library, the private libunwind or the kernel is not what call stacks stand on there are none, the program goes on, and the
# recording says so.
. "$(dirname "$0")/../lib/lib.bash"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")

cat >"$dir/program.c" <<'END'
#include <cuda.h>
#include <stdio.h>
static __attribute__((noinline)) int ask(void)
{
    CUcontext context;
    CUdeviceptr p;
    int bad = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context) | cuMemAlloc(&p, 4096);
    return printf("%d\n", bad) < 0;
}
int main(void) { return ask(); }
END
cat >"$dir/finder.c" <<'END'
#include <string.h>
int _dl_find_object(void *address, void *found);
int _dl_find_object(void *address, void *found) { return memset(found, 0, 96) == NULL; } /* found, but nothing said of it */
END
cat >"$dir/filter.c" <<'END'
#include <errno.h>
#include <stdlib.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define DENY(call, first)                                                                                                          \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),         \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
static __attribute__((constructor)) void deny(void)
{
    struct sock_filter all[] = {DENY(SYS_rt_sigprocmask, ~0u), DENY(SYS_process_vm_readv, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof all / sizeof *all, all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        _Exit(77);
}
END
echo 'int nothing;' >"$dir/nothing.c"
compile() { "${CC:-cc}" -std=gnu11 "$@" || fail "no compiler"; }
compile -isystem "$include" -o "$dir/program" "$dir/program.c" "$BUILD/sim/libcuda.so.1"
compile -shared -fPIC -o "$dir/finder.so" "$dir/finder.c"
compile -shared -fPIC -o "$dir/filter.so" "$dir/filter.c"
# a tree whose private libunwind is none
cp -rL "$BUILD/lib" "$dir/lib"
compile -shared -fPIC -o "$dir/lib/vramscope/libvramscope-unwind.so" "$dir/nothing.c"

states() { expect_sql "SELECT group_concat(name || ' ' || state, ', ') FROM (SELECT * FROM contract WHERE name IN ('kernel_readable', 'libc_objects', 'unwinder') ORDER BY name)" "$1"; }
stacks() { expect_sql "SELECT count(*) > 0 FROM allocation WHERE stack > 0" "$1"; }
shim_env=(VRAMSCOPE_STACKS=driver)
run_shimmed "$dir/program"
states 'kernel_readable proven, libc_objects proven, unwinder proven'
stacks 1

# the same program goes on
goes_on() {
    shimmed "$dir/program"
    [ "$status" != 77 ] || skip "no filters of system calls here"
    [ "$status $(cat "$run/out")" = "0 0" ] || fail "the program's end is another one: $status"
}
whole=$shim
shim=$dir/finder.so:$whole
goes_on
states 'libc_objects broken'
stacks 0
shim=$dir/lib/libvramscope.so
goes_on
states 'kernel_readable proven, libc_objects proven, unwinder broken'
stacks 0
shim=$dir/filter.so:$whole
goes_on
states 'kernel_readable broken, libc_objects proven, unwinder broken'
stacks 0
echo "without what stacks stand on there are none, and that is said"
