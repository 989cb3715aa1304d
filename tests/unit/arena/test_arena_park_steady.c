/*
 * test_arena_park_steady.c - a training loop whose optimizer states are parked while it goes forward and
 * backward: what is held becomes the most that is on the device at once, and no call of the driver is needed
 * any more.
 *
 * The backing counts.  What is printed is what the arena holds and how many calls each round needs, without
 * parking and with it.
 */
#include "unit/test.h"
#include "bench/training_trace.h"
#include "park_kit.h"

#define MIB     (1ull << 20)
#define ROUNDS  8
#define STEADY  5 /* rounds until nothing is made or mapped any more */
#define STREAMS 16
#define LAYERS  24
#define WEIGHTS 4 /* of a layer */
#define SAVED   6 /* activations of a layer */

/* In which order the program does what it does once, and how. */
struct loop {
    bool parks;
    bool states_first; /* made before the first round, in the heap; else in its step, where others lay */
    bool keeps_grads;  /* they outlive the unpark, and are freed when the next round begins */
    uint64_t lag;
    uint64_t chunks; /* that the device has; 0: enough */
};

static struct vs_backing_count count;
static struct vs_arena *arena;
static uint32_t one, copy;
static uint64_t most; /* bytes on the device at once */

static struct {
    uint64_t weight[WEIGHTS], grad[WEIGHTS], state[2 * WEIGHTS], saved[SAVED];
} layer[LAYERS];

static uint64_t weight_bytes(int i)
{
    static const uint64_t bytes[WEIGHTS] = {3000 * 9000 * 2, 3000 * 3000 * 2, 3000 * 16000 * 2, 3000 * 2};
    return bytes[i];
}

static uint64_t saved_bytes(int i)
{
    static const uint64_t bytes[SAVED] = {3000, 9000, 3000, 6000, 16000, 8000};
    return 8000 * bytes[i];
}

static void note_most(void)
{
    uint64_t here = live_here(arena);
    most = here > most ? here : most;
}

static uint64_t take(uint64_t size)
{
    uint64_t address = 0;
    count.now++;
    assert_int_equal(vs_arena_malloc(arena, one, size, &address), 0);
    note_most();
    return address;
}

static void give(uint64_t *address)
{
    count.now++;
    assert_int_equal(vs_arena_free(arena, *address, one, 0), 0);
    *address = 0;
}

static void make_states(void)
{
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2 * WEIGHTS; i++)
            if (!layer[l].state[i])
                layer[l].state[i] = take(2 * weight_bytes(i / 2));
}

static void park_states(void)
{
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2 * WEIGHTS; i++)
            assert_int_equal(vs_arena_leave(arena, layer[l].state[i], 2 * weight_bytes(i / 2)), 0);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2 * WEIGHTS; i++, count.now++)
            assert_int_equal(vs_arena_park(arena, layer[l].state[i], copy), 0);
}

static void unpark_states(void)
{
    struct vs_arena_run back;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2 * WEIGHTS; i++, count.now++)
            assert_int_equal(kit_unpark_waiting(arena, layer[l].state[i], copy, &back), 0);
    note_most();
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 2 * WEIGHTS; i++)
            assert_int_equal(vs_arena_return(arena, layer[l].state[i]), 0);
}

static void forward(int l)
{
    uint64_t scratch = take(saved_bytes(4));
    for (int i = 0; i < SAVED; i++)
        layer[l].saved[i] = take(saved_bytes(i));
    give(&scratch);
}

static void backward(int l)
{
    uint64_t gradient = take(saved_bytes(0));
    for (int i = SAVED; i-- > 0;) {
        uint64_t next = take(saved_bytes(i));
        give(&gradient);
        give(&layer[l].saved[i]);
        if (i < WEIGHTS)
            layer[l].grad[i] = take(weight_bytes(i));
        gradient = next;
    }
    give(&gradient);
}

static void free_grads(void)
{
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < WEIGHTS; i++)
            if (layer[l].grad[i])
                give(&layer[l].grad[i]);
}

static void step(void)
{
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < WEIGHTS; i++) {
            uint64_t scratch = take(2 * weight_bytes(i));
            give(&scratch);
        }
}

