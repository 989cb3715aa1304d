/* host.c - see host.h. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "hooks/driver.h"

/* Page-locked at once: the kernel is asked for so many pages, and the driver holds a lock of the process
 * meanwhile, for about a tenth of a second. */
#define AT_ONCE (256ull << 20)
#define PATH    1024u /* bytes of a path, and of what is read of a file: a thread's stack may be small */

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

uint64_t vs_host_room(void)
{
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t left = least(kib == UINT64_MAX ? UINT64_MAX : kib << 10, left_in_control_groups());
    return left == UINT64_MAX ? 0 : left / 4 * 3;
}

void vs_host_amount(char out[32], double bytes)
{
    bool large = bytes >= 0x1p30;
    snprintf(out, 32, "%.*f %s", large ? 2 : 0, bytes / (large ? 0x1p30 : 0x1p20), large ? "GiB" : "MiB");
}

/* ---- stores ---- */

#define DRIVER(symbol, parameters) ((CUresult(*) parameters)vs_cuda_real(#symbol))

/* Locks the next of the store's pages, MOST bytes at most.  The driver's answer. */
static CUresult lock_some(struct vs_host_store *h, uint64_t most)
{
    CUresult (*lock)(void *, size_t, unsigned) = DRIVER(cuMemHostRegister_v2, (void *, size_t, unsigned));
    uint64_t left = h->bytes - h->locked, some = least(AT_ONCE, least(left, most));
    if (lock == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (h->locked % AT_ONCE != 0 ||
        least(left, most) > vs_host_room()) /* others, as a job's other ranks, have had it since */
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = lock(h->base + h->locked, some, CU_MEMHOSTREGISTER_PORTABLE);
    h->locked += status == CUDA_SUCCESS ? some : 0;
    return status;
}

static CUresult lock_pages(struct vs_host_store *h)
{
    CUresult status = CUDA_SUCCESS;
    while (status == CUDA_SUCCESS && h->locked < h->bytes)
        status = lock_some(h, UINT64_MAX);
    return status;
}

bool vs_host_lock(struct vs_host_store *h, uint64_t most)
{
    return h->locked < h->bytes && lock_some(h, least(most, AT_ONCE)) == CUDA_SUCCESS;
}

void vs_host_unlock(struct vs_host_store *h, uint64_t keep)
{
    CUresult (*unlock)(void *) = DRIVER(cuMemHostUnregister, (void *));
    uint64_t from = (keep + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    for (uint64_t at = from; at < h->locked; at += AT_ONCE)
        if (unlock != NULL)
            unlock(h->base + at);
    if (from < h->locked)
        madvise(h->base + from, h->locked - from, MADV_DONTNEED);
    h->locked = least(from, h->locked);
}

static char *map(uint64_t bytes, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
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
    uint64_t room = vs_host_room();
    if (h->bytes > room) {
        snprintf(why, size,
                 "%.2f GiB are needed on the host, which has %.2f GiB for it (3/4 of what is left to this "
                 "process): --to=DIR takes a file",
                 (double)h->bytes / 0x1p30, (double)room / 0x1p30);
        return why;
    }
    h->base = map(h->bytes, -1);
    CUresult status = h->base != NULL ? lock_pages(h) : CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS)
        return NULL;
    snprintf(why, size,
             "the driver locks %.2f of %.2f GiB of the host's memory (error %d): --to=DIR takes a file",
             (double)h->locked / 0x1p30, (double)h->bytes / 0x1p30, (int)status);
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
    vs_host_unlock(h, 0);
    if (h->base != NULL)
        munmap(h->base, h->bytes);
    *h = (struct vs_host_store){.base = NULL};
}
