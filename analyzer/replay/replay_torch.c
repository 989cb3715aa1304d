/*
 * replay_torch.c - a tape through the simulated PyTorch allocator, and how far both agree.
 *
 * What the recorded allocator asked of the driver stands in a tape of the same policy before the request that
 * needed it:
 *
 *      SEGMENT_ALLOC 0x7f..., 20 MiB    asked: the simulation must ask for 20 MiB too, and gets that address
 *      ALLOC         0x7f...            same:  it must hand out that address
 *
 * Segments go back to make room for a request, by garbage collection, by empty_cache(), or as a private pool
 * ends.  A recording of `run` has the driver's refusals, the limit and the calls.  In others the cause shows
 * in what comes next: if a cached block serves the next request, or a free follows, it was empty_cache();
 * else the driver had refused.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "addresses.h"
#include "replay.h"
#include "read/tape.h"

#define TOP     (UINT64_C(1) << 60) /* addresses that the tape does not say lie below, and above */
#define MADE_UP (UINT64_C(1) << 48) /* all that a driver gives */

struct replay {
    const struct trace_tape *tape;
    struct torch torch;
    struct replay_result *r;
    uint32_t *blocks;    /* by id */
    uint64_t live, held; /* held: blocks, which may be larger than what was asked for */
    uint32_t roundup;
    bool compare;
    bool emptying;                    /* the program called empty_cache(), and what went back comes now */
    uint32_t refuse;                  /* requests of the driver that fail from here on */
    bool *kept;                       /* by stream: of a private pool */
    struct tape_event *asked, *given; /* recorded, and not predicted yet */
    size_t asked_count, given_count;
    struct addresses addresses; /* of segments that were not recorded */
};

int64_t replay_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* a busy machine takes nothing from it */
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* ---- the driver ---- */

static void take(struct tape_event *list, size_t *n, size_t i)
{
    memmove(list + i, list + i + 1, (--*n - i) * sizeof *list);
}

static bool ask_segment(struct replay *p, uint64_t *address, uint64_t size)
{
    for (size_t i = 0; i < p->asked_count; i++) {
        if (p->asked[i].what != TAPE_SEGMENT_ALLOC || p->asked[i].size != size)
            continue;
        *address = p->asked[i].address;
        p->r->segments_same++;
        take(p->asked, &p->asked_count, i);
        return true;
    }
    p->r->segments_more += p->compare;
    *address = addresses_take(&p->addresses, size);
    return true;
}

/* Recorded pieces that lie in the range, which may be several. */
static void match_pieces(struct replay *p, struct tape_event *list, size_t *n, uint8_t what, uint64_t address,
                         uint64_t size)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < *n;) {
        if (list[i].what != what || list[i].address < address || list[i].address - address >= size ||
            list[i].size > size - (list[i].address - address)) {
            i++;
            continue;
        }
        covered += list[i].size;
        p->r->segments_same++;
        take(list, n, i);
    }
    p->r->segments_more += p->compare && covered != size;
}

static bool ask(void *context, enum torch_ask kind, uint64_t *address, uint64_t size)
{
    struct replay *p = context;
    if (kind == TORCH_RESERVE) {
        bool told = p->asked_count && p->asked[0].what == TAPE_MAP;
        *address = told ? p->asked[0].address : addresses_reserve(&p->addresses, size);
        return true;
    }
    if (p->refuse) {
        p->refuse--;
        return false;
    }
    if (kind == TORCH_SEGMENT)
        return ask_segment(p, address, size);
    match_pieces(p, p->asked, &p->asked_count, TAPE_MAP, *address, size);
    return true;
}

static void give(void *context, enum torch_give kind, uint64_t address, uint64_t size)
{
    struct replay *p = context;
    if (kind == TORCH_FREE_SEGMENT && address >= MADE_UP)
        addresses_give(&p->addresses, address, size);
    match_pieces(p, p->given, &p->given_count, kind == TORCH_UNMAP ? TAPE_UNMAP : TAPE_SEGMENT_FREE, address,
                 size);
}

