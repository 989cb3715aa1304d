/*
 * test_arena_model.c - random operations against the reference of arena_kit.h, in runs that draw how many
 * streams there are, how large blocks are, how far the device is behind, what is sent away or parked, and
 * whether calls fail.
 *
 * ARENA_OPERATIONS: how many in all (default 100,000).
 */

#include "unit/test.h"
#include "park_kit.h"

#define BLOCKS 300

struct block {
    uint64_t address, requested, users;
    uint32_t queue, pins;
    uint32_t stream;
    bool live, pinned, left, parked, ordered;
};

struct ways {
    uint32_t streams, large, percent_free;
    uint64_t capacity;
    bool defers, pins, shares, trims, captures, retires, privates, sends, parks;
};

struct trial {
    struct kit kit;
    struct ways w;
    struct block block[BLOCKS];
    uint32_t queue[KIT_STREAMS]; /* of a stream; 0: none */
    uint32_t place[16], streams; /* the streams that are there now; how many there ever were */
    bool private[VS_ARENA_QUEUES];
    uint64_t allocated, ordered, high_ordered;
    uint64_t refused, served, sent, fetched, parked, unparked;
};

static uint32_t rnd(struct trial *r, uint32_t below)
{
    return kit_random(&r->kit, below);
}

static uint64_t random_size(struct trial *r)
{
    switch (rnd(r, 8)) {
    case 0:
        return 1 + rnd(r, 1024);
    case 1:
    case 2:
        return 1 + rnd(r, 3 * KIT_CHUNK);
    case 3:
        return KIT_CHUNK * (1 + rnd(r, 6));
    case 4:
        return (1 + rnd(r, 4)) * 3 * VS_ARENA_UNIT; /* few sizes, met again */
    default:
        return 1 + rnd(r, r->w.large * KIT_CHUNK);
    }
}

static uint32_t pick_stream(struct trial *r)
{
    uint32_t s = r->place[rnd(r, r->w.streams + 1)];
    if (s && !r->queue[s]) {
        unsigned flags = r->w.privates && rnd(r, 4) == 0 ? 1 + rnd(r, 3) : 0;
        if (vs_arena_open_queue(r->kit.arena, s, flags, &r->queue[s]) != 0)
            return 0;
    }
    return s;
}

static void check_found(struct trial *r, const struct block *b)
{
    struct vs_arena_block found;
    uint64_t inside = b->address + rnd(r, (uint32_t)(b->requested ? b->requested : 1));
    KIT_CHECK(b->requested == 0 || vs_arena_find(r->kit.arena, inside, &found));
    KIT_CHECK(b->requested == 0 ||
              (found.address == b->address && found.size == b->requested && found.queue == b->queue));
}

static void allocate(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    uint32_t s = pick_stream(r);
    uint64_t size = random_size(r), faults = r->kit.faults_seen;
    r->kit.faults_seen = false;
    bool ordered = size % 3 == 0;
    int status =
        vs_arena_malloc_as(r->kit.arena, r->queue[s], ordered ? VS_MALLOC_ORDERED : 0, size, &b->address);
    bool fault = r->kit.faults_seen;
    r->kit.faults_seen |= faults;
    KIT_CHECK((status == VS_BACKING_NOT_READY && !fault) <= vs_arena_closed(r->kit.arena));
    if (vs_arena_closed(r->kit.arena)) {
        KIT_CHECK(status == VS_BACKING_NOT_READY && !fault);
        return;
    }
    if (status != 0) {
        KIT_CHECK(fault || r->kit.unmap_failed || status == VS_BACKING_OUT_OF_MEMORY);
        if (!r->kit.faults_seen && !r->kit.capturing && !r->w.privates) /* then the device is full indeed */
            KIT_CHECK(chunks_for(r->kit.arena, size) > r->kit.capacity - r->kit.chunks);
        r->refused++;
        return;
    }
    r->served++;
    *b = (struct block){.address = b->address,
                        .requested = size,
                        .users = 1ull << s,
                        .queue = r->queue[s],
                        .stream = s,
                        .live = true,
                        .ordered = ordered};
    r->allocated += kit_rounded(size);
    r->ordered += ordered ? kit_rounded(size) : 0;
    r->high_ordered = r->ordered > r->high_ordered ? r->ordered : r->high_ordered;
    kit_own(&r->kit, b->address, kit_rounded(size), i, s);
    check_found(r, b);
}

