/*
 * test_arena_steady.c - long runs: a loop that repeats itself comes to need no call of the driver, what is
 * held stays near what is live, and neither memory nor the books grow with time.
 *
 * ARENA_OPERATIONS: how many random operations (default 400,000, and a tenth under a sanitizer).
 */

#include "unit/test.h"
#include "bench/training_trace.h"
#include "arena/core/backing.h"
#include "arena/core/internal.h"

#define PASSES  6
#define STREAMS 16
#define MIB     (1ull << 20)

#define MOST_CALLS                                                                                           \
    60 /* per 1000 requests and frees whose lengths never repeat: some alias mappings of some 350 chunks */

static struct vs_backing_count count;
static struct vs_arena *arena;
static uint32_t queue[STREAMS];
static bool no_stream_is_known;

static uint64_t random_state = 1;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static void begin(uint64_t lag, const struct vs_arena_config *config)
{
    count = (struct vs_backing_count){.lag = lag};
    struct vs_backing b = vs_backing_of_counters(&count, 2 * MIB);
    memset(queue, 0, sizeof queue);
    assert_int_equal(vs_arena_create(&arena, &b, config), 0);
}

static uint32_t queue_of(int stream)
{
    if (no_stream_is_known)
        return VS_ARENA_ANY;
    if (!queue[stream])
        assert_int_equal(vs_arena_open_queue(arena, (uint64_t)stream, 0, &queue[stream]), 0);
    return queue[stream];
}

static double held_over_live(void)
{
    struct vs_arena_stats s;
    vs_arena_stats(arena, &s);
    return (double)s.peak_reserved / (double)s.peak_allocated;
}

/* ---- loops ---- */

/* LAG: on average; each event is reached earlier or later by chance. */
static void play(const struct trace *t, uint32_t from, uint32_t to, uint64_t lag, uint64_t *address,
                 int *stream)
{
    unsigned flags = no_stream_is_known ? VS_FREE_DEFER : 0;
    for (uint32_t i = from; i < to; i++) {
        const struct trace_event *e = &t->event[i];
        count.now++;
        if (no_stream_is_known)
            count.lag = lag / 2 + rnd((uint32_t)lag + 1);
        if (e->stream >= 0) {
            stream[e->id] = e->stream;
            assert_int_equal(vs_arena_malloc(arena, queue_of(e->stream), e->size, &address[e->id]), 0);
        } else {
            assert_int_equal(vs_arena_free(arena, address[e->id], queue_of(stream[e->id]), flags), 0);
        }
    }
}

/* The calls of each pass. */
static void repeat(const struct trace *t, uint64_t lag, uint64_t calls[PASSES])
{
    uint64_t *address = calloc(t->ids, sizeof *address);
    int *stream = calloc(t->ids, sizeof *stream);
    play(t, 0, t->first, lag, address, stream);
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t before = count.calls;
        play(t, t->first, t->count, lag, address, stream);
        calls[pass] = count.calls - before;
    }
    free(address);
    free(stream);
}

static void repeats_without_a_call(uint32_t streams, uint64_t lag, double most)
{
    struct trace t = training_trace(&(struct training){streams, 33, 8, 4096, 11008, 32000, 0, 0});
    struct vs_arena_config config = {.capacity = 128ull << 30};
    uint64_t calls[PASSES];
    begin(lag, &config);
    repeat(&t, lag, calls);
    printf("%u streams, %u events, %llu behind: R %.4f, calls", streams, t.count, (unsigned long long)lag,
           held_over_live());
    for (int pass = 0; pass < PASSES; pass++)
        printf(" %llu", (unsigned long long)calls[pass]);
    printf("\n");
    assert_true(calls[0] > 0);
    for (int pass = 3; pass < PASSES; pass++)
        assert_int_equal(calls[pass], 0);
    assert_true(held_over_live() <= most);
    vs_arena_destroy(arena);
    free(t.event);
}

TEST(a_training_loop_comes_to_need_no_call_and_wastes_little)
{
    repeats_without_a_call(1, 0, 1.015);
    repeats_without_a_call(1, 100, 1.015);
}

TEST(so_does_one_on_ten_streams)
{
    repeats_without_a_call(10, 0, 1.04);
    repeats_without_a_call(10, 20, 1.04);
    repeats_without_a_call(10, 100, 1.04);
}

