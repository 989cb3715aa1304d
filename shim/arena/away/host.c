/* host.c - see host.h. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/own_threads.h"
#include "hooks/driver.h"

/* Page-locked at once: the kernel is asked for so many pages, and the driver holds a lock of the process
 * meanwhile, for about a tenth of a second. */
#define AT_ONCE     (256ull << 20)
#define THREADS     8
#define STACK_BYTES (64u << 10)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define PATH   1024u /* bytes of a path, and of what is read of a file: a thread's stack may be small */
#define VIRTIO 64    /* devices of a virtual machine */
#define GROWTH_NS                                                                                            \
    5000000000ull /* in which a virtual machine has more memory, if it gets any: 3 s for 8 GiB were seen */

/* ---- how much there is ---- */

/* The first number of the file, or behind KEY in it; UINT64_MAX: it has none ("max"), or there is no file. */
static uint64_t number_in(const char *path, const char *key)
{
    char text[PATH];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, key);
    uint64_t value;
    return at != NULL && sscanf(at + strlen(key), " %" SCNu64, &value) == 1 ? value : UINT64_MAX;
}

static uint64_t left_in(const char *folder, const char *limit, const char *used)
{
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    uint64_t most = number_in(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, used);
    uint64_t now = most != UINT64_MAX ? number_in(path, "") : 0;
    return most == UINT64_MAX || now == UINT64_MAX ? UINT64_MAX : most > now ? most - now : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of the group PATH below ROOT and of all above it, which limit it as well. */
static uint64_t left_in_groups(const char *root, char *path, const char *limit, const char *used)
{
    uint64_t left = UINT64_MAX;
    char folder[PATH];
    for (char *end; path[0] != 0; *end = 0) {
        snprintf(folder, sizeof folder, "%s%s", root, path);
        left = least(left, left_in(folder, limit, used));
        end = strrchr(path, '/');
        if (end == NULL)
            break;
    }
    return least(left, left_in(root, limit, used));
}

/* A container sees its own group as the root: both the path and the root are looked at. */
static uint64_t left_of_line(char *line)
{
    char *controllers = strchr(line, ':'), *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return UINT64_MAX;
    *path++ = 0;
    if (controllers[1] == 0)
        return left_in_groups("/sys/fs/cgroup", path, "memory.max", "memory.current");
    return strcmp(controllers + 1, "memory") == 0
               ? left_in_groups("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes",
                                "memory.usage_in_bytes")
               : UINT64_MAX;
}

static uint64_t left_in_control_groups(void)
{
    char text[PATH], *rest;
    uint64_t left = UINT64_MAX;
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        left = least(left, left_of_line(line));
    return left;
}

/* Of LEFT and what is locked, in bytes, what may be locked: 0 where nobody knows what is left. */
static uint64_t share(uint64_t left, uint64_t locked)
{
    return left == UINT64_MAX ? 0 : left / 4 * 3 + locked / 4 * 3;
}

static uint64_t left_on_host(void)
{
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    return least(kib == UINT64_MAX ? UINT64_MAX : kib << 10, left_in_control_groups());
}

uint64_t vs_host_room(void)
{
    return share(left_on_host(), 0);
}

void vs_host_amount(char out[32], double bytes)
{
    bool large = bytes >= 0x1p30;
    snprintf(out, 32, "%.*f %s", large ? 2 : 0, bytes / (large ? 0x1p30 : 0x1p20), large ? "GiB" : "MiB");
}

/* A virtual machine that gets memory as it uses it (virtio-mem) has little at first, and the rest within
 * seconds. */
static bool grows(void)
{
    char path[64];
    bool found = false;
    for (int i = 0; i < VIRTIO && !found; i++) {
        snprintf(path, sizeof path, "/sys/bus/virtio/drivers/virtio_mem/virtio%d", i);
        found = access(path, F_OK) == 0;
    }
    return found;
}

/* ---- pages ---- */

struct part {
    char *from;
    uint64_t bytes;
};

/* Where the kernel does not know it, the driver has the pages made, one by one. */
static void *populate(void *argument)
{
    const struct part *p = argument;
    madvise(p->from, p->bytes, MADV_POPULATE_WRITE);
    return NULL;
}

/* Processors that this thread may run on, THREADS at most. */
static unsigned processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < THREADS ? (unsigned)count : (unsigned)THREADS;
}

/* Has the system make the pages: by several threads, since clearing them takes most of the time that locking
 * them takes. */
static void make_pages(char *from, uint64_t bytes)
{
    struct part part[THREADS];
    pthread_t thread[THREADS];
    unsigned started = 0, count = processors();
    uint64_t each = (bytes / count + (2ull << 20)) & -(2ull << 20);
    if (count < 2)
        return;
    for (uint64_t at = 0; at < bytes; at += each, started++) {
        part[started] = (struct part){from + at, least(each, bytes - at)};
        if (vs_own_thread(&thread[started], STACK_BYTES, populate, &part[started]) != 0)
            break; /* the driver does the rest */
    }
    while (started > 0)
        pthread_join(thread[--started], NULL);
}

/* ---- stores ---- */

#define DRIVER(symbol, parameters) ((CUresult(*) parameters)vs_cuda_real(#symbol))

/* Whether SOME bytes more may be locked of H.  Waits where the machine grows. */
static bool has_room(const struct vs_host_store *h, uint64_t some)
{
    uint64_t until = vs_clock_ns() + GROWTH_NS;
    bool room;
    while (!(room = h->locked + some <= share(left_on_host(), h->locked)) && grows() && vs_clock_ns() < until)
        nanosleep(&(struct timespec){0, GROWTH_NS / 100}, NULL);
    return room;
}

