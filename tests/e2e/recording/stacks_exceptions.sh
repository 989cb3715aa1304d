#!/bin/bash
# C++ exceptions pass through functions that allocate, and a host that uses libunwind or liblzma gets its own copies.
. "$(dirname "$0")/../lib/lib.bash"
command -v g++ >/dev/null || skip "there is no g++"

cat >"$dir/host.cpp" <<'END'
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
extern "C" { int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *); int cuMemAlloc_v2(unsigned long long *, size_t); }
struct Guard { int &n; ~Guard() { n++; } };
static __attribute__((noinline)) void allocate(int depth, int &unwound)
{
    Guard guard{unwound};
    if (depth > 0)
        return allocate(depth - 1, unwound);
    unsigned long long p;
    if (cuMemAlloc_v2(&p, 1ull << 45) != 0)
        throw std::runtime_error("out of memory");
}
static int round_of(int depth)
{
    int unwound = 0;
    unsigned long long p;
    cuMemAlloc_v2(&p, 4096);
    try {
        allocate(depth, unwound);
    } catch (const std::exception &e) {
        return std::string(e.what()) == "out of memory" ? unwound : -1;
    }
    return -2;
}
static int visit(struct dl_phdr_info *info, size_t, void *found)
{
    if (strstr(info->dlpi_name, "libunwind.so.8") || strstr(info->dlpi_name, "liblzma.so.5"))
        ++*static_cast<int *>(found);
    return 0;
}
int main(int argc, char **argv)
{
    void *context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    int found = 0;
    dl_iterate_phdr(visit, &found);
    std::printf("libraries of the host's own before: %d\n", found);
    if (argc > 1) { /* the host's libunwind, for everybody */
        void *own = dlopen("libunwind.so.8", RTLD_NOW | RTLD_GLOBAL);
        int (*backtrace)(void **, int) = (int (*)(void **, int))dlsym(RTLD_DEFAULT, "unw_backtrace");
        void *pcs[32];
        Dl_info where{};
        bool ok = own && backtrace && dladdr((void *)backtrace, &where);
        std::printf("own libunwind: %s, frames %d\n", ok && !strstr(where.dli_fname, "vramscope") ? "yes" : "no", ok ? backtrace(pcs, 32) > 1 : 0);
    }
    for (int depth : {0, 1, 40, 300})
        std::printf("%d unwound\n", round_of(depth));
    std::vector<std::thread> threads;
    int sums[4] = {};
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i, &sums, context] { cuCtxSetCurrent(context); for (int k = 0; k < 50; k++) sums[i] += round_of(k); });
    for (auto &t : threads)
        t.join();
    std::printf("%d %d %d %d\n", sums[0], sums[1], sums[2], sums[3]);
}
END
g++ -O1 -o "$dir/host" "$dir/host.cpp" "$BUILD/sim/libcuda.so.1" -lpthread -ldl || fail "the program does not compile"

run_shimmed "$dir/host"
grep -q '^301 unwound' "$run/out" || fail "exceptions: $(cat "$run/out")"
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND stack = 0" 0
expect_clean
if [ -e /usr/lib/x86_64-linux-gnu/libunwind.so.8 ]; then
    run_shimmed "$dir/host" own
    grep -q '^own libunwind: yes, frames 1' "$run/out" || fail "the host's own libunwind: $(cat "$run/out")"
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND stack = 0" 0
fi

# who the host's references to the unwinder are bound to
LD_DEBUG=bindings LD_DEBUG_OUTPUT=$dir/bindings LD_BIND_NOW=1 shimmed "$dir/host"
cat "$dir"/bindings.* | grep -E "symbol \`_Unwind_" >"$dir/unwind" || fail "the host binds no _Unwind_ symbol"
grep -v 'binding file [^ ]*libvramscope-unwind.so ' "$dir/unwind" | grep 'to [^ ]*vramscope' && fail "the host's _Unwind_ is bound to our copy"
grep -q 'to [^ ]*libgcc_s.so.1' "$dir/unwind" || fail "_Unwind_ is not bound to libgcc_s"
echo ok