/* ---- events ---- */

static void see_reserved(struct replay *p)
{
    if (p->torch.reserved > p->r->reserved)
        p->r->reserved = p->torch.reserved;
}

/* What the tape says of the driver and the simulation did not predict is behind us. */
static void forget_recorded(struct replay *p)
{
    p->asked_count = p->given_count = 0;
    p->refuse = 0;
    p->emptying = false;
}

static bool is_private(const struct replay *p, uint16_t stream)
{
    return p->tape->private_pool && stream < p->tape->streams && p->tape->private_pool[stream];
}

/* Pools that gave memory back are ones whose memory may go back: nobody holds them any more. */
static bool let_go(struct replay *p, bool may)
{
    bool common = false;
    for (size_t i = 0; i < p->given_count; i++) {
        if (is_private(p, p->given[i].stream))
            p->kept[p->given[i].stream] = !may;
        else
            common = true;
    }
    return common;
}

static void emptied_cache(struct replay *p)
{
    if (!p->given_count)
        return;
    if (let_go(p, true)) {
        torch_empty_cache(&p->torch);
    } else { /* of private pools alone, as one ends */
        for (uint16_t s = 0; s < p->tape->streams; s++)
            if (is_private(p, s) && !p->kept[s])
                torch_return_stream(&p->torch, s);
    }
    for (uint16_t s = 0; s < p->tape->streams; s++)
        p->kept[s] = is_private(p, s);
    p->given_count = 0;
    p->emptying = false;
}

/* Memory went back before this request.  If the tape says what the driver refused, and which limit the
 * allocator had, the simulation finds out by itself whether that was to make room.  If not, it was, unless a
 * cached block serves the request. */
static void find_cause(struct replay *p, const struct tape_event *e)
{
    if (p->given_count && (p->emptying || torch_hits(&p->torch, e->size, e->stream)))
        emptied_cache(p);
    else if (p->given_count && !p->tape->calls_known)
        p->refuse = 1;
    let_go(p, true);
}

static bool allocate(struct replay *p, const struct tape_event *e)
{
    find_cause(p, e);
    uint32_t block = torch_malloc(&p->torch, e->size, e->stream);
    let_go(p, false);
    p->blocks[e->id] = block;
    see_reserved(p);
    forget_recorded(p);
    if (!block)
        return false;
    p->live += e->size;
    p->held += p->torch.blocks[block].size;
    p->r->blocks_most = p->held > p->r->blocks_most ? p->held : p->r->blocks_most;
    p->r->blocks++;
    p->r->blocks_same += p->torch.blocks[block].address == e->address;
    return true;
}

static void ran_out(struct replay *p, const struct tape_event *e)
{
    p->r->ran_out = true;
    p->r->out_at_start = e < p->tape->at + p->tape->start;
    p->r->out_t = e->t;
    p->r->out_size = e->size;
    p->r->out_live = p->live;
    p->r->out_reserved = p->torch.reserved;
}

static void note_driver(struct replay *p, const struct tape_event *e, bool counts)
{
    if (!p->compare) {
        if ((e->what == TAPE_SEGMENT_FREE || e->what == TAPE_UNMAP) && is_private(p, e->stream))
            torch_return_stream(&p->torch, e->stream); /* the pool has ended */
        return;
    }
    p->r->segments += counts;
    if (e->what == TAPE_SEGMENT_ALLOC || e->what == TAPE_MAP)
        *PUSH(p->asked, p->asked_count) = *e;
    else
        *PUSH(p->given, p->given_count) = *e;
}

/* Whether block ID is still what its number says: a retry may have completed it, and the number may be
 * another block's by now. */
static bool is_pending(const struct replay *p, uint32_t id)
{
    const struct torch_block *b = &p->torch.blocks[p->blocks[id]];
    return p->blocks[id] && b->pending && b->tag == id;
}

