/* answer.c - replays an edited program under each allocator (answer.h). */
#include "answer.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *zeros(size_t n)
{
    uint64_t *p = xrealloc(NULL, (n + 1) * sizeof *p);
    memset(p, 0, (n + 1) * sizeof *p);
    return p;
}

/* False: out of memory. */
static bool play(struct feed *f, const struct program *p, const struct trace_moment *e)
{
    const struct edit_block *b = &p->blocks[e->block];
    switch (e->what) {
    case MOMENT_BORN:
        return feed_born(f, e->block, b->size, b->stream);
    case MOMENT_DIED:
        feed_died(f, e->block, b->size, b->stream, false);
        break;
    default:
        break;
    }
    return true;
}

static void see(struct answer_policy *a, struct feed_totals now, uint16_t phase, size_t phases)
{
    if (now.allocated > a->peak.allocated) {
        a->peak.allocated = now.allocated;
        a->peak.phase = phase;
    }
    a->peak.reserved = now.reserved > a->peak.reserved ? now.reserved : a->peak.reserved;
    if (phase >= phases)
        return;
    if (now.allocated > a->phase_allocated[phase])
        a->phase_allocated[phase] = now.allocated;
    if (now.reserved > a->phase_reserved[phase])
        a->phase_reserved[phase] = now.reserved;
}

/* What is there when a phase begins; of one that then makes and frees nothing that is all there is to say. */
struct begun {
    struct feed_totals *most; /* by phase */
    bool *busy;               /* it makes or frees something */
};

static void see_begin(struct begun *b, struct feed_totals now, uint16_t phase, size_t phases)
{
    if (phase >= phases)
        return;
    struct feed_totals *most = &b->most[phase];
    most->allocated = now.allocated > most->allocated ? now.allocated : most->allocated;
    most->reserved = now.reserved > most->reserved ? now.reserved : most->reserved;
}

static void fill_idle(const struct begun *b, struct answer_policy *a, size_t phases)
{
    for (size_t i = 0; i < phases; i++)
        if (!b->busy[i]) {
            a->phase_allocated[i] = b->most[i].allocated;
            a->phase_reserved[i] = b->most[i].reserved;
        }
}

static size_t replay(const struct program *p, enum feed_policy policy, const struct torch_settings *settings,
                     struct answer_policy *a, size_t phases)
{
    struct feed *f = feed_begin(policy, settings, p->block_count);
    struct begun begun = {xrealloc(NULL, (phases + 1) * sizeof *begun.most), xrealloc(NULL, phases + 1)};
    size_t at = 0;
    memset(begun.most, 0, (phases + 1) * sizeof *begun.most);
    memset(begun.busy, 0, phases + 1);
    a->phase_allocated = zeros(phases);
    a->phase_reserved = zeros(phases);
    for (size_t i = 0; i < p->event_count && !a->ran_out; i++) {
        const struct trace_moment *e = &p->events[i];
        uint64_t before = a->peak.allocated;
        a->ran_out = !play(f, p, e);
        struct feed_totals now = feed_now(f);
        if (a->ran_out) {
            a->out_event = i;
            a->out_size = p->blocks[e->block].size;
            a->out_reserved = now.reserved;
            a->out_phase = e->phase;
        }
        a->before_reserved = a->end_reserved;
        a->end_allocated = now.allocated;
        a->end_reserved = now.reserved;
        if (e->what == MOMENT_BORN || e->what == MOMENT_DIED) {
            see(a, now, e->phase, phases);
            begun.busy[e->phase < phases ? e->phase : phases] = true;
        } else if (e->what == MOMENT_PHASE) {
            see_begin(&begun, now, e->phase, phases);
        }
        at = a->peak.allocated > before ? i : at;
    }
    if (!a->ran_out && settings->capacity != UINT64_MAX)
        a->end_room = feed_room(f, 0);
    feed_end(f);
    fill_idle(&begun, a, phases);
    free(begun.most);
    free(begun.busy);
    return at;
}

/* What lives after event AT, by kind: the one with the most. */
static void find_most(const struct program *p, size_t at, struct answer *a)
{
    uint64_t bytes[KIND_REQUEST + 1] = {0};
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        if (b->born <= at && (b->died == BLOCK_NEVER || b->died > at))
            bytes[b->kind <= KIND_REQUEST ? b->kind : 0] += b->size;
    }
    for (int k = 0; k <= KIND_REQUEST; k++)
        if (bytes[k] > a->most_bytes) {
            a->most_bytes = bytes[k];
            a->most = (enum edit_kind)k;
        }
}

struct answer answer_of(const struct program *p, const struct torch_settings *settings, const bool *wanted)
{
    struct answer a = {.phases = p->facts->phase_count};
    for (int i = 0; i < FEED_POLICIES; i++) {
        a.of[i].wanted = wanted[i];
        if (!wanted[i])
            continue;
        size_t at = replay(p, (enum feed_policy)i, settings, &a.of[i], a.phases);
        if (i == FEED_LIVE)
            find_most(p, at, &a);
    }
    return a;
}

static uint64_t *copy_of(const uint64_t *from, size_t n)
{
    return from ? memcpy(zeros(n), from, n * sizeof *from) : NULL;
}

struct answer answer_copy(const struct answer *a)
{
    struct answer copy = *a;
    for (int i = 0; i < FEED_POLICIES; i++) {
        copy.of[i].phase_allocated = copy_of(a->of[i].phase_allocated, a->phases);
        copy.of[i].phase_reserved = copy_of(a->of[i].phase_reserved, a->phases);
    }
    return copy;
}

static void take_out(struct answer_policy *a, const struct answer_policy *limited)
{
    a->ran_out = true;
    a->out_size = limited->out_size;
    a->out_reserved = limited->out_reserved;
    a->out_event = limited->out_event;
    a->out_phase = limited->out_phase;
}

void answer_fit(struct answer *a, const struct program *p, const struct torch_settings *settings)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        struct answer_policy *whole = &a->of[i], limited = {.wanted = true};
        if (!whole->wanted || (whole->peak.reserved <= settings->capacity && settings->gc_threshold <= 0))
            continue;
        replay(p, (enum feed_policy)i, settings, &limited, a->phases);
        if (limited.ran_out) {
            take_out(whole, &limited);
        } else {
            whole->peak.reserved = limited.peak.reserved;
            memcpy(whole->phase_reserved, limited.phase_reserved, a->phases * sizeof *limited.phase_reserved);
        }
        free(limited.phase_allocated);
        free(limited.phase_reserved);
    }
}

void answer_free(struct answer *a)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        free(a->of[i].phase_allocated);
        free(a->of[i].phase_reserved);
    }
    *a = (struct answer){.phases = 0};
}

const char *answer_kind(enum edit_kind kind)
{
    static const char *const names[] = {"blocks whose use is not known",
                                        "parameters",
                                        "buffers",
                                        "optimizer states",
                                        "gradients",
                                        "temporaries of the optimizer",
                                        "logits",
                                        "what is saved for backward",
                                        "temporaries of forward",
                                        "temporaries of backward",
                                        "the request"};
    return names[kind <= KIND_REQUEST ? kind : 0];
}