/* Locks the next of the store's pages, MOST bytes at most.  The driver's answer; *ROOM: it was not asked for
 * want of that. */
static CUresult lock_some(struct vs_host_store *h, uint64_t most, bool *room)
{
    CUresult (*lock)(void *, size_t, unsigned) = DRIVER(cuMemHostRegister_v2, (void *, size_t, unsigned));
    uint64_t rest = least(h->bytes - h->locked, most), some = least(AT_ONCE, rest);
    if (lock == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    /* all of the rest where the machine does not grow: others, as a job's other ranks, have had it since */
    *room = h->locked % AT_ONCE == 0 && has_room(h, grows() ? some : rest);
    bool usable = *room && mprotect(h->base + h->locked, some, PROT_READ | PROT_WRITE) == 0;
    if (usable)
        make_pages(h->base + h->locked, some);
    CUresult status =
        usable ? lock(h->base + h->locked, some, CU_MEMHOSTREGISTER_PORTABLE) : CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS)
        h->locked += some;
    else if (usable)
        madvise(h->base + h->locked, some, MADV_DONTNEED);
    return status;
}

static CUresult lock_pages(struct vs_host_store *h, bool *room)
{
    CUresult status = CUDA_SUCCESS;
    while (status == CUDA_SUCCESS && h->locked < h->bytes)
        status = lock_some(h, UINT64_MAX, room);
    return status;
}

bool vs_host_lock(struct vs_host_store *h, uint64_t most)
{
    bool room;
    return h->locked < h->bytes && lock_some(h, least(most, AT_ONCE), &room) == CUDA_SUCCESS;
}

bool vs_host_part(struct vs_host_store *h, uint64_t keep, struct vs_host_store *part)
{
    uint64_t from = (keep + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    if (from >= h->locked)
        return false;
    *part = (struct vs_host_store){.base = h->base + from, .locked = h->locked - from};
    h->locked = from;
    return true;
}

void vs_host_unlock(struct vs_host_store *part)
{
    CUresult (*unlock)(void *) = DRIVER(cuMemHostUnregister, (void *));
    for (uint64_t at = 0; at < part->locked; at += AT_ONCE)
        if (unlock != NULL)
            unlock(part->base + at);
    if (part->locked != 0) {
        madvise(part->base, part->locked, MADV_DONTNEED);
        mprotect(part->base, part->locked, PROT_NONE);
    }
    part->locked = 0;
}

uint64_t vs_host_together(uint64_t offset, uint64_t bytes)
{
    return least(bytes, AT_ONCE - offset % AT_ONCE);
}

static char *map(uint64_t bytes, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    /* what is locked later is usable then: the kernel may refuse as much at once */
    char *base = mmap(NULL, bytes, fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    madvise(base, bytes, MADV_DONTFORK); /* what a child writes must not part us from the driver's pages */
    madvise(base, bytes, MADV_HUGEPAGE);
    madvise(base, bytes, MADV_DONTDUMP);
    return base;
}

bool vs_host_reserve(struct vs_host_store *h, uint64_t bytes)
{
    *h = (struct vs_host_store){.bytes = bytes, .base = map(bytes, -1)};
    return h->base != NULL;
}

static const char *make_locked(struct vs_host_store *h, char *why, size_t size)
{
    bool room = true;
    h->base = map(h->bytes, -1);
    CUresult status = h->base != NULL ? lock_pages(h, &room) : CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS)
        return NULL;
    if (room)
        snprintf(why, size,
                 "the driver locks %.2f of %.2f GiB of the host's memory (error %d): --to=DIR takes a file",
                 (double)h->locked / 0x1p30, (double)h->bytes / 0x1p30, (int)status);
    else
        snprintf(why, size,
                 "%.2f GiB are needed on the host, which has %.2f GiB for it (3/4 of what is left to this "
                 "process): --to=DIR takes a file",
                 (double)h->bytes / 0x1p30, (double)share(left_on_host(), h->locked) / 0x1p30);
    return why;
}

/* The file's blocks are had at once: a full disk is an error here, and not a signal later. */
static const char *make_file(struct vs_host_store *h, const char *to, char *why, size_t size)
{
    int fd = open(to, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int failed = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)h->bytes);
    if (failed == 0 && (h->base = map(h->bytes, fd)) == NULL)
        failed = errno;
    if (fd >= 0)
        close(fd);
    if (failed == 0)
        return NULL;
    snprintf(why, size, "a file of %.2f GiB without a name in %s: %s", (double)h->bytes / 0x1p30, to,
             strerror(failed));
    return why;
}

const char *vs_host_make(struct vs_host_store *h, uint64_t bytes, const char *to, char *why, size_t room)
{
    uint64_t since = vs_clock_ns();
    *h = (struct vs_host_store){.bytes = bytes};
    if (bytes == 0)
        return NULL;
    const char *failed = *to != 0 ? make_file(h, to, why, room) : make_locked(h, why, room);
    if (failed != NULL)
        vs_host_end(h);
    h->ns = vs_clock_ns() - since;
    return failed;
}

void vs_host_end(struct vs_host_store *h)
{
    vs_host_unlock(h);
    if (h->base != NULL)
        munmap(h->base, h->bytes);
    *h = (struct vs_host_store){.base = NULL};
}