static void play_round(const struct loop *p, int n)
{
    bool away = p->parks && (n || p->states_first);
    if (away)
        park_states();
    free_grads();
    if (away && (n == 0 || n == 1)) /* who begins to park says that what comes is not what was */
        vs_arena_trim(arena, 0);
    for (int l = 0; l < LAYERS; l++)
        forward(l);
    for (int l = LAYERS; l-- > 0;)
        backward(l);
    if (!p->keeps_grads)
        free_grads();
    if (away)
        unpark_states();
    make_states();
    step();
}

static struct vs_arena_stats stats(void)
{
    struct vs_arena_stats s;
    vs_arena_stats(arena, &s);
    return s;
}

static void begin(const struct loop *p)
{
    struct vs_arena_config config = {.capacity = 128ull << 30};
    count = (struct vs_backing_count){.lag = p->lag, .capacity = p->chunks};
    struct vs_backing b = vs_backing_of_counters(&count, 2 * MIB);
    memset(layer, 0, sizeof layer);
    assert_int_equal(vs_arena_create(&arena, &b, &config), 0);
    assert_int_equal(vs_arena_open_queue(arena, 1, 0, &one), 0);
    assert_int_equal(vs_arena_open_queue(arena, 2, 0, &copy), 0);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < WEIGHTS; i++)
            layer[l].weight[i] = take(weight_bytes(i));
    if (p->states_first)
        make_states();
}

/* Of each round: calls of the driver, what was held, and the most that was on the device. */
struct figures {
    uint64_t calls[ROUNDS], held[ROUNDS], most[ROUNDS], replaced, waits;
};

static void play(const struct loop *p, struct figures *f)
{
    begin(p);
    for (int n = 0; n < ROUNDS; n++) {
        uint64_t before = count.calls;
        most = 0;
        vs_arena_high_from_now(arena, VS_HIGH_RESERVED);
        play_round(p, n);
        f->calls[n] = count.calls - before;
        f->held[n] = stats().high_reserved;
        f->most[n] = most;
    }
    f->replaced = stats().replaced;
    f->waits = stats().host_waits;
    vs_arena_destroy(arena);
}

static void print(const struct figures *f)
{
    double over = (double)f->held[ROUNDS - 1] / (double)f->most[ROUNDS - 1];
    printf("  held %llu MiB, %.4f of what was on the device; calls",
           (unsigned long long)(f->held[ROUNDS - 1] / MIB), over);
    for (int n = 0; n < ROUNDS; n++)
        printf(" %llu", (unsigned long long)f->calls[n]);
    printf("; %llu chunks replaced, %llu waits of the host\n", (unsigned long long)f->replaced,
           (unsigned long long)f->waits);
}

/* Without parking and with it. */
static void compare(struct loop p, const char *name)
{
    struct figures plain, parked;
    p.parks = false;
    play(&p, &plain);
    p.parks = true;
    play(&p, &parked);
    printf("%s:\n", name);
    print(&plain);
    print(&parked);
    for (int n = STEADY; n < ROUNDS; n++) {
        assert_int_equal(parked.calls[n], 0);
        assert_true((double)parked.held[n] <= 1.02 * (double)parked.most[n]);
        assert_true(parked.held[n] < plain.held[n]);
    }
}

TEST(a_loop_holds_the_most_that_is_on_the_device_and_needs_no_call)
{
    compare((struct loop){.lag = 0}, "states made by the first step");
    compare((struct loop){.lag = 100}, "the device a hundred calls behind");
    compare((struct loop){.states_first = true}, "states made first");
}

TEST(so_does_one_whose_gradients_outlive_the_unpark)
{
    compare((struct loop){.keeps_grads = true}, "states made by the first step, gradients kept");
    compare((struct loop){.keeps_grads = true, .lag = 100}, "the device a hundred calls behind");
    compare((struct loop){.keeps_grads = true, .states_first = true}, "states made first, gradients kept");
}

