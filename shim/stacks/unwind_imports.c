/*
 * unwind_imports.c - what the private libunwind gets instead of the C library (unwinder.h).  Every function
 * here runs inside libunwind, on a thread whose block is entered.
 */
#define _GNU_SOURCE
#include "unwinder.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"
#include "core/fork.h"
#include "core/readable.h"
#include "modules.h"

unsigned vs_import_lookups, vs_import_hits;

static _Atomic unsigned process; /* whose caches libunwind has: vs_fork_number() */

bool vs_imports_prepare(void)
{
    atomic_store_explicit(&process, vs_fork_number(), memory_order_relaxed);
    return vs_modules_prepare();
}

bool vs_imports_forked(void)
{
    unsigned now = vs_fork_number();
    /* relaxed: a child has one thread at first, and the number says nothing about other memory */
    if (__builtin_expect(atomic_load_explicit(&process, memory_order_relaxed) == now, 1))
        return false;
    atomic_store_explicit(&process, now, memory_order_relaxed);
    return true;
}

static __attribute__((noreturn)) void leave_unwinder(void)
{
    __builtin_longjmp(vs_block_current()->escape, 1);
}

/* ---- objects ---- */

/* libunwind passes its search record, whose first word is the pc.  Three program headers made from what
 * _dl_find_object knows are all that its callback reads: where the object lies, its unwind table, its dynamic
 * section.
 */
static int import_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    struct vs_object object;
    vs_import_lookups++;
    if (!vs_object_find(*(uintptr_t *)data, &object))
        return 0;
    vs_import_hits++;
    uintptr_t bias = object.map->l_addr;
    ElfW(Phdr) phdr[3] = {{.p_type = PT_LOAD,
                           .p_vaddr = object.start - bias,
                           .p_memsz = object.end - object.start,
                           .p_filesz = object.end - object.start}};
    unsigned count = 1;
    if (object.eh_frame_hdr)
        phdr[count++] =
            (ElfW(Phdr)){.p_type = PT_GNU_EH_FRAME, .p_vaddr = (uintptr_t)object.eh_frame_hdr - bias};
    if (object.map->l_ld)
        phdr[count++] = (ElfW(Phdr)){.p_type = PT_DYNAMIC, .p_vaddr = (uintptr_t)object.map->l_ld - bias};
    struct dl_phdr_info info = {.dlpi_addr = bias, .dlpi_name = "", .dlpi_phdr = phdr, .dlpi_phnum = count};
    return callback(&info, sizeof info, data);
}

/* ---- memory ---- */

struct tls_index {
    uintptr_t module, offset;
};

static void *import_tls_get_addr(struct tls_index *index)
{
    return vs_block_current()->tls + index->offset; /* one module: unwinder.c checked that it fits */
}

/* Frame caches (256 KiB and more) belong to the thread and are remembered in its block; the small pools are
 * for good. */
enum { VS_UNWIND_CACHE = 64 << 10 };

static void *import_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (size >= VS_UNWIND_CACHE)
        flags |= MAP_POPULATE; /* written all over at once: one call instead of 64 page faults */
    void *memory = mmap(at, size, protection, flags, fd, offset);
    struct vs_block *block = vs_block_current();
    if (memory == MAP_FAILED || size < VS_UNWIND_CACHE || !block)
        return memory;
    for (int i = 0; i < VS_BLOCK_REGIONS; i++) {
        if (!block->regions[i].at) {
            block->regions[i].size = size;
            block->regions[i].at = memory;
            return memory;
        }
    }
    return memory;
}

static int import_munmap(void *at, size_t size)
{
    struct vs_block *block = vs_block_current();
    for (int i = 0; block && i < VS_BLOCK_REGIONS; i++)
        if (block->regions[i].at == at)
            block->regions[i].at = NULL;
    return munmap(at, size);
}

static void *import_malloc(size_t size)
{
    return NULL;
}

static void import_free(void *memory) {}

/* ---- address checks ---- */

static int import_fail(void)
{
    errno = ENOENT;
    return -1;
}

/* libunwind reads from its pipe before it writes to it, and repeats while errno says EINTR. */
static ssize_t import_read(int fd, void *buffer, size_t size)
{
    errno = EAGAIN;
    return -1;
}

static int import_nothing(void)
{
    return 0;
}

/* libunwind remembers four pages and then asks again and again: a page found readable stays so for this
 * capture. */
