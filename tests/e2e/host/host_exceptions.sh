#!/bin/bash
# Exceptions, forced unwinding and longjmp pass through frames of ours and near them, also out of a signal handler that struck inside a hook.
. "$(dirname "$0")/../lib/lib.bash"
command -v g++ >/dev/null || skip "there is no g++"

cat >"$dir/host.cpp" <<'END'
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <link.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/auxv.h>
#include <sys/time.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
extern "C" { int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *); int cuMemAlloc_v2(unsigned long long *, size_t); int cuMemFree_v2(unsigned long long); }
static void *context;
static unsigned long long allocate(size_t n) { unsigned long long p = 0; return cuMemAlloc_v2(&p, n) == 0 ? p : 0; }
static std::atomic<int> allocations; /* that were made, and each is freed */
static void pair() { if (auto p = allocate(4096)) { allocations++; cuMemFree_v2(p); } }
/* allocates and frees while the exception passes */
struct Guard { std::atomic<int> &n; Guard(std::atomic<int> &c) : n(c) { pair(); } ~Guard() { pair(); n++; } };

static __attribute__((noinline)) void descend(int depth, std::atomic<int> &n)
{
    Guard guard(n);
    if (depth == 0)
        throw std::runtime_error("deep");
    descend(depth - 1, n);
    __asm__ volatile("");
}
static int rethrown(int depth)
{
    std::atomic<int> n{0};
    try {
        try {
            descend(depth, n);
        } catch (const std::exception &) {
            pair();
            throw;
        }
    } catch (const std::runtime_error &e) {
        return std::string(e.what()) == "deep" ? n.load() : -1;
    }
    return -2;
}
static int from_a_thread()
{
    std::exception_ptr carried;
    std::atomic<int> n{0};
    std::thread([&] { cuCtxSetCurrent(context); try { descend(20, n); } catch (...) { carried = std::current_exception(); pair(); } }).join();
    try { std::rethrow_exception(carried); } catch (const std::exception &e) { return n + (std::strcmp(e.what(), "deep") == 0 ? 0 : 1000); }
    return -1;
}
static void dispose(_Unwind_Reason_Code, _Unwind_Exception *e) { std::free(e); }
static __attribute__((noinline)) void foreign_throw(std::atomic<int> &n)
{
    Guard guard(n);
    auto *e = static_cast<_Unwind_Exception *>(std::calloc(1, sizeof(_Unwind_Exception) + 64));
    std::memcpy(&e->exception_class, "VENDLANG", 8);
    e->exception_cleanup = dispose;
    pair();
    _Unwind_RaiseException(e);
    std::abort();
}
static int foreign()
{
    std::atomic<int> n{0};
    try { foreign_throw(n); } catch (...) { pair(); return n + 10; }
    return -1;
}
/* forced unwinding */
static std::atomic<int> forced{0}, ready{0};
static void leave_deep(int depth) { Guard guard(forced); if (depth == 0) pthread_exit(nullptr); leave_deep(depth - 1); __asm__ volatile(""); }
static void *leaver(void *) { cuCtxSetCurrent(context); leave_deep(10); return nullptr; }
static void *endless(void *) { cuCtxSetCurrent(context); Guard guard(forced); ready = 1; for (;;) { pair(); pthread_testcancel(); } }
static int forced_unwinding()
{
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        pthread_create(&t, nullptr, leaver, nullptr), pthread_join(t, nullptr);
        ready = 0;
        pthread_create(&t, nullptr, endless, nullptr);
        while (!ready)
            ;
        pthread_cancel(t), pthread_join(t, nullptr);
    }
    return forced;
}
/* out of a handler: the simulated driver waits, without a lock, at the beginning of each call; it waits in the clock that the
 * kernel maps.  On a busy machine the signal may come before the call: then once more */
