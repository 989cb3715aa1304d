/*
 * block.c - see block.h.
 *
 * Blocks stand in a list: pushed by their threads with compare-and-swap on the head, removed by the one
 * reaper.  Pushers touch nothing but the head, so the reaper may change inner links with plain stores; only
 * for the head itself does it compete with them.
 */
#define _GNU_SOURCE
#include "block.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fork.h"
#include "core/hot.h"

unsigned vs_stack_depth = 64;
static __thread struct vs_block_python *my_python; /* a fork child finds it again: its block was wiped */
static _Atomic(struct vs_block *) blocks;

static struct vs_block *block_create(void)
{
    struct vs_block *block = vs_fork_wiped_memory(sizeof *block, NULL);
    if (!block)
        return NULL;
    block->tid = (pid_t)syscall(SYS_gettid);
    block->live = 1;
    block->next = atomic_load_explicit(&blocks, memory_order_relaxed);
    /* release: the reaper follows the link and reads tid */
    while (!atomic_compare_exchange_weak_explicit(&blocks, &block->next, block, memory_order_release,
                                                  memory_order_relaxed))
        ;
    vs_self.block = block;
    return block;
}

struct vs_block *vs_block_enter_first(void)
{
    struct vs_block *block = vs_self.block;
    if (!block && !(block = block_create()))
        return NULL;
    if (!block->live) {
        /* a fork child: its parent's list of blocks came with it, links wiped, and is left alone */
        block->tid = (pid_t)syscall(SYS_gettid);
        block->live = 1;
        block->python = my_python;
    }
    if (block->busy)
        return NULL;
    block->busy = 1;
    atomic_signal_fence(memory_order_seq_cst); /* as in vs_block_enter */
    return block;
}

bool vs_block_add_python(struct vs_block *block)
{
    int saved = errno;
    block->python = my_python = vs_fork_wiped_memory(sizeof *my_python, NULL);
    errno = saved;
    return my_python;
}

struct vs_block *vs_block_current(void)
{
    return vs_self.block;
}

static void drop_regions(struct vs_block *block)
{
    for (int i = 0; i < VS_BLOCK_REGIONS; i++) {
        if (block->regions[i].at)
            munmap(block->regions[i].at, block->regions[i].size);
        block->regions[i].at = NULL;
    }
}

/* Zeros from BEGIN to END.  Whole pages come back zeroed when they are touched again. */
static void wipe(void *begin, char *end)
{
    char *from = (char *)(((uintptr_t)begin + 4095) & ~(uintptr_t)4095);
    char *to = (char *)((uintptr_t)end & ~(uintptr_t)4095);
    memset(begin, 0, (size_t)(from - (char *)begin));
    if (madvise(from, (size_t)(to - from), MADV_DONTNEED) != 0)
        memset(from, 0, (size_t)(to - from));
    memset(to, 0, (size_t)(end - to));
}

void vs_block_forget(struct vs_block *block)
{
    memset(block->tls, 0, sizeof block->tls); /* libunwind takes zeroes for a thread that it has not met */
    drop_regions(block);
    wipe(block->stacks, (char *)(block + 1));
}

void vs_block_forget_python(struct vs_block *block)
{
    memset(block->nodes, 0, sizeof block->nodes); /* the same journal's ids */
    wipe(block->python->stacks, block->python->text);
}

void vs_block_forget_python_names(struct vs_block *block)
{
    wipe(block->python->stacks, (char *)block->python->grafts);
}

static bool thread_gone(const struct vs_block *block, pid_t pid)
{
    return block->live && syscall(SYS_tgkill, pid, block->tid, 0) == -1 && errno == ESRCH;
}

static void unlink_block(struct vs_block *block)
{
    struct vs_block *head = block;
    if (atomic_compare_exchange_strong_explicit(&blocks, &head, block->next, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    while (head->next != block)
        head = head->next;
    head->next = block->next;
}

void vs_blocks_reap(void)
{
    int saved = errno;
    pid_t pid = getpid();
    /* acquire: pairs with the push */
    struct vs_block *block = atomic_load_explicit(&blocks, memory_order_acquire);
    while (block) {
        struct vs_block *next = block->next;
        if (thread_gone(block, pid)) {
            unlink_block(block);
            drop_regions(block);
            if (block->python)
                munmap(block->python, sizeof *block->python);
            munmap(block, sizeof *block);
        }
        block = next;
    }
    errno = saved;
}

size_t vs_blocks_count(void)
{
    size_t n = 0;
    for (struct vs_block *b = atomic_load_explicit(&blocks, memory_order_acquire); b; b = b->next)
        n++;
    return n;
}

/* ---- the tree of callers ---- */

enum { WAYS = 4, SETS = VS_NODE_SLOTS / WAYS };

static inline uint32_t set_of(uint64_t key)
{
    return (uint32_t)(vs_mix(key, 0xe7037ed1a0b428dbu) % SETS);
}

/* A set is one line: keys that share it do not put each other out at once. */
static inline uint32_t find(struct vs_block *block, struct vs_journal *j, uint32_t at, uint64_t key)
{
    struct vs_node_slot *set = &block->nodes[at * WAYS];
    for (int i = 0; i < WAYS; i++)
        if (set[i].key == key && set[i].used)
            return set[i].stack;
    uint32_t stack = vs_journal_stack(j, (uint32_t)(key >> 32), (uint32_t)key);
    uint16_t next = set[0].next;
    memmove(set + 1, set, (WAYS - 1) * sizeof *set);
    *set = (struct vs_node_slot){.key = key, .stack = stack, .used = 1, .next = next};
    return stack;
}

VS_HOT_CODE uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    return find(block, j, set_of(key), key);
}

VS_HOT_CODE uint32_t vs_node_of_node(struct vs_block *block, struct vs_journal *j, uint32_t parent,
                                     uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t at = set_of(key);
#define NEXT_OF(i) block->nodes[(i)*WAYS].next
    vs_fetch(&block->nodes[vs_expected(&block->node_order, (uint16_t)at, NEXT_OF) * WAYS]);
    return find(block, j, at, key);
}
