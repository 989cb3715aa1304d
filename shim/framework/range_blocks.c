/* range_blocks.c - how a thread comes to its block of ranges and leaves it, and what a fork does. */
#include "range_blocks.h"

#include <pthread.h>
#include <string.h>

#include "layers.h"

enum { THREADS = 1024 };

/* THREADS blocks, mapped at the first use and never unmapped, so that a program without ranges does not
 * spend address space, which may be limited (ulimit -v). */
static void *_Atomic blocks;
__thread struct vs_range_block *vs_range_own;
struct vs_range_block vs_range_none_left;
VS_HOT uint32_t vs_ranges_process;
static pthread_key_t exit_key;
static bool have_exit_key;

/* ---- generations: fork children ---- */

static void thread_exit(void *block);

void vs_range_blocks_init(void)
{
    /* A key made this early is one of the first 32, whose values pthread_setspecific keeps in the thread
     * itself, so setting it calls no malloc, also in a signal handler. */
    have_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
    __atomic_store_n(&vs_ranges_process, vs_fork_number(), __ATOMIC_RELAXED);
}

__attribute__((noinline)) void vs_range_become_child(uint32_t now)
{
    /* a child begins with one thread, so there is no race */
    vs_pending_forget();
    atomic_store_explicit(&vs_hot.lead, NULL, memory_order_relaxed);
    __atomic_store_n(&vs_ranges_process, now, __ATOMIC_RELEASE);
}

__attribute__((noinline)) void vs_range_reopen(struct vs_range_block *b, uint32_t now)
{
    b->generation = now;
    for (uint32_t i = 0; i < b->count; i++) {
        struct vs_range_entry *e = &b->entries[i];

        if (e->key && e->id)
            e->ticket = vs_range_write_push(e->id, e->parent, e->flags,
                                            (struct vs_range_names){e->name, e->domain, NULL, 0});
    }
    if (b->current)
        vs_range_set_lead(b);
}

/* ---- a thread's first range, and its end ---- */

__attribute__((noinline)) struct vs_range_block *vs_range_claim(uint32_t now)
{
    struct vs_range_block *all = vs_map_once(&blocks, THREADS * sizeof *all, false);

    for (uint32_t i = 0; all && i < THREADS; i++) {
        uint32_t unused = 0;

        /* Acquire pairs with the release in thread_exit: the block's last user has finished. */
        if (__atomic_load_n(&all[i].used, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&all[i].used, &unused, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        all[i].generation = now;
        vs_range_own = &all[i];
        if (have_exit_key)
            pthread_setspecific(exit_key, vs_range_own);
        return vs_range_own;
    }
    vs_range_own = &vs_range_none_left;
    vs_self.range = VS_RANGE_UNKNOWN;
    return NULL;
}

static void thread_exit(void *block)
{
    struct vs_range_block *b = block;

    vs_range_generation();
    while (b->count > 0) {
        struct vs_range_entry *e = &b->entries[b->count - 1];

        if (e->key && e->id)
            vs_range_write_pop(e->id, e->ticket);
        e->key = 0;
        b->count--;
    }
    const uint32_t *mine = &b->current;

    vs_range_set_current(b, 0);
    /* The block's next thread must not lead just because this one did. */
    atomic_compare_exchange_strong_explicit(&vs_hot.lead, &mine, NULL, memory_order_relaxed,
                                            memory_order_relaxed);
    memset(b->over, 0, sizeof(b->over));
    b->over_total = 0;
    vs_layer_now.ranges = 0;
    vs_range_own = NULL;
    vs_range_update_self(NULL);
    __atomic_store_n(&b->used, 0, __ATOMIC_RELEASE);
}
