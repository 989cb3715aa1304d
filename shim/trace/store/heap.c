/*
 * heap.c - SQLite's memory, taken from the system once and kept.
 *
 * malloc belongs to the host, which may have put another one in its place.  The C library's gives memory back
 * and takes it again at the top of its arena (a hundred mprotect calls a second at 18,000 events), each under
 * the lock of the host's whole address space.  Here a block that is freed goes to a list of its size and
 * comes back from there:
 *
 *      sizes    32 40 48 56 | 64 80 96 112 | 128 ...   four to a doubling, at most a fifth too large
 *      blocks   [size class, 8 bytes | what SQLite gets ...]
 *      chunks   4 MiB of anonymous memory each, cut from the front, never given back
 *
 * A block larger than 1 MiB has a mapping of its own.  The lock is for the analyzer's readers, which may be
 * several threads.
 */
#define _GNU_SOURCE
#include "vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fork.h"

#define SMALLEST  32u
#define DOUBLINGS 15 /* up to 1 MiB */
#define CLASSES   (4 * DOUBLINGS + 1)
#define HEADER    8u
#define CHUNK     (UINT64_C(4) << 20)

struct block {
    uint64_t size;      /* of a class, or of a mapping; HEADER included */
    struct block *next; /* the next free block of the same size */
};

struct heap {
    atomic_flag busy;
    struct block *vacant[CLASSES];
    unsigned char *at, *end; /* what is left of the last chunk */
};

static struct heap *heap;

/* The kernel wipes the state in a fork child, which begins with an empty heap; freeing blocks of the parent's
 * there is still safe. */
static void wipe(void)
{
    memset(heap, 0, sizeof *heap);
}

static void enter(void)
{
    /* acquire: sees the lists as the last holder left them */
    while (atomic_flag_test_and_set_explicit(&heap->busy, memory_order_acquire)) {
    }
}

static void leave(void)
{
    atomic_flag_clear_explicit(&heap->busy, memory_order_release); /* pairs with enter */
}

/* ---- size classes ---- */

static uint64_t class_size(unsigned class)
{
    return (SMALLEST + SMALLEST / 4 * (class % 4)) << class / 4;
}

/* The smallest class that holds BYTES; CLASSES: none does. */
static unsigned class_of(uint64_t bytes)
{
    if (bytes <= SMALLEST)
        return 0;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(bytes - 1) - 5u; /* 33 to 64 bytes: the first */
    unsigned class = 4 * doubling;
    while (class < CLASSES && class_size(class) < bytes)
        class ++;
    return class;
}

/* ---- chunks ---- */

static void *map(uint64_t bytes)
{
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

static struct block *cut(uint64_t size)
{
    if ((uint64_t)(heap->end - heap->at) < size) {
        unsigned char *m = map(CHUNK);
        if (m == NULL)
            return NULL;
        heap->at = m;
        heap->end = m + CHUNK;
    }
    struct block *b = (struct block *)(void *)heap->at;
    heap->at += size;
    b->size = size;
    return b;
}

static struct block *map_one(uint64_t bytes)
{
    struct block *b = map(bytes);
    if (b)
        b->size = bytes;
    return b;
}

/* ---- what SQLite asks for ---- */

static struct block *block_of(void *p)
{
    return (struct block *)(void *)((unsigned char *)p - HEADER);
}

/* Bytes of the block that holds N of SQLite's. */
static uint64_t whole(int n)
{
    unsigned class = class_of((uint64_t)n + HEADER);
    return class < CLASSES ? class_size(class) : ((uint64_t)n + HEADER + 4095) & ~UINT64_C(4095);
}

static void *heap_malloc(int n)
{
    unsigned class = class_of((uint64_t)n + HEADER);
    struct block *b;
    if (class == CLASSES) {
        b = map_one(whole(n));
        return b ? (unsigned char *)b + HEADER : NULL;
    }
    enter();
    b = heap->vacant[class];
    if (b)
        heap->vacant[class] = b->next;
    else
        b = cut(class_size(class));
    leave();
    return b ? (unsigned char *)b + HEADER : NULL;
}

static void heap_free(void *p)
{
    if (p == NULL)
        return;
    struct block *b = block_of(p);
    unsigned class = class_of(b->size);
    if (class == CLASSES) {
        munmap(b, b->size);
        return;
    }
    enter();
    b->next = heap->vacant[class];
    heap->vacant[class] = b;
    leave();
}

static int heap_size(void *p)
{
    return p ? (int)(block_of(p)->size - HEADER) : 0;
}

static int heap_roundup(int n)
{
    return (int)(whole(n) - HEADER);
}

static void *heap_realloc(void *p, int n)
{
    if (whole(n) == block_of(p)->size)
        return p;
    void *to = heap_malloc(n);
    if (to) {
        memcpy(to, p, (size_t)(heap_size(p) < n ? heap_size(p) : n));
        heap_free(p);
    }
    return to;
}

static int heap_init(void *unused)
{
    return SQLITE_OK;
}

static void heap_shutdown(void *unused) {}

void vs_heap_install(void)
{
    static const sqlite3_mem_methods methods = {heap_malloc,  heap_free, heap_realloc,  heap_size,
                                                heap_roundup, heap_init, heap_shutdown, NULL};
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer should see SQLite's memory */
    if (heap == NULL)
        heap = vs_fork_wiped_memory(sizeof *heap, wipe);
    if (heap)
        sqlite3_config(SQLITE_CONFIG_MALLOC, &methods); /* refused if SQLite is in use already */
#else
    (void)methods;
    (void)wipe;
#endif
}