static sigjmp_buf back;
static int handled;
static bool jumps;
static struct { uintptr_t start, end; } waiting[2];
static int note_object(struct dl_phdr_info *info, size_t, void *)
{
    bool driver = std::strstr(info->dlpi_name, "libcuda.so.1") != nullptr;
    if (!driver && info->dlpi_addr != getauxval(AT_SYSINFO_EHDR))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            waiting[driver] = {start, start + info->dlpi_phdr[i].p_memsz};
        }
    return 0;
}
static bool in_a_call(void *interrupted)
{
    auto *where = static_cast<ucontext_t *>(interrupted);
#if defined(__x86_64__)
    uintptr_t at = where->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t at = where->uc_mcontext.pc;
#endif
    for (auto &object : waiting)
        if (at >= object.start && at < object.end)
            return true;
    return false;
}
static void arm(long us) { struct itimerval t = {{0, 0}, {0, us}}; setitimer(ITIMER_REAL, &t, nullptr); }
static void on_alarm(int, siginfo_t *, void *interrupted)
{
    if (!in_a_call(interrupted)) {
        arm(50);
        return;
    }
    handled++;
    if (jumps)
        siglongjmp(back, 1);
    throw 7;
}
static __attribute__((noinline)) int waits() { arm(1000); try { pair(); } catch (int seven) { return seven; } return 0; }
static int out_of_a_call()
{
    struct sigaction s = {};
    s.sa_sigaction = on_alarm;
    s.sa_flags = SA_NODEFER | SA_SIGINFO;
    dl_iterate_phdr(note_object, nullptr);
    sigaction(SIGALRM, &s, nullptr);
    int sevens = 0;
    for (int i = 0; i < 20; i++) {
        jumps = i % 2;
        if (sigsetjmp(back, 1) == 0)
            sevens += waits();
        pair(); /* the hooks know that the call before was left */
    }
    return sevens + 1000 * handled;
}
int main(int argc, char **argv)
{
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    if (argc > 1) {
        std::printf("out of a call %d\n", out_of_a_call());
        FILE *f = std::fopen(argv[1], "w");
        std::fprintf(f, "%d", allocations.load());
        std::fclose(f);
        return 0;
    }
    std::printf("rethrown %d %d %d\n", rethrown(0), rethrown(30), rethrown(200));
    std::printf("thread %d\n", from_a_thread());
    std::printf("foreign %d\n", foreign());
    std::printf("forced %d\n", forced_unwinding());
}
END

flavour() { # NAME OPTION...
    local name=$1
    shift
    g++ -O1 -fnon-call-exceptions -fasynchronous-unwind-tables -w "$@" -o "$dir/$name" "$dir/host.cpp" "$BUILD/sim/libcuda.so.1" -lpthread
}
linked=("" "-static-libgcc -static-libstdc++")
! in_full || linked+=("-static-libgcc")
for options in "${linked[@]}"; do
    # shellcheck disable=SC2086
    flavour host $options || { [ -n "$options" ] && echo "not here: $options" && continue; fail "the program does not compile"; }
    for stacks in driver all; do
        shim_env=("VRAMSCOPE_STACKS=$stacks")
        run_shimmed "$dir/host"
        grep -q '^rethrown 1 31 201$' "$run/out" || fail "exceptions: $(cat "$run/out")"
        grep -q '^forced 240$' "$run/out" || fail "forced unwinding: $(cat "$run/out")"
        expect_sql "SELECT count(*) FROM allocation WHERE free_seq IS NULL" 0
        expect_sql "PRAGMA integrity_check" ok
    done
    # 40 ms in each driver call, a signal after 1 ms: inside the first, also where the program is made to wait before it
    shim_env=(SIMCUDA_LATENCY_US=40000)
    run_shimmed "$dir/host" "$dir/made"
    grep -q '^out of a call 20070$' "$run/out" || fail "out of a call: $(cat "$run/out")"
    # every call that was not left was recorded, after calls that were
    made=$(cat "$dir/made") # 20, or one more for each time that the machine stopped the program until the first call was over
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" "$made"
    expect_sql "SELECT count(*) FROM event WHERE op = 'free'" "$made"
    expect_clean
done
echo "everything landed where it was thrown to"
