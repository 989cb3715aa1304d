/* mixed.c - the recorded requests with other sizes of those that are guesses (layouts.h). */
#include "layouts.h"

#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define DRAWS  24
#define SPARE  (UINT64_C(1) << 20) /* bytes that PyTorch leaves with a block rather than split it */
#define SHORT  16                  /* events that a library's room lives at most */
#define ENOUGH INT64_C(3000000000) /* ns of replays */

struct mix {
    const struct trace_tape *tape;
    const struct mixed_guess *guesses;
    size_t n;
    uint32_t *guess_of; /* by block: which of the guesses, from 1; 0: none */
    uint64_t seed;
};

static uint32_t draw(struct mix *m, uint32_t below)
{
    m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->seed >> 33) % below;
}

static uint64_t rounded(int64_t bytes)
{
    return ((uint64_t)bytes + 511) / 512 * 512;
}

/* Libraries' room is asked for in a way of which the request is not recorded: the block may be larger by what
 * is not worth a split. */
static uint32_t find_guess(const struct mix *m, const struct tape_event *e)
{
    uint64_t spare = e->rounded ? SPARE : 0, best = 0;
    uint32_t found = 0;
    for (size_t i = 0; i < m->n; i++) {
        uint64_t most = rounded(m->guesses[i].most);
        if (most <= e->size && e->size - most <= spare && most > best) {
            best = most;
            found = (uint32_t)i + 1;
        }
    }
    return found;
}

/* A tensor may have the size of a guess, too: it lives longer. */
static void find_rooms(struct mix *m)
{
    size_t *begin = xrealloc(NULL, (m->tape->ids + 1) * sizeof *begin);
    m->guess_of = xrealloc(NULL, (m->tape->ids + 1) * sizeof *m->guess_of);
    memset(m->guess_of, 0, (m->tape->ids + 1) * sizeof *m->guess_of);
    for (size_t i = 0; i < m->tape->n; i++) {
        const struct tape_event *e = &m->tape->at[i];
        if (e->what == TAPE_ALLOC) {
            begin[e->id] = i;
            m->guess_of[e->id] = find_guess(m, e);
        } else if (e->what == TAPE_FREE && m->guess_of[e->id] && i - begin[e->id] > SHORT) {
            m->guess_of[e->id] = 0;
        }
    }
    free(begin);
}

/* In LIKELY of 100 cases the likely figure, else the least or the most. */
static void draw_sizes(struct mix *m, uint32_t likely, uint64_t *sizes)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct mixed_guess *g = &m->guesses[i];
        sizes[i] = rounded(draw(m, 100) < likely ? g->likely : draw(m, 2) ? g->most : g->least);
    }
}

/* The events with guesses of SIZES; one of no bytes is no request. */
static void fill(const struct mix *m, const uint64_t *sizes, struct trace_tape *out)
{
    out->n = 0;
    for (size_t i = 0; i < m->tape->n; i++) {
        struct tape_event e = m->tape->at[i];
        uint32_t guess = e.what <= TAPE_REUSABLE ? m->guess_of[e.id] : 0;
        if (guess && !sizes[guess - 1])
            continue;
        if (guess) {
            e.size = sizes[guess - 1];
            e.rounded = false;
        }
        out->at[out->n++] = e;
    }
}

/* Where segments lie decides, too. */
static struct addresses_driver driver_of(uint32_t number)
{
    static const struct addresses_driver drivers[] = {{.rule = ADDRESSES_LOWEST, .holes = {24, 2}},
                                                      {.rule = ADDRESSES_HIGHEST, .holes = {24, 2}},
                                                      {.rule = ADDRESSES_TIGHTEST, .taken = 5},
                                                      {.rule = ADDRESSES_SCATTERED, .seed = 1}};
    return drivers[number % (sizeof drivers / sizeof *drivers)];
}

static void play_draws(struct mix *m, const struct torch_settings *settings, struct layouts *l)
{
    static const uint32_t likely[] = {95, 80, 50, 0};
    struct trace_tape out = *m->tape;
    uint64_t *sizes = xrealloc(NULL, m->n * sizeof *sizes);
    int64_t ns = 0;
    out.at = xrealloc(NULL, (m->tape->n + 1) * sizeof *out.at);
    for (uint32_t i = 0; i < DRAWS && (i < 4 || ns < ENOUGH); i++) {
        struct replay_result r;
        struct addresses_driver driver = driver_of(i / 4);
        draw_sizes(m, likely[i % 4], sizes);
        fill(m, sizes, &out);
        replay_torch_at(&out, settings, &driver, &r);
        layouts_widen(l, &r);
        ns += r.ns;
    }
    free(out.at);
    free(sizes);
}

void mixed_try(const struct trace_tape *tape, int64_t memory, const struct mixed_guess *guesses, size_t n,
               int64_t allocated, int64_t reserved, struct layouts *l)
{
    struct mix m = {.tape = tape, .guesses = guesses, .n = n, .seed = 1};
    struct torch_settings settings;
    if (!n || !layouts_follow(tape, memory, allocated, reserved, &settings))
        return;
    find_rooms(&m);
    play_draws(&m, &settings, l);
    free(m.guess_of);
}
