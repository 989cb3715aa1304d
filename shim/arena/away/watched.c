/*
 * watched.c - see watched.h: a table of addresses, 2 MiB to an entry.
 *
 * A block has 2 MiB at least, so it holds the last byte of the 2 MiB in which it begins, and no other block
 * does.  An entry therefore has the one block that holds its last byte, and who looks for an address finds
 * its block there, or, if that one begins behind the address, in the entry before.  Adding and removing
 * a block write an entry for each of its 2 MiB.
 */
#include "watched.h"

#include "core/fork.h"

#define ADDRESS_BITS 47
#define ENTRY_BITS   21
#define LEAF_BITS    13
#define MOST         (1u << 18)

struct entry {
    _Atomic uint32_t block; /* its number + 1 */
    uint32_t kept;
};
struct leaf {
    struct entry entry[1u << LEAF_BITS];
};
static _Atomic(struct leaf *) leaves[1u << (ADDRESS_BITS - ENTRY_BITS - LEAF_BITS)];

struct vs_watched *vs_watched, *vs_watched_end;
static struct vs_watched *spare; /* the first that has no address, by `size` */

static struct leaf *leaf_of(uint64_t number)
{
    if (number >> (ADDRESS_BITS - ENTRY_BITS) != 0)
        return NULL;
    /* acquire: pairs with have_leaves */
    return atomic_load_explicit(&leaves[number >> LEAF_BITS], memory_order_acquire);
}

static struct entry *entry_of(uint64_t number)
{
    struct leaf *leaf = leaf_of(number);
    return leaf != NULL ? &leaf->entry[number & ((1u << LEAF_BITS) - 1)] : NULL;
}

static uint32_t block_of(uint64_t number)
{
    struct entry *e = entry_of(number);
    /* relaxed: who is given an address learnt of it after its block was added */
    return e != NULL ? atomic_load_explicit(&e->block, memory_order_relaxed) : 0;
}

bool vs_watched_near(uint64_t address)
{
    uint64_t number = address >> ENTRY_BITS;
    return block_of(number) != 0 || (number != 0 && block_of(number - 1) != 0);
}

/* The block of the entry, if it has any of the bytes FROM to LAST. */
static struct vs_watched *within(uint64_t number, uint64_t from, uint64_t last)
{
    uint32_t block = block_of(number);
    struct vs_watched *w = block != 0 ? &vs_watched[block - 1] : NULL;
    return w != NULL && w->address <= last && w->address + w->size > from ? w : NULL;
}

struct vs_watched *vs_watched_at(uint64_t address, uint64_t size)
{
    uint64_t end = (1ull << ADDRESS_BITS) - 1, last = address + (size != 0 ? size - 1 : 0);
    last = last < address || last > end ? end : last; /* as wild as programs' arguments are */
    uint64_t number = last >> ENTRY_BITS;
    struct vs_watched *w = within(number, address, last);
    while (w == NULL && number != 0 && number >= address >> ENTRY_BITS) {
        bool none = leaf_of(number) == NULL && number >> LEAF_BITS != 0;
        number = none ? (number >> LEAF_BITS << LEAF_BITS) - 1 : number - 1;
        w = within(number, address, last);
    }
    return w;
}

static bool have_leaves(uint64_t first, uint64_t end)
{
    for (uint64_t i = first >> LEAF_BITS; i <= (end - 1) >> LEAF_BITS; i++) {
        struct leaf *leaf = atomic_load_explicit(&leaves[i], memory_order_relaxed);
        if (leaf == NULL && (leaf = vs_map(sizeof *leaf)) == NULL)
            return false;
        atomic_store_explicit(&leaves[i], leaf, memory_order_release);
    }
    return true;
}

static void set(const struct vs_watched *w, uint32_t block)
{
    for (uint64_t i = w->address >> ENTRY_BITS; i < (w->address + w->size) >> ENTRY_BITS; i++)
        atomic_store_explicit(&entry_of(i)->block, block, memory_order_relaxed);
}

static struct vs_watched *take_spare(void)
{
    struct vs_watched *w = spare;
    size_t ranked = VS_RANKINGS * sizeof(struct vs_ranked);
    if (vs_watched == NULL &&
        (vs_watched = vs_watched_end = vs_map(MOST * (sizeof *vs_watched + ranked))) != NULL)
        vs_rankings_place((struct vs_ranked *)(vs_watched + MOST), MOST);
    if (w != NULL)
        spare = (struct vs_watched *)(uintptr_t)w->size;
    else if (vs_watched != NULL && vs_watched_end < vs_watched + MOST)
        w = vs_watched_end++;
    return w;
}

struct vs_watched *vs_watched_add(const struct vs_watched *block)
{
    struct vs_watched *w = vs_watched_at(block->address, 0);
    uint64_t end = block->address + block->size;
    if (w != NULL)
        return w;
    if (end >> ADDRESS_BITS != 0 || !have_leaves(block->address >> ENTRY_BITS, (end >> ENTRY_BITS) + 1) ||
        (w = take_spare()) == NULL)
        return NULL;
    *w = *block;
    set(w, (uint32_t)(w - vs_watched) + 1);
    return w;
}

void vs_watched_remove(struct vs_watched *w)
{
    set(w, 0);
    *w = (struct vs_watched){.size = (uintptr_t)spare};
    spare = w;
}

struct vs_ranking *vs_watched_wanted(uint64_t room)
{
    struct vs_ranking *wanted = vs_ranking_begin();
    if (room != 0)
        VS_WATCHED_EACH(w)
    if (w->parked && !w->freed && w->size <= room)
        vs_ranking_add(wanted, (struct vs_ranked){w->order, 0, w});
    return wanted;
}

uint32_t *vs_watched_kept(uint64_t address)
{
    struct entry *e = entry_of(address >> ENTRY_BITS);
    return e != NULL ? &e->kept : NULL;
}

/* ---- what a work was given ---- */

#define AT_ONCE 64u /* works; an entry that another takes is lost */
#define GIVEN   32u

static struct given {
    uint64_t work;
    uint32_t count;
    uint64_t at[GIVEN];
} given[AT_ONCE];

void vs_watched_given(uint64_t work, uint64_t address)
{
    struct given *g = &given[work % AT_ONCE];
    if (g->work != work)
        *g = (struct given){.work = work};
    if (g->count++ < GIVEN)
        g->at[g->count - 1] = address;
}

bool vs_watched_knows(uint64_t work)
{
    const struct given *g = &given[work % AT_ONCE];
    return g->work == work && g->count <= GIVEN;
}

void vs_watched_renew(uint64_t work, uint64_t now)
{
    struct given g = given[work % AT_ONCE];
    g.work = now;
    given[now % AT_ONCE] = g;
    for (uint32_t i = 0; i < g.count; i++) {
        struct vs_watched *w = vs_watched_at(g.at[i], 0);
        if (w != NULL)
            w->work = now;
    }
}
