/*
 * test_arena_park_steady.c - a training loop whose optimizer states are parked while it goes forward and
 * backward: what is held becomes the most that is on the device at once, and no call of the driver is needed
 * any more.
 *
 * The backing counts.  What is printed is what the arena holds and how many calls each round needs, without
 * parking and with it.
 */
#include "unit/test.h"
#include "arena/core/internal.h"

#define MIB     (1ull << 20)
#define ROUNDS  8
#define LAYERS  24
#define WEIGHTS 4 /* of a layer */
#define SAVED   6 /* activations of a layer */

/* In which order the program does what it does once, and how. */
struct loop {
    bool parks;
    bool states_first; /* made before the first round, in the heap; else in its step, where others lay */
    bool keeps_grads;  /* they outlive the unpark, and are freed when the next round begins */
    uint64_t lag;
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
            assert_int_equal(vs_arena_unpark(arena, layer[l].state[i], copy, &back), 0);
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
    count = (struct vs_backing_count){.lag = p->lag};
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

/* Plays the loop, and says what it held in the last round over the most that was on the device then. */
static double play(const struct loop *p, const char *name, uint64_t calls[ROUNDS])
{
    uint64_t reserved = 0;
    begin(p);
    printf("%-44s calls", name);
    for (int n = 0; n < ROUNDS; n++) {
        uint64_t before = count.calls;
        most = 0;
        vs_arena_high_from_now(arena, VS_HIGH_RESERVED);
        play_round(p, n);
        calls[n] = count.calls - before;
        reserved = stats().high_reserved;
        printf(" %llu", (unsigned long long)calls[n]);
    }
    printf("; held %llu MiB, most on the device %llu MiB, %.4f; %llu replaced, %llu waits of streams\n",
           (unsigned long long)(reserved / MIB), (unsigned long long)(most / MIB),
           (double)reserved / (double)most, (unsigned long long)stats().replaced,
           (unsigned long long)stats().stream_waits);
    vs_arena_destroy(arena);
    return (double)reserved / (double)most;
}

TEST(print)
{
    uint64_t calls[ROUNDS];
    for (int i = 0; i < 16; i++) {
        char name[80];
        struct loop p = {i & 1, i >> 1 & 1, i >> 2 & 1, i & 8 ? 100 : 0};
        snprintf(name, sizeof name, "%s%s%s%s", p.parks ? "parks " : "", p.states_first ? "heap " : "alias ",
                 p.keeps_grads ? "grads " : "", p.lag ? "lag" : "");
        play(&p, name, calls);
    }
}