/* False: out of memory. */
static bool play(struct replay *p, const struct tape_event *e)
{
    switch (e->what) {
    case TAPE_ALLOC:
        p->r->events++;
        /* a recorded block is rounded already */
        p->torch.settings.roundup = e->rounded && p->tape->roundup > 1 ? 0 : p->roundup;
        return allocate(p, e);
    case TAPE_FREE:
        emptied_cache(p);
        p->r->events++;
        p->live -= p->blocks[e->id] ? e->size : 0;
        p->held -= p->blocks[e->id] ? p->torch.blocks[p->blocks[e->id]].size : 0;
        if (p->blocks[e->id])
            torch_release(&p->torch, p->blocks[e->id], e->deferred);
        if (p->blocks[e->id] && e->deferred)
            p->torch.blocks[p->blocks[e->id]].tag = e->id;
        break;
    case TAPE_REUSABLE:
        if (is_pending(p, e->id))
            torch_reusable(&p->torch, p->blocks[e->id]);
        break;
    case TAPE_OOM:
        if (p->compare) { /* the recorded allocator gave back what it could, and went on */
            p->torch.pools[torch_is_small(torch_round(&p->torch.settings, e->size))].calls++;
            let_go(p, true);
            torch_empty_cache(&p->torch);
            let_go(p, false);
            forget_recorded(p);
        }
        break;
    case TAPE_REFUSED:
        p->refuse += p->compare;
        break;
    case TAPE_EMPTY_CACHE:
        p->emptying = p->compare;
        if (!p->compare)
            torch_empty_cache(&p->torch);
        break;
    case TAPE_LIMIT:
        if (p->torch.settings.follow_limits)
            p->torch.settings.limit = e->size;
        break;
    default:
        note_driver(p, e, true);
    }
    return true;
}

static void replay(const struct trace_tape *tape, const struct torch_settings *settings,
                   const struct addresses_driver *driver, bool compare, struct replay_result *r)
{
    struct replay p = {.tape = tape, .r = r, .compare = compare, .roundup = settings->roundup};
    size_t from = 0;
    *r = (struct replay_result){.compared = compare};
    p.blocks = xrealloc(NULL, (tape->ids + 1) * sizeof *p.blocks);
    memset(p.blocks, 0, (tape->ids + 1) * sizeof *p.blocks);
    addresses_init(&p.addresses, TOP, driver);
    torch_init(&p.torch, settings, &(struct torch_driver){&p, ask, give});
    p.kept = xrealloc(NULL, (tape->streams + 1) * sizeof *p.kept);
    for (uint32_t s = 0; s <= tape->streams; s++) /* of a tape without streams all is on number 0 */
        p.kept[s] = is_private(&p, (uint16_t)s);
    p.torch.kept = p.kept;
    if (compare) {
        p.live = start_state(&p.torch, tape, p.blocks);
        from = tape->start;
        see_reserved(&p);
    }
    int64_t begin = replay_now();
    for (size_t i = from; i < tape->n && !r->ran_out; i++)
        if (!play(&p, &tape->at[i]))
            ran_out(&p, &tape->at[i]);
    if (!r->ran_out)
        emptied_cache(&p);
    r->ns = replay_now() - begin;
    r->retries = p.torch.retries;
    torch_free(&p.torch);
    free(p.blocks);
    free(p.kept);
    addresses_free(&p.addresses);
    free(p.asked);
    free(p.given);
}

void replay_torch(const struct trace_tape *tape, const struct torch_settings *settings, bool compare,
                  struct replay_result *r)
{
    replay(tape, settings, NULL, compare, r);
}

void replay_torch_at(const struct trace_tape *tape, const struct torch_settings *settings,
                     const struct addresses_driver *driver, struct replay_result *r)
{
    replay(tape, settings, driver, false, r);
}