TEST(so_does_one_whose_frees_are_deferred_whenever_the_device_is_done)
{
    no_stream_is_known = true;
    repeats_without_a_call(1, 0, 1.03);
    repeats_without_a_call(1, 40, 1.03);
    repeats_without_a_call(1, 400, 1.03);
    no_stream_is_known = false;
}

/* Two micro-batches a step, each of a length of its own: what is mapped anew becomes little. */
TEST(lengths_that_never_repeat_come_to_need_few_calls)
{
    struct trace t = training_trace(&(struct training){1, 80, 10, 1536, 4096, 32000, 400, 6000});
    struct vs_arena_config config = {.capacity = 128ull << 30};
    uint64_t *address = calloc(t.ids, sizeof *address);
    int *stream = calloc(t.ids, sizeof *stream);
    begin(0, &config);
    play(&t, 0, t.count / 2, 0, address, stream);
    uint64_t before = count.calls;
    play(&t, t.count / 2, t.count, 0, address, stream);
    double calls = 1000.0 * (double)(count.calls - before) / (t.count - t.count / 2);
    printf("lengths that never repeat: R %.4f, %.1f calls per 1000 events\n", held_over_live(), calls);
    assert_true(held_over_live() <= 1.015);
    assert_true(calls <= MOST_CALLS);
    vs_arena_destroy(arena);
    free(address);
    free(stream);
    free(t.event);
}

/* ---- events ---- */

static void free_in_turn(uint32_t turns, uint64_t size)
{
    uint64_t address;
    for (uint32_t i = 0; i < turns; i++) {
        assert_int_equal(vs_arena_malloc(arena, queue_of(1), size, &address), 0);
        assert_int_equal(vs_arena_free(arena, address, queue_of(1), 0), 0);
    }
}

/* Each 32 MiB at first; once nobody has looked at 32 of them each 512 MiB; and again when somebody has. */
TEST(events_that_nobody_looks_at_become_rare)
{
    struct vs_arena_config config = {.capacity = 8ull << 30};
    uint64_t address;
    begin(0, &config);
    assert_int_equal(vs_arena_malloc(arena, queue_of(2), MIB, &address), 0);
    free_in_turn(1, 32 * MIB);
    uint64_t first = count.events;
    free_in_turn(31, 32 * MIB);
    assert_int_equal(count.events, first + 31);
    free_in_turn(16 * 100, 32 * MIB);
    assert_int_equal(count.events, first + 31 + 100);
    assert_int_equal(vs_arena_malloc(arena, queue_of(2), 64 * MIB, &address), 0); /* is short of it */
    uint64_t events = count.events;
    free_in_turn(8, 32 * MIB);
    assert_int_equal(count.events, events + 8);
    vs_arena_destroy(arena);
}

/* Frees so many blocks of a MiB, each deferred until the device is done. */
static uint64_t events_of_deferred(uint32_t frees)
{
    uint64_t address, before = count.events;
    for (uint32_t i = 0; i < frees; i++) {
        count.now++;
        assert_int_equal(vs_arena_malloc(arena, VS_ARENA_ANY, MIB, &address), 0);
        assert_int_equal(vs_arena_free(arena, address, VS_ARENA_ANY, VS_FREE_DEFER), 0);
    }
    return count.events - before;
}

/* 16 MiB may wait: events are 12 MiB apart while none is waited for, 4 where the device is far behind. */
TEST(events_of_the_device_are_rarer_while_it_keeps_up)
{
    struct vs_arena_config config = {.capacity = 8ull << 30};
    struct vs_arena_stats before, after;
    uint64_t address;
    begin(0, &config);
    assert_int_equal(vs_arena_malloc(arena, VS_ARENA_ANY, 64 * MIB, &address), 0);
    events_of_deferred(1200);
    uint64_t looks = count.looks;
    assert_in_range(events_of_deferred(1200), 95, 105);
    assert_in_range(count.looks - looks, 95, 105);
    count.lag = 14;
    events_of_deferred(1200);
    assert_in_range(events_of_deferred(1200), 295, 305);
    count.lag = 2;
    events_of_deferred(12000);
    vs_arena_stats(arena, &before);
    assert_in_range(events_of_deferred(1200), 95, 105);
    vs_arena_stats(arena, &after);
    assert_int_equal(after.host_waits, before.host_waits);
    vs_arena_destroy(arena);
}