static long readable(uintptr_t address)
{
    struct vs_block *block = vs_block_current();
    uint64_t page = address >> 12;
    unsigned slot = (unsigned)(page % VS_BLOCK_PAGES);
    errno = 0;
    if (block->readable[slot].page == page && block->readable[slot].capture == block->captures)
        return 1;
    if (!vs_readable(address)) {
        errno = EFAULT;
        return -1;
    }
    block->readable[slot].page = page;
    block->readable[slot].capture = block->captures;
    return 1;
}

static ssize_t import_write(int fd, const void *buffer, size_t size)
{
    return readable((uintptr_t)buffer);
}

static long import_syscall(long number, long fd, long address, long size)
{
    return number == SYS_write ? readable((uintptr_t)address) : -1;
}

/* ---- locks ---- */

/* The mutex's first word is the lock: the number (core/fork.h) of the process that holds it.  A number that
 * is not ours was inherited through a fork, and its holder does not exist here. */
static int import_mutex_lock(_Atomic unsigned *lock)
{
    struct vs_block *block = vs_block_current();
    unsigned self = vs_fork_number();
    for (int spins = 0; spins < 4000; spins++) {
        unsigned held = atomic_load_explicit(lock, memory_order_relaxed);
        /* acquire: sees what the last holder wrote; pairs with the release in import_mutex_unlock */
        if (held != self && atomic_compare_exchange_strong_explicit(lock, &held, self, memory_order_acquire,
                                                                    memory_order_relaxed)) {
            if (block && block->lock_count < VS_BLOCK_LOCKS)
                block->locks[block->lock_count++] = (unsigned *)lock;
            return 0;
        }
        if (spins > 100)
            sched_yield();
    }
    leave_unwinder(); /* its holder is not running: this stack is given up, the host is not held up */
}

static int import_mutex_unlock(_Atomic unsigned *lock)
{
    struct vs_block *block = vs_block_current();
    for (unsigned i = 0; block && i < block->lock_count; i++) {
        if (block->locks[i] == (unsigned *)lock) {
            block->locks[i] = block->locks[--block->lock_count];
            break;
        }
    }
    atomic_store_explicit(lock, 0, memory_order_release);
    return 0;
}

static int import_mutex_init(_Atomic unsigned *lock, const void *attributes)
{
    atomic_store_explicit(lock, 0, memory_order_relaxed); /* no other thread knows of the mutex yet */
    return 0;
}

void vs_imports_release(struct vs_block *block)
{
    while (block->lock_count)
        atomic_store_explicit((_Atomic unsigned *)block->locks[--block->lock_count], 0, memory_order_release);
}

#define REPLACE(name, function)                                                                              \
    {                                                                                                        \
        name, (void *)(function), true                                                                       \
    }
#define REPLACE_IF(name, function)                                                                           \
    {                                                                                                        \
        name, (void *)(function), false                                                                      \
    }

const struct vs_import vs_imports[] = {
    REPLACE("dl_iterate_phdr", import_dl_iterate_phdr),
    REPLACE("__tls_get_addr", import_tls_get_addr),
    REPLACE("mmap", import_mmap),
    REPLACE("munmap", import_munmap),
    REPLACE("abort", leave_unwinder),
    REPLACE("pthread_mutex_lock", import_mutex_lock),
    REPLACE("pthread_mutex_unlock", import_mutex_unlock),
    REPLACE("pthread_mutex_init", import_mutex_init),
    REPLACE("sigprocmask", import_nothing),
    REPLACE_IF("pthread_key_create", import_nothing),
    REPLACE_IF("pthread_setspecific", import_nothing),
    REPLACE_IF("malloc", import_malloc),
    REPLACE_IF("free", import_free),
    REPLACE_IF("open", import_fail),
    REPLACE_IF("openat", import_fail),
    REPLACE_IF("stat", import_fail),
    REPLACE_IF("fstat", import_fail),
    REPLACE_IF("pipe", import_fail),
    REPLACE_IF("pipe2", import_fail),
    REPLACE_IF("close", import_nothing),
    REPLACE_IF("read", import_read),
    REPLACE_IF("write", import_write),
    REPLACE_IF("syscall", import_syscall),
    REPLACE_IF("mincore", import_nothing),
    REPLACE_IF("msync", import_nothing),
};
const size_t vs_import_count = sizeof vs_imports / sizeof *vs_imports;