static void release(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    unsigned flags = r->w.defers && rnd(r, 6) == 0 ? VS_FREE_DEFER | (rnd(r, 2) ? VS_FREE_NO_WAIT : 0) : 0;
    uint32_t s = r->w.shares && rnd(r, 10) == 0 ? r->place[rnd(r, r->w.streams + 1)] : b->stream;
    if (s && !r->queue[s])
        s = b->stream;
    if (s && !r->queue[s]) { /* its stream has ended */
        s = 0;
        flags = VS_FREE_DEFER;
    }
    uint64_t users = b->users | 1ull << s;
    if (!flags)
        users &= ~1ull; /* whoever frees without a stream has waited for what has none */
    kit_disown(&r->kit, b->address, kit_rounded(b->requested), i, users, flags != 0);
    if (b->pinned || b->left)
        kit_hold(&r->kit, b->address, kit_rounded(b->requested), i + 1);
    r->allocated -= kit_rounded(b->requested);
    r->ordered -= b->ordered ? kit_rounded(b->requested) : 0;
    struct vs_arena_block was;
    KIT_CHECK(b->requested == 0 ||
              (vs_arena_find(r->kit.arena, b->address, &was) && was.address == b->address &&
               was.size == b->requested && (was.pins != 0) == (b->pinned || b->left)));
    KIT_CHECK(vs_arena_free(r->kit.arena, b->address, r->queue[s], flags) == 0);
    b->live = false;
}

static void unpin(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    b->pinned = false;
    if (!b->live)
        kit_hold(&r->kit, b->address, kit_rounded(b->requested), 0);
    KIT_CHECK(vs_arena_unpin(r->kit.arena, b->address) == 0);
}

/* A free that is not told of a block: refused, whatever the address. */
static void release_wrongly(struct trial *r, uint32_t i)
{
    struct vs_arena_block found;
    uint64_t address = r->block[i].address + rnd(r, 3) * VS_ARENA_UNIT;
    bool begins = vs_arena_find(r->kit.arena, address, &found) && found.address == address;
    for (uint32_t j = 0; j < BLOCKS; j++) /* one of no bytes is found nowhere */
        begins = begins || (r->block[j].live && r->block[j].address == address);
    if (!begins)
        KIT_CHECK(vs_arena_free(r->kit.arena, address, 0, 0) == VS_BACKING_INVALID);
}

static void share(struct trial *r, uint32_t i)
{
    uint32_t s = r->place[rnd(r, r->w.streams + 1)];
    if (!r->block[i].live || !s || !r->queue[s])
        return;
    KIT_CHECK(vs_arena_use(r->kit.arena, r->block[i].address, r->queue[s]) == 0);
    r->block[i].users |= 1ull << s;
}

/* A pinned block stays somebody's after its free. */
static void pin(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    if (!b->pinned && b->live) {
        bool can = !b->left && !vs_arena_closed(r->kit.arena);
        KIT_CHECK((vs_arena_pin(r->kit.arena, b->address) == 0) == can);
        b->pinned = can;
    } else if (b->pinned && rnd(r, 4) == 0) {
        unpin(r, i);
    }
}

/* ---- away ---- */

static int send(struct trial *r, int status)
{
    KIT_CHECK(status == 0 || r->kit.faults_seen);
    r->sent += status == 0;
    return status;
}

static int fetch(struct trial *r, int status)
{
    KIT_CHECK(status == 0 || r->kit.faults_seen || status == VS_BACKING_OUT_OF_MEMORY);
    r->fetched += status == 0;
    return status;
}

static bool any_held(const struct trial *r)
{
    bool any = false;
    for (uint32_t i = 0; i < BLOCKS; i++)
        any = any || r->block[i].pinned || r->block[i].left;
    return any;
}

static void close_arena(struct trial *r)
{
    kit_wait(&r->kit);
    int status = vs_arena_close(r->kit.arena);
    bool held = any_held(r);
    if (status == 0 || !(r->kit.capturing || r->kit.faults_seen))
        KIT_CHECK(status == (held ? VS_BACKING_INVALID : 0));
}

