/* readable.c - asks the kernel whether memory can be read (readable.h). */
#define _GNU_SOURCE
#include "readable.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "contracts.h"
#include "hot.h"

enum answer { NO, YES, UNCLEAR };
enum way { NOT_TRIED, BY_MASK, BY_COPY, NO_WAY };

static VS_HOT _Atomic int way;

/* The kernel copies a new signal mask in before it looks at what to do with it: an impossible one of those
 * gives EINVAL where the memory can be read and EFAULT where it can't, and changes nothing.  That is an
 * implementation's habit, and a filter of system calls may answer in its place.  So it is tried first on
 * memory of which the answer is known, and any third answer ends the trust in it; then a copy of our own
 * memory is asked for.  Where neither knows, nothing is called readable. */
static enum answer ask(enum way how, uintptr_t word)
{
    uint64_t copy;
    struct iovec to = {&copy, sizeof copy}, from = {(void *)word, sizeof copy};
    /* the last argument lies on the stack, where of an int's 64 bits clang sets 32 */
    long rc = how == BY_MASK ? syscall(SYS_rt_sigprocmask, ~0L, word, NULL, 8L)
                             : syscall(SYS_process_vm_readv, getpid(), &to, 1ul, &from, 1ul, 0ul);
    if (rc == -1 && errno == EFAULT)
        return NO;
    return (how == BY_MASK ? rc == -1 && errno == EINVAL : rc == sizeof copy) ? YES : UNCLEAR;
}

static bool knows(enum way how, void *unreadable)
{
    _Alignas(8) uint64_t ours = 0;
    return ask(how, (uintptr_t)unreadable) == NO && ask(how, (uintptr_t)&ours) == YES;
}

/* The first way from FIRST on that knows what we know.  Any thread; two find the same. */
static __attribute__((noinline, cold)) enum way choose(enum way first)
{
    static const char *const names[] = {[BY_MASK] = "rt_sigprocmask", [BY_COPY] = "process_vm_readv"};
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    enum way how = page != MAP_FAILED ? first : NO_WAY;
    while (how < NO_WAY && !knows(how, page))
        how++;
    if (page != MAP_FAILED)
        munmap(page, 4096);
    /* relaxed: it is but a number, and whichever a thread sees, its answers are judged */
    atomic_store_explicit(&way, how, memory_order_relaxed);
    if (how < NO_WAY)
        vs_contract_proven(VS_CONTRACT_KERNEL_READABLE, "%s tells it", names[how]);
    else
        vs_contract_broken(VS_CONTRACT_KERNEL_READABLE, "the kernel does not tell which memory can be read");
    return how;
}

/* 8 aligned bytes never cross a page. */
bool vs_readable(uintptr_t address)
{
    enum way how = (enum way)atomic_load_explicit(&way, memory_order_relaxed);
    enum answer answer = UNCLEAR;
    int saved = errno;
    if (__builtin_expect(how == NOT_TRIED, 0))
        how = choose(BY_MASK);
    while (how < NO_WAY && (answer = ask(how, address & ~(uintptr_t)7)) == UNCLEAR)
        how = choose(how + 1);
    errno = saved;
    return answer == YES;
}

/* So few bytes lie on two pages at most, of which one has the first of them and the other the last. */
bool vs_readable_bytes(uintptr_t address, size_t n)
{
    return n > 0 && n <= 4096 && address <= UINTPTR_MAX - n && vs_readable(address) &&
           vs_readable(address + n - 1);
}

size_t vs_copy_text(char *to, size_t room, uintptr_t address)
{
    size_t n = 0;
    for (; n + 1 < room; n++) {
        if ((n == 0 || (address + n) % 4096 == 0) && !vs_readable(address + n))
            break;
        if (!(to[n] = *(const char *)(address + n)))
            return n;
    }
    to[n] = '\0';
    return n;
}