/* It would not fit without parking, and where it is as short as here a few chunks come and go. */
TEST(a_device_suffices_that_has_hardly_more_than_the_most_that_is_on_it)
{
    struct loop p = {.parks = true, .states_first = true, .keeps_grads = true};
    struct figures f;
    play(&p, &f);
    p.chunks = f.most[ROUNDS - 1] / (2 * MIB) * 1005 / 1000;
    play(&p, &f);
    print(&f);
    assert_true(f.held[ROUNDS - 1] <= p.chunks * 2 * MIB && f.calls[ROUNDS - 1] <= 200);
}

/* ---- micro-batches of changing lengths on several streams ---- */

struct batches {
    struct trace t;
    uint32_t first, end; /* what is parked: of those made first */
    uint64_t *address;
    int *stream;
    uint32_t queue[STREAMS];
};

static uint32_t queue_of(struct batches *b, int stream)
{
    uint64_t number = (uint64_t)stream + 10;
    if (!b->queue[stream])
        assert_int_equal(vs_arena_open_queue(arena, number, 0, &b->queue[stream]), 0);
    return b->queue[stream];
}

static void play_events(struct batches *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++, count.now++) {
        const struct trace_event *e = &b->t.event[i];
        if (e->stream >= 0) {
            b->stream[e->id] = e->stream;
            assert_int_equal(vs_arena_malloc(arena, queue_of(b, e->stream), e->size, &b->address[e->id]), 0);
            note_most();
        } else {
            uint32_t queue = queue_of(b, b->stream[e->id]);
            assert_int_equal(vs_arena_free(arena, b->address[e->id], queue, 0), 0);
        }
    }
}

static void park_batches(struct batches *b)
{
    for (uint32_t id = b->first; id < b->end; id++)
        assert_int_equal(vs_arena_leave(arena, b->address[id], b->t.event[id].size), 0);
    for (uint32_t id = b->first; id < b->end; id++)
        assert_int_equal(vs_arena_park(arena, b->address[id], copy), 0);
}

static void unpark_batches(struct batches *b)
{
    struct vs_arena_run back;
    for (uint32_t id = b->first; id < b->end; id++) {
        assert_int_equal(kit_unpark_waiting(arena, b->address[id], copy, &back), 0);
        assert_int_equal(vs_arena_return(arena, b->address[id]), 0);
    }
}

/* From round STEADY on no call is needed. */
static void repeats(const struct training *m, uint64_t lag, int steady, double over)
{
    struct vs_arena_config config = {.capacity = 128ull << 30};
    struct batches b = {.t = training_trace(m)};
    b.first = b.t.first / 3, b.end = b.t.first; /* two thirds of what was made first */
    b.address = calloc(b.t.ids, sizeof *b.address);
    b.stream = calloc(b.t.ids, sizeof *b.stream);
    count = (struct vs_backing_count){.lag = lag};
    struct vs_backing backing = vs_backing_of_counters(&count, 2 * MIB);
    assert_int_equal(vs_arena_create(&arena, &backing, &config), 0);
    assert_int_equal(vs_arena_open_queue(arena, 1, 0, &copy), 0);
    play_events(&b, 0, b.t.first);
    printf("%u streams, %llu behind: calls", m->streams, (unsigned long long)lag);
    for (int n = 0; n < steady + 3; n++) {
        uint64_t before = count.calls;
        park_batches(&b);
        if (n == 0)
            vs_arena_trim(arena, 0);
        most = 0;
        vs_arena_high_from_now(arena, VS_HIGH_RESERVED);
        play_events(&b, b.t.first, b.t.count);
        unpark_batches(&b);
        note_most();
        printf(" %llu", (unsigned long long)(count.calls - before));
        assert_true(n < steady || count.calls == before);
    }
    double held = (double)stats().high_reserved / (double)most;
    printf("; held %.4f of what was on the device\n", held);
    assert_true(held <= over);
    vs_arena_destroy(arena);
    free(b.address);
    free(b.stream);
    free(b.t.event);
}

TEST(so_do_micro_batches_of_changing_lengths_on_several_streams)
{
    repeats(&(struct training){1, 33, 8, 4096, 11008, 32000, 0, 0}, 0, 2, 1.02);
    repeats(&(struct training){10, 33, 8, 4096, 11008, 32000, 0, 0}, 0, 13, 1.03);
    repeats(&(struct training){10, 33, 8, 4096, 11008, 32000, 0, 0}, 100, 13, 1.03);
}