/* All or some of it goes, or comes, or it is opened. */
static void change_closed(struct trial *r)
{
    struct vs_arena *a = r->kit.arena;
    uint64_t longest = KIT_CHUNK << rnd(r, 6), at = rnd(r, a->primary_slots);
    struct vs_arena_run run;
    uint32_t what = rnd(r, 4), count = what < 2 ? vs_arena_all_runs(a, &at, longest, &run, 1) : 0;
    if (count)
        what ? send(r, kit_send(&r->kit, run)) : fetch(r, kit_fetch(&r->kit, run));
    if (what == 2)
        send(r, kit_change_all(&r->kit, longest, kit_send));
    if (what == 3)
        fetch(r, kit_change_all(&r->kit, longest, kit_fetch));
    if (what == 3)
        KIT_CHECK((vs_arena_open(a) == 0) == (a->stats.away == 0));
}

static void park(struct trial *r, struct block *b)
{
    uint32_t s = pick_stream(r);
    if (kit_can_park(&r->kit, b->address, b->requested)) {
        KIT_CHECK(kit_park(&r->kit, b->address, r->queue[s]) == 0);
        b->parked = true;
        r->parked++;
    } else {
        KIT_CHECK(vs_arena_park(r->kit.arena, b->address, r->queue[s]) == VS_BACKING_INVALID);
    }
}

static bool unpark(struct trial *r, struct block *b)
{
    uint32_t s = pick_stream(r);
    int status = kit_unpark(&r->kit, b->address, r->queue[s], b->users);
    bool broken = status == VS_BACKING_INVALID && r->kit.arena->stats.lost;
    KIT_CHECK(status == 0 || broken || r->kit.faults_seen || status == VS_BACKING_OUT_OF_MEMORY ||
              (status == VS_BACKING_NOT_READY && r->kit.capturing));
    if (status == 0)
        kit_copied(&r->kit, b->address, kit_rounded(b->requested), b->live, b->stream, s);
    b->parked = status != 0;
    r->unparked += status == 0;
    return status == 0;
}

static bool is_back(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    if (b->parked && !unpark(r, b))
        return false;
    if (fetch(r, kit_change_block(&r->kit, b->address, kit_fetch)) != 0)
        return false;
    if (!b->live)
        kit_hold(&r->kit, b->address, kit_rounded(b->requested), 0);
    KIT_CHECK(vs_arena_return(r->kit.arena, b->address) == 0);
    b->left = false;
    return true;
}

static void change_block(struct trial *r, uint32_t i)
{
    struct block *b = &r->block[i];
    uint32_t what = !r->w.sends ? 4 + rnd(r, 4) : rnd(r, r->w.parks ? 8 : 4);
    r->kit.longest = KIT_CHUNK << rnd(r, 6);
    if (!b->left && b->live) {
        bool left = vs_arena_leave(r->kit.arena, b->address, b->requested) == 0;
        KIT_CHECK(left == !b->pinned);
        b->left = left;
    }
    if (b->left && what < 2) {
        kit_wait(&r->kit);
        send(r, kit_change_block(&r->kit, b->address, kit_send));
    } else if (b->left && what == 2) {
        fetch(r, kit_change_block(&r->kit, b->address, kit_fetch));
    } else if (b->left && what == 3) {
        is_back(r, i);
    } else if (b->parked) {
        unpark(r, b);
    } else if (b->left) {
        park(r, b);
    }
}

/* Blocks that left are sought out: they are few. */
static void change(struct trial *r, uint32_t i)
{
    for (uint32_t n = rnd(r, 2) * BLOCKS; n && !r->block[i].left; n--)
        i = (i + 1) % BLOCKS;
    if (vs_arena_closed(r->kit.arena))
        change_closed(r);
    else if (r->w.sends && rnd(r, 8) == 0)
        close_arena(r);
    else
        change_block(r, i);
}

static bool any_left_is_back(struct trial *r)
{
    bool any = false;
    vs_arena_trim(r->kit.arena, 0); /* makes room: what is idle may not be known to be done */
    for (uint32_t i = 0; i < BLOCKS; i++)
        any |= r->block[i].left && is_back(r, i);
    return any;
}

