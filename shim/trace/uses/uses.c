/*
 * uses.c - blocks are born and die, and what the device is given in between is written into their rows.
 *
 * Every word that lies inside a living block counts as a use of it.  A word need not be a pointer: uses may
 * be recorded that did not happen, but no true use by such a word is missed.
 */
#include "uses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "living.h"

struct ended { /* a block whose free is not committed, when this began */
    uint32_t seq, row;
};

struct vs_uses {
    struct vs_journal *journal;
    struct vs_access_row *rows; /* row 0 */
    struct vs_living blocks, allocations;
    VS_LIST(struct ended, ended);
    uint64_t begun;    /* the last event that the rows contained when this began */
    uint64_t doubt_to; /* of blocks born before this sequence a use may be missing */
};

/* A use, as it is applied. */
struct use {
    uint64_t now;
    uint32_t name, phase;
    uint16_t kinds;
    uint8_t phases;
    bool sure;
};

/* ---- a continued journal ---- */

static struct vs_living *map_of(struct vs_uses *u, bool is_block)
{
    return is_block ? &u->blocks : &u->allocations;
}

/* Whether the lower half A of a sequence is behind B; both are less than half of that apart. */
static bool behind(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

static bool take_up(struct vs_uses *u, uint32_t id, uint64_t committed)
{
    const struct vs_access_row *row = &u->rows[id];
    uint64_t no_memory = 0;
    bool added;
    if (row->address == 0)
        return true;
    if (row->end_step != 0 && !behind(row->end_seq, (uint32_t)committed)) {
        vs_journal_access_give(u->journal, id);
    } else if (row->end_step != 0) {
        struct ended e = {row->end_seq, id};
        vs_list_push(&u->ended, no_memory, e);
    } else if (row->end > row->address) {
        vs_living_add(map_of(u, row->is_block), row->address, row->end - row->address, id, &added);
        return added;
    }
    return no_memory == 0;
}

int vs_uses_open(struct vs_uses **out, struct vs_journal *j, uint64_t committed)
{
    struct vs_journal_stats stats;
    *out = NULL;
    if (vs_journal_access(j, 1) == NULL)
        return 0;
    struct vs_uses *u = calloc(1, sizeof *u);
    if (u == NULL)
        return -ENOMEM;
    u->journal = j;
    u->rows = vs_journal_access_state(j);
    u->begun = u->rows->last_ns;
    if (u->rows->last_step == 0)
        u->rows->last_step = 1;
    for (uint32_t id = 1; id < vs_journal_access_rows(j); id++)
        if (!take_up(u, id, committed)) {
            vs_uses_free(u);
            return -ENOMEM;
        }
    vs_journal_stats(j, &stats);
    if (__atomic_load_n(&u->rows->uses, __ATOMIC_ACQUIRE) != 0) /* which blocks those missed is not known */
        u->doubt_to = stats.head;
    *out = u;
    return 0;
}

void vs_uses_free(struct vs_uses *u)
{
    if (u == NULL)
        return;
    vs_living_reset(&u->blocks);
    vs_living_reset(&u->allocations);
    free(u->ended.at);
    free(u);
}

/* ---- blocks ---- */

static void born(struct vs_uses *u, const struct vs_event *e, uint64_t seq)
{
    uint32_t id = vs_journal_access_take(u->journal);
    if (id == 0)
        return;
    struct vs_access_row *row = &u->rows[id];
    bool added;
    memset(row, 0, offsetof(struct vs_access_row, next));
    row->end = e->address + e->size;
    row->is_block = e->op == VS_OP_BLOCK_ALLOC;
    row->born_ns = e->t_ns;
    row->born_step = u->rows->last_step;
    row->reach = u->rows->reach;
    if (e->space == VS_SPACE_MANAGED) /* the CPU uses it too, which is not seen */
        row->kinds = VS_ACCESS_REACHABLE;
    if (seq < u->doubt_to)
        row->kinds |= VS_ACCESS_PARTIAL;
    row->address = e->address;
    uint32_t old = vs_living_add(map_of(u, row->is_block), e->address, e->size, id, &added);
    if (old != 0)
        vs_journal_access_give(u->journal, old);
    if (!added)
        vs_journal_access_give(u->journal, id);
}

/* The row of a block that was ended by SEQ before this began. */
static uint32_t ended_by(const struct vs_uses *u, uint64_t seq)
{
    /* Of the event behind the last one everything may be written but that it is. */
    for (size_t i = 0; i < u->ended.n && seq <= u->begun + 1; i++)
        if (u->ended.at[i].seq == (uint32_t)seq)
            return u->ended.at[i].row;
    return 0;
}

static uint32_t died(struct vs_uses *u, const struct vs_event *e, uint64_t seq)
{
    struct vs_living *map = map_of(u, e->op == VS_OP_BLOCK_FREE);
    uint32_t id = vs_living_at(map, e->address);
    struct vs_access_row *row = &u->rows[id];
    if (id == 0 || row->address != e->address)
        return 0;
    vs_living_remove(map, row->address, row->end - row->address, id);
    if (row->reach != u->rows->reach)
        row->kinds |= VS_ACCESS_REACHABLE;
    row->end_seq = (uint32_t)seq;
    row->end_step = u->rows->last_step;
    return id;
}

/* ---- uses ---- */

static void use_row(struct vs_access_row *row, const struct use *use, uint32_t step)
{
    uint64_t last = row->last_ns;
    if (use->sure) {
        row->sure_phases |= use->phases;
        if (row->sure_last_ns == 0)
            row->sure_first_ns = use->now;
        if (row->sure_last_ns < use->now)
            row->sure_last_ns = use->now;
    }
    row->kinds |= use->kinds;
    if (last == use->now && row->last_name == use->name) /* another word of the same work */
        return;
    if (row->uses == 0) {
        row->first_ns = use->now;
        row->first_name = use->name;
        row->first_phase = use->phase;
        row->first_step = step;
    } else if (use->now > last && use->now - last > row->gap_ns) {
        row->gap_ns = use->now - last;
        row->gap_end_ns = use->now;
    }
    if (row->last_step != step) {
        row->last_step = step;
        row->steps++;
    }
    if (use->now >= last) {
        row->last_ns = use->now;
        row->last_name = use->name;
        row->last_phase = use->phase;
    }
    row->uses += row->uses != UINT32_MAX;
    row->phases |= use->phases & 0x7f;
}

static struct vs_access_row *look(const struct vs_uses *u, struct vs_living *map, uint64_t address)
{
    uint32_t id = vs_living_find(map, address);
    struct vs_access_row *row = &u->rows[id];
    return id != 0 && address >= row->address && address < row->end ? row : NULL;
}

/* The row of the innermost living block that contains WORD as an address; NULL: none. */
static struct vs_access_row *find(struct vs_uses *u, uint64_t word)
{
    struct vs_access_row *row = look(u, &u->blocks, word);
    return row != NULL ? row : look(u, &u->allocations, word);
}

bool vs_uses_reached(struct vs_uses *u, uint64_t address)
{
    const struct vs_access_row *row = find(u, address);
    return row == NULL || row->address != address || row->kinds & (VS_ACCESS_STORED | VS_ACCESS_PARTIAL);
}

static void use_word(struct vs_uses *u, struct use *use, uint64_t word)
{
    struct vs_access_row *row = word != 0 ? find(u, word & ~VS_USE_SURE) : NULL;
    use->sure = word & VS_USE_SURE;
    if (row != NULL)
        use_row(row, use, u->rows->last_step);
}

static void use_words(struct vs_uses *u, struct use *use, const uint64_t *word)
{
    for (uint32_t i = 0; i < VS_USE_SLOT_WORDS; i++)
        use_word(u, use, word[i]);
}

static void use_near(struct vs_uses *u, struct use *use, const uint64_t *word, uint16_t base)
{
    for (uint32_t i = 0; i < VS_USE_SLOT_WORDS; i++) {
        use_word(u, use, vs_near_word((uint32_t)word[i], base));
        use_word(u, use, vs_near_word((uint32_t)(word[i] >> 32), base));
    }
}

/* SIZE bytes from ADDRESS on, which may be several blocks. */
static void use_memory(struct vs_uses *u, const struct use *use, uint64_t address, uint64_t size)
{
    while (address != 0) {
        struct vs_access_row *row = find(u, address);
        if (row == NULL)
            return;
        use_row(row, use, u->rows->last_step);
        uint64_t end = row->end, left = end - address;
        if (end <= address || left >= size)
            return;
        address = end;
        size -= left;
    }
}

/* Whatever the call's name says, a side outside of all blocks is the host's. */
static void use_copy(struct vs_uses *u, struct use *use, uint64_t to, uint64_t from, uint64_t size)
{
    uint16_t kinds = use->kinds;
    if ((find(u, to) == NULL) != (find(u, from) == NULL))
        kinds |= VS_ACCESS_HOST;
    use->kinds = kinds | VS_ACCESS_COPY_FROM;
    use_memory(u, use, from, size);
    use->kinds = kinds | VS_ACCESS_COPY_TO;
    use_memory(u, use, to, size);
}

static void stored(struct vs_uses *u, const uint64_t *word)
{
    for (uint32_t i = 0; i < VS_USE_SLOT_WORDS; i++) {
        struct vs_access_row *row = word[i] != 0 ? find(u, word[i]) : NULL;
        if (row != NULL)
            row->kinds |= VS_ACCESS_STORED;
    }
}

static void used(struct vs_uses *u, const struct vs_event *e)
{
    const uint64_t word[VS_USE_SLOT_WORDS] = {e->address, e->size, e->arg0, e->arg1};
    struct use use = {e->t_ns, e->stack, e->range, e->status, e->space, true};
    switch (e->device) {
    case VS_USE_WORDS:
        use_words(u, &use, word);
        break;
    case VS_USE_NEAR:
        use_near(u, &use, word, e->thread);
        break;
    case VS_USE_MEMORY:
        use_memory(u, &use, e->address, e->size);
        break;
    case VS_USE_COPY:
        use_copy(u, &use, e->address, e->size, e->arg0);
        break;
    case VS_USE_STORED:
        stored(u, word);
        break;
    case VS_USE_REACHING:
        u->rows->reach++;
        break;
    }
}

/* ---- events ---- */

/* Acquire, pairs with the journal's count: a use that was lost before a free that has been taken out is seen
 * here before that free is applied. */
void vs_uses_missing(struct vs_uses *u, uint64_t head)
{
    uint32_t lost = __atomic_load_n(&u->rows->uses, __ATOMIC_ACQUIRE);
    if (lost == u->rows->steps)
        return;
    for (uint32_t id = 1; id < vs_journal_access_rows(u->journal); id++)
        if (u->rows[id].address != 0 && u->rows[id].end_step == 0)
            u->rows[id].kinds |= VS_ACCESS_PARTIAL;
    u->doubt_to = head;
    u->rows->steps = lost;
}

void vs_uses_apply(struct vs_uses *u, struct vs_event *e, uint64_t seq)
{
    bool ends = e->op == VS_OP_FREE || e->op == VS_OP_BLOCK_FREE;
    if (ends)
        e->stack = ended_by(u, seq);
    if (seq <= u->rows->last_ns)
        return;
    if (ends)
        e->stack = e->stack ? e->stack : died(u, e, seq);
    else if (e->op == VS_OP_USE)
        used(u, e);
    else if (vs_uses_born(e))
        born(u, e, seq);
    else if (e->op == VS_OP_STEP)
        u->rows->last_step += (uint32_t)e->arg0 + 1;
    /* Behind everything that the event changed. */
    __atomic_store_n(&u->rows->last_ns, seq, __ATOMIC_RELEASE);
}
