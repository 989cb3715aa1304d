/*
 * map.h - zeroed pages of the process's own, for what must not come from the host's heap.
 */
#ifndef VS_CORE_MAP_H
#define VS_CORE_MAP_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* NULL where there are none; to be given back by munmap.  They take no memory before they are touched.  errno
 * is kept. */
static inline void *vs_map(size_t bytes)
{
    int saved = errno;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

#endif