/* False: a call that failed earlier left something mapped where a chunk is to come back. */
static bool bring_back(struct trial *r)
{
    bool all = true;
    if (vs_arena_closed(r->kit.arena))
        all = fetch(r, kit_change_all(&r->kit, 4 * KIT_CHUNK, kit_fetch)) == 0 &&
              vs_arena_open(r->kit.arena) == 0;
    while (all && any_left_is_back(r)) /* the memory of one may be what another one needs */
        ;
    for (uint32_t i = 0; i < BLOCKS; i++)
        all = all && !r->block[i].left;
    KIT_CHECK(all || r->kit.unmap_failed || r->kit.arena->stats.lost);
    return all;
}

/* ---- all of them ---- */

static void retire(struct trial *r)
{
    uint32_t at = 1 + rnd(r, r->w.streams), s = r->place[at];
    if (!r->queue[s] || r->streams + 1 == KIT_STREAMS)
        return;
    vs_arena_retire_queue(r->kit.arena, r->queue[s]);
    r->kit.ended[s] = r->kit.freed + 1;
    r->queue[s] = 0; /* of the blocks that it used some stay */
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (r->block[i].live && r->block[i].users >> s & 1 && rnd(r, 2))
            release(r, i);
    r->place[at] = ++r->streams; /* another one, perhaps with its queue */
}

static void check_figures(struct trial *r)
{
    struct vs_arena_stats s;
    vs_arena_stats(r->kit.arena, &s);
    KIT_CHECK(s.allocated == r->allocated && s.reserved <= s.peak_reserved &&
              s.allocated <= s.peak_allocated);
    KIT_CHECK(s.ordered == r->ordered && s.high_ordered == r->high_ordered);
    if (rnd(r, 8) == 0) {
        vs_arena_high_from_now(r->kit.arena, VS_HIGH_ORDERED);
        r->high_ordered = r->ordered;
    }
    KIT_CHECK(s.reserved == r->kit.chunks * KIT_CHUNK || r->kit.faults_seen);
    KIT_CHECK(s.allocated + s.deferred <= s.reserved + s.away + s.parked);
}

static void rare(struct trial *r)
{
    switch (rnd(r, 12)) {
    case 0:
        if (r->w.trims)
            vs_arena_trim(r->kit.arena, rnd(r, 4) * 4 * KIT_CHUNK);
        break;
    case 1:
        kit_wait(&r->kit);
        break;
    case 2:
        r->kit.capturing = r->w.captures && rnd(r, 2);
        break;
    case 3:
        if (r->w.retires)
            retire(r);
        break;
    case 4:
        if (rnd(r, 20) == 0)
            vs_arena_set_peers(r->kit.arena, rnd(r, 8));
        break;
    default:
        check_figures(r);
        break;
    }
}

static void operate(struct trial *r, uint32_t operations)
{
    for (uint32_t n = 0; n < operations; n++) {
        uint32_t i = rnd(r, BLOCKS), what = rnd(r, 100);
        struct block *b = &r->block[i];
        if (what < 2)
            rare(r);
        else if (what < 5 && r->w.shares)
            share(r, i);
        else if (what < 8 && r->w.pins)
            pin(r, i);
        else if (what < 9)
            release_wrongly(r, i);
        else if (what < (r->w.parks ? 20 : 12) && (r->w.sends || r->w.parks))
            change(r, i);
        else if (b->live && rnd(r, 100) < r->w.percent_free)
            release(r, i);
        else if (!b->live && !b->pinned && !b->left)
            allocate(r, i);
        if (n % 512 == 0)
            arena_check(r->kit.arena);
    }
}

static void finish(struct trial *r)
{
    r->kit.capturing = false;
    r->kit.fail_percent = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct block *b = &r->block[i];
        if (b->live)
            release(r, i);
        if (b->pinned)
            unpin(r, i);
    }
    check_figures(r);
    for (uint32_t s = 1; s <= r->streams; s++)
        if (r->queue[s]) {
            vs_arena_retire_queue(r->kit.arena, r->queue[s]);
            r->kit.ended[s] = r->kit.freed + 1;
        }
    r->w.streams = 0; /* what is parked has no stream to be copied by */
    if (!bring_back(r)) {
        kit_end(&r->kit);
        return;
    }
    KIT_CHECK(vs_arena_trim(r->kit.arena, 0) == 0);
    arena_check(r->kit.arena);
    struct vs_arena_stats s;
    vs_arena_stats(r->kit.arena, &s);
    KIT_CHECK(s.allocated == 0 && s.deferred == 0 && s.blocks == 0);
    KIT_CHECK(s.reserved == 0 || r->kit.unmap_failed);
    kit_end(&r->kit);
}

