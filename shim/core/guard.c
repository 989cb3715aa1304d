/*
 * guard.c - survives the truncation of files that we have mapped.
 *
 * An access beyond the new end raises SIGBUS, which by default kills the host, although any script of the
 * same user may truncate a file in /dev/shm or beside a database.  The journal and SQLite's shared memory
 * need names (recover finds the one, readers the other), so they cannot be sealed memory files.  A fault in a
 * piece of ours maps zeros over it, notifies its owner and repeats the access; any other SIGBUS kills the
 * process at the same instruction, as by default.
 */
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECES 32

/* A place is taken by its `owner` word and is visible once `end` is written, as the last word (release; the
 * handler's acquire load pairs with it).  Two threads may fault at once: both map zeros. */
struct piece {
    _Atomic uint32_t owner; /* 1: taken */
    _Atomic uintptr_t start, end;
    void (*notify)(void *context);
    void *context;
};

static struct piece pieces[PIECES];
static _Atomic bool installed;

void vs_guard_add(void *at, size_t n, void (*notify)(void *context), void *context)
{
    for (int i = 0; i < PIECES; i++) {
        struct piece *p = &pieces[i];
        uint32_t vacant = 0;
        if (!atomic_compare_exchange_strong(&p->owner, &vacant, 1))
            continue;
        p->notify = notify;
        p->context = context;
        atomic_store_explicit(&p->start, (uintptr_t)at, memory_order_relaxed);
        atomic_store_explicit(&p->end, (uintptr_t)at + n, memory_order_release);
        return;
    }
}

void vs_guard_remove(const void *at)
{
    for (int i = 0; i < PIECES; i++) {
        struct piece *p = &pieces[i];
        if (atomic_load_explicit(&p->end, memory_order_relaxed) == 0 ||
            atomic_load_explicit(&p->start, memory_order_relaxed) != (uintptr_t)at)
            continue;
        atomic_store_explicit(&p->end, 0, memory_order_relaxed);
        atomic_store(&p->owner, 0);
    }
}

static struct piece *piece_at(uintptr_t address)
{
    for (int i = 0; i < PIECES; i++) {
        uintptr_t end = atomic_load_explicit(&pieces[i].end, memory_order_acquire);
        if (address < end && address >= atomic_load_explicit(&pieces[i].start, memory_order_relaxed))
            return &pieces[i];
    }
    return NULL;
}

/* Maps zeros over the piece; false: even that failed. */
static bool fill(const struct piece *p)
{
    uintptr_t start = atomic_load_explicit(&p->start, memory_order_relaxed);
    size_t n = atomic_load_explicit(&p->end, memory_order_relaxed) - start;
    return mmap((void *)start, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

/* Restores the default action.  A fault is raised again by itself; a signal that was sent is sent once more,
 * unchanged, and stays pending until we return. */
static void as_by_default(int sig, siginfo_t *info)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(sig, &action, NULL);
    if (info->si_code <= 0)
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info);
}

static void on_bus_error(int sig, siginfo_t *info, void *unused)
{
    int kept = errno;
    struct piece *p = info->si_code > 0 ? piece_at((uintptr_t)info->si_addr) : NULL;
    if (p && fill(p))
        p->notify(p->context);
    else
        as_by_default(sig, info);
    errno = kept;
}

/* Not over a host's own handler; one that is installed later replaces ours, and the host then handles such
 * faults itself. */
void vs_guard_install(void)
{
    struct sigaction host, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    if (atomic_load(&installed) || sigaction(SIGBUS, NULL, &host) != 0 || (host.sa_flags & SA_SIGINFO) ||
        host.sa_handler != SIG_DFL)
        return;
    atomic_store(&installed, sigaction(SIGBUS, &ours, NULL) == 0);
}

bool vs_guard_installed(void)
{
    return atomic_load_explicit(&installed, memory_order_relaxed);
}
