/*
 * test_placements.c - the arena decides as it did: of many traces, made up and by chance, every address,
 * every call of the backing and every figure is what it was when the numbers of placements.inc were written
 * down.
 *
 * A change that is meant to decide otherwise has new numbers: `test_placements all` writes them.
 * tests/e2e/import/placements.sh does the same of recordings.
 */
#include <inttypes.h>

#include "unit/test.h"
#include "bench/hard_traces.h"
#include "placement_digest.h"

#define ANY PLACEMENT_ANY

static struct placement_list list_of(struct trace t)
{
    struct placement_list list = {calloc(t.count + (size_t)1, sizeof *list.at), t.count, t.ids};
    for (uint32_t i = 0; i < t.count; i++)
        list.at[i] = (struct placement_event){.size = t.event[i].size,
                                              .id = t.event[i].id,
                                              .stream = t.event[i].stream,
                                              .freed_on = t.event[i].freed_on};
    free(t.event);
    return list;
}

/* COUNT events on STREAMS, ALIVE blocks at most of 2^LEAST to 2^MOST bytes: mostly sizes that never come
 * back; with FEW only so many different ones.  Freed by chance, or the oldest first. */
struct churn {
    uint32_t streams, count, alive, least, most, few;
    bool oldest;
    uint64_t seed;
};

static uint64_t churn_size(const struct churn *c, uint64_t *state)
{
    uint64_t random = hard_random(state);
    uint64_t which = c->few ? random % c->few * 2654435761u % (1u << 30) : random;
    uint64_t power = c->least + which % (c->most - c->least);
    return (UINT64_C(1) << power) + (which / 64 << power >> 25) % (UINT64_C(1) << power);
}

/* The size is drawn first; as two arguments of one call they would be in the compiler's order. */
static uint32_t churn_alloc(struct trace *t, const struct churn *c, uint64_t *state)
{
    uint64_t size = churn_size(c, state);
    return trace_alloc(t, (int)(hard_random(state) % c->streams), size);
}

static struct placement_list churn(const struct churn *c)
{
    struct trace t = {0};
    uint64_t state = c->seed;
    uint32_t *block = calloc(c->alive + (size_t)1, sizeof *block), blocks = 0, next = 0;
    while (t.count < c->count) {
        if (blocks == c->alive) {
            uint32_t i = c->oldest ? next++ % blocks : (uint32_t)(hard_random(&state) % blocks);
            trace_free(&t, block[i]);
            block[i] = churn_alloc(&t, c, &state);
        } else {
            block[blocks++] = churn_alloc(&t, c, &state);
        }
    }
    free(block);
    return list_of(t);
}

static struct placement_list training(uint32_t streams, uint32_t batches, uint32_t longest)
{
    struct training m = {streams, batches, 12, 1024, 2752, 8192, longest ? 100 : 0, longest};
    return list_of(training_trace(&m));
}

static struct placement_list strange(uint32_t streams, int any)
{
    struct training m = {streams, 24, 12, 1024, 2752, 8192, 0, 0};
    return list_of(strange_trace(&m, 8, any));
}

static struct placement_list trace_number(unsigned i)
{
    static const struct churn churns[] = {
        {1, 40000, 1000, 8, 26, 0, false, 1},   {4, 40000, 2000, 8, 26, 0, false, 2},
        {8, 60000, 9000, 8, 24, 0, false, 3},   {16, 40000, 3000, 9, 19, 0, true, 4},
        {2, 20000, 200, 12, 30, 0, false, 5},   {4, 30000, 300, 20, 25, 0, true, 6},
        {3, 40000, 1500, 8, 27, 40, false, 7},  {1, 40000, 2500, 20, 24, 300, false, 8},
        {8, 20000, 500, 17, 28, 0, false, 9},   {33, 20000, 800, 9, 23, 0, false, 10},
        {1, 30000, 15000, 9, 22, 0, false, 11}, {5, 30000, 700, 21, 22, 0, false, 12},
    };
    switch (i) {
    case 0:
        return training(1, 40, 0);
    case 1:
        return training(4, 40, 0);
    case 2:
        return training(1, 60, 3000);
    case 3:
        return training(3, 40, 3000);
    case 4:
        return strange(4, 0);
    case 5:
        return strange(4, ANY);
    case 6:
        return list_of(random_trace(1, 6000, 8ull << 30));
    case 7:
        return list_of(random_trace(6, 6000, 8ull << 30));
    case 8:
        return list_of(growing_trace(4, 120, 96 << 10));
    case 9:
        return list_of(phases_trace(3, 100, 256 << 20, 8ull << 30));
    case 10:
        return list_of(halves_trace());
    case 11:
        return list_of(turns_trace(ANY));
    default:
        return churn(&churns[i - 12]);
    }
}
#define TRACES 24

static const struct placement_setting settings[] = {
    {0},
    {.lag = 40},
    {.lag = 400, .no_waits = true},
    {.device = 3000, .lag = 15},
    {.defer = true, .lag = 20},
    {.mappings = 6000, .lag = 4},
    {.lag = 3, .lent_to_none = true},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static const uint64_t expected[TRACES][SETTINGS] = {
#include "placements.inc"
};

static uint64_t digest(const struct placement_list *list, size_t setting)
{
    return placement_of_arena(list, &settings[setting]);
}

#ifdef __SANITIZE_ADDRESS__
#define EACH 3 /* a third of the traces */
#else
#define EACH 1
#endif

TEST(placements_are_what_they_were)
{
    for (unsigned i = 0; i < TRACES; i += EACH) {
        struct placement_list list = trace_number(i);
        for (size_t s = 0; s < SETTINGS; s++) {
            uint64_t now = digest(&list, s);
            if (now != expected[i][s])
                fail_msg("trace %u, setting %zu: %#" PRIx64 ", not %#" PRIx64, i, s, now, expected[i][s]);
        }
        free(list.at);
    }
}

/* Were the digest blind, this test would be. */
TEST(another_address_is_another_digest)
{
    struct placement_list list = trace_number(12);
    uint64_t arena = digest(&list, 0);
    list.at[list.n / 2].size += list.at[list.n / 2].stream >= 0 ? 4096 : 0;
    list.at[list.n / 2 + 1].size += list.at[list.n / 2 + 1].stream >= 0 ? 4096 : 0;
    assert_int_not_equal(arena, digest(&list, 0));
    free(list.at);
}

static int write_all(void)
{
    for (unsigned i = 0; i < TRACES; i++) {
        struct placement_list list = trace_number(i);
        printf("{");
        for (size_t s = 0; s < SETTINGS; s++)
            printf("%s0x%016" PRIx64, s ? ", " : "", digest(&list, s));
        printf("},\n");
        free(list.at);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "all"))
        return write_all();
    return run_all_tests(NULL, NULL);
}