static struct ways draw(uint32_t seed, uint64_t random)
{
    struct ways w = {.streams = seed % 4 == 0   ? 0
                                : seed % 4 == 1 ? 1
                                : seed % 4 == 2 ? 3
                                                : 9,
                     .large = 2 + random % 12,
                     .percent_free = 40 + random / 16 % 50,
                     .capacity = 20 + random / 1024 % 380};
    w.defers = random >> 20 & 1;
    w.pins = random >> 21 & 1;
    w.shares = random >> 22 & 1;
    w.trims = random >> 23 & 1;
    w.captures = random >> 24 & 1;
    w.privates = random >> 26 & 1;
    w.sends = random >> 27 & 1;
    w.parks = random >> 28 & 1;
    w.retires = w.streams && random >> 25 & 1;
    return w;
}

static uint64_t operations(void)
{
    const char *given = getenv("ARENA_OPERATIONS");
    return given ? strtoull(given, NULL, 0) : 100000;
}

static void random_runs(int percent_faults)
{
    static struct trial r;
    uint64_t served = 0, refused = 0, aliases = 0, stream_waits = 0, sent = 0, fetched = 0, parked = 0,
             unparked = 0, replaced = 0, runs = operations() / 10000;
    for (uint32_t seed = 0; seed < runs; seed++) {
        uint64_t random = (seed + 1) * 0x9e3779b97f4a7c15ull;
        random ^= random >> 31;
        struct vs_arena_config c = {.record_bytes = random >> 40 & 1 ? 1 : 4 * KIT_CHUNK,
                                    .trim_above = random >> 41 & 1 ? 20 * KIT_CHUNK : 0,
                                    .trim_window = 32,
                                    .keep_frees = random >> 50 & 1 ? 1 + random % 100 : 0,
                                    .no_stream_waits = (random >> 51 & 7) == 0,
                                    .single = (random >> 54 & 3) == 0,
                                    .max_mappings = random >> 42 & 1 ? 600 : 0};
        memset((char *)&r + sizeof r.kit, 0, sizeof r - sizeof r.kit);
        r.w = draw(seed, random);
        for (r.streams = 0; r.streams < r.w.streams; r.streams++)
            r.place[r.streams + 1] = r.streams + 1;
        kit_begin(&r.kit, r.w.capacity, &c);
        r.kit.random = random;
        r.kit.lag = (int)(random >> 43) % 100;
        r.kit.fail_percent = percent_faults;
        operate(&r, 10000);
        struct vs_arena_stats s;
        vs_arena_stats(r.kit.arena, &s);
        served += r.served, refused += r.refused, aliases += s.aliased, stream_waits += s.stream_waits;
        replaced += s.replaced;
        finish(&r);
        sent += r.sent, fetched += r.fetched, parked += r.parked, unparked += r.unparked;
    }
    printf("%llu served, %llu refused, %llu aliased, %llu waits, %llu sent, %llu fetched\n",
           (unsigned long long)served, (unsigned long long)refused, (unsigned long long)aliases,
           (unsigned long long)stream_waits, (unsigned long long)sent, (unsigned long long)fetched);
    printf("%llu parked, %llu unparked, %llu chunks replaced\n", (unsigned long long)parked,
           (unsigned long long)unparked, (unsigned long long)replaced);
    assert_true(runs == 0 || (served > 0 && aliases > 0 && sent > 0 && fetched > 0));
    assert_true(runs == 0 || (parked > 0 && unparked > 0 && replaced > 0));
}

TEST(blocks_never_overlap_and_are_never_reused_too_early)
{
    random_runs(0);
}

TEST(calls_that_fail_leave_the_arena_consistent)
{
    random_runs(20);
}