/* What lives is always the same, and so little that 1.5 % of it is less than a chunk. */
TEST(a_small_program_need_not_wait_for_its_last_free)
{
    struct vs_arena_config config = {.capacity = 8ull << 30};
    uint64_t address[64], size[64];
    struct vs_arena_stats s;
    random_state = 1;
    begin(5, &config);
    for (uint32_t i = 0; i < 64; i++) {
        size[i] = 512ull << rnd(14);
        assert_int_equal(vs_arena_malloc(arena, VS_ARENA_ANY, size[i], &address[i]), 0);
    }
    for (uint32_t n = 0; n < 20000; n++) {
        uint32_t i = rnd(64);
        count.now++;
        assert_int_equal(vs_arena_free(arena, address[i], VS_ARENA_ANY, VS_FREE_DEFER), 0);
        assert_int_equal(vs_arena_malloc(arena, VS_ARENA_ANY, size[i], &address[i]), 0);
    }
    vs_arena_stats(arena, &s);
    printf("%llu requests, %llu missed, %llu waits, held %llu, lived %llu\n", (unsigned long long)s.mallocs,
           (unsigned long long)(s.mallocs - s.hits), (unsigned long long)s.host_waits,
           (unsigned long long)s.reserved, (unsigned long long)s.peak_allocated);
    assert_true(s.host_waits < s.mallocs / 30);
    assert_true(s.reserved <= s.peak_allocated + 20 * MIB); /* 16 MiB deferred, a chunk, one of small ones */
    assert_true(count.events < s.mallocs / 8);
    vs_arena_destroy(arena);
}

/* ---- random, for long ---- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define OPERATIONS 40000 /* they take twenty times as long */
#else
#define OPERATIONS 400000
#endif

#define BLOCKS 3000
#define LIVE   (8ull << 30)

/* Log-uniform from 512 bytes to 64 MiB. */
static uint64_t random_size(void)
{
    uint64_t base = 512ull << rnd(17);
    return base + base * rnd(1000) / 1000;
}

struct block {
    uint64_t address, size;
    uint32_t queue;
};

static uint64_t churn(struct block *b, uint64_t live, uint64_t operations, int streams)
{
    for (uint64_t n = 0; n < operations; n++) {
        struct block *x = &b[rnd(BLOCKS)];
        count.now++;
        if (x->size) {
            assert_int_equal(vs_arena_free(arena, x->address, x->queue, 0), 0);
            live -= x->size;
            x->size = 0;
            continue;
        }
        uint64_t size = random_size();
        if (live + size > LIVE)
            continue;
        *x = (struct block){0, size, queue_of((int)rnd((uint32_t)streams))};
        assert_int_equal(vs_arena_malloc(arena, x->queue, size, &x->address), 0);
        live += size;
    }
    return live;
}

/* Bytes of the books that were asked of the system. */
static uint64_t books(void)
{
    return arena->meta.held;
}

static void nothing_creeps(int streams, double most)
{
    static struct block b[BLOCKS];
    const char *given = getenv("ARENA_OPERATIONS");
    uint64_t all = given ? strtoull(given, NULL, 0) : OPERATIONS, live = 0, early_books = 0;
    struct vs_arena_config config = {.capacity = 128ull << 30, .max_mappings = 40000};
    double early = 0;
    memset(b, 0, sizeof b);
    begin(50, &config);
    for (int part = 0; part < 20; part++) {
        live = churn(b, live, all / 20, streams);
        if (part == 9) {
            early = held_over_live();
            early_books = books();
        }
    }
    printf("%d streams, %llu operations: R %.4f, %.4f after a half; books %llu KiB, %llu KiB after a half\n",
           streams, (unsigned long long)all, held_over_live(), early, (unsigned long long)books() >> 10,
           (unsigned long long)early_books >> 10);
    assert_true(held_over_live() <= early + 0.01);
    assert_true(held_over_live() <= most);
    assert_true(books() <= 2 * early_books);
    vs_arena_destroy(arena);
}

TEST(random_requests_for_long_do_not_creep)
{
    nothing_creeps(1, 1.06);
    nothing_creeps(4, 1.08);
}
