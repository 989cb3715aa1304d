/* lives.c - follows the blocks of a snapshot and its phases through the trace (lives.h). */
#include "lives.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct walk {
    struct lives *l;
    struct vs_table live; /* by address and device: its life */
    uint32_t entry;
    size_t range; /* the next */
    bool in_step;
};

static uint64_t key_of(int device, uint64_t address)
{
    return address ^ (uint64_t)device << 58;
}

int lives_next(const struct snapshot *s, const size_t *at)
{
    int best = -1;
    for (int d = 0; d < s->devices; d++) {
        const struct snapshot_trace *t = &s->traces[d];
        if (at[d] < t->n && (best < 0 || t->at[at[d]].time_ns < s->traces[best].at[at[best]].time_ns))
            best = d;
    }
    return best;
}

/* ---- spans ---- */

static void enter(struct walk *w, enum import_phase said)
{
    struct lives *l = w->l;
    struct span *open = &l->spans[l->span_count - 1];
    enum import_phase phase = phases_then(open->phase, said);
    if (phase != open->phase) {
        *PUSH(l->spans, l->span_count) = (struct span){.phase = phase, .first = w->entry, .last = w->entry};
        open = &l->spans[l->span_count - 1];
    }
    if (said == open->phase)
        open->last = w->entry;
    open->until = w->entry;
}

/* A free opens no phase, and shows that the open one goes on. */
static void go_on(struct walk *w, const struct snapshot_event *e)
{
    struct span *open = &w->l->spans[w->l->span_count - 1];
    if (phases_shown(w->l->phases, e->stack, w->in_step) == open->phase && (e->stack || w->in_step))
        open->last = open->until = w->entry;
}

static void mark_step(struct walk *w, bool begins)
{
    struct lives *l = w->l;
    w->in_step = begins;
    if (begins) {
        enter(w, IMPORT_OPTIMIZER);
        return;
    }
    l->spans[l->span_count - 1].last = w->entry;
    *PUSH(l->spans, l->span_count) = (struct span){.phase = IMPORT_NONE, .first = w->entry, .last = w->entry};
}

static void steps_until(struct walk *w, int64_t time_ns)
{
    const struct snapshot *s = w->l->s;
    for (; w->range < s->range_count && phases_precedes(&s->ranges[w->range], time_ns); w->range++)
        if (s->ranges[w->range].steps)
            mark_step(w, s->ranges[w->range].begins);
}

static void link_spans(struct lives *l)
{
    uint32_t next[IMPORT_PHASES];
    for (int p = 0; p < IMPORT_PHASES; p++)
        next[p] = (uint32_t)l->span_count;
    for (size_t i = l->span_count; i--;) {
        memcpy(l->spans[i].next, next, sizeof next);
        next[l->spans[i].phase] = (uint32_t)i;
    }
}

/* ---- blocks ---- */

static uint32_t begin(struct walk *w, int device, uint64_t address, uint64_t size, uint32_t stack)
{
    struct lives *l = w->l;
    uint32_t id = (uint32_t)l->n;
    *PUSH(l->at, l->n) = (struct life){.size = size,
                                       .stack = stack,
                                       .born = w->entry,
                                       .died = LIFE_STAYS,
                                       .born_in = (uint32_t)l->span_count - 1,
                                       .device = (uint8_t)device};
    if (vs_table_put(&w->live, key_of(device, address), id) < 0)
        exit(complain("out of memory"));
    return id;
}

static void end(struct walk *w, int device, const struct snapshot_event *e)
{
    struct lives *l = w->l;
    uint32_t id = vs_table_remove(&w->live, key_of(device, e->address));
    if (id == VS_TABLE_NONE)
        return;
    struct life *x = &l->at[id];
    x->died = w->entry;
    x->died_in = (uint32_t)l->span_count - 1;
    x->freed_by = e->stack;
    struct span *open = &l->spans[x->died_in];
    bool just_before = open->phase == IMPORT_BACKWARD && x->born_in + 1 == x->died_in;
    if (x->born && (x->born_in == x->died_in || just_before))
        open->until = w->entry;
    l->frees_told = l->frees_told || (e->stack && x->born && e->stack != x->stack);
}

static void take_entry(struct walk *w, int device, size_t i)
{
    const struct snapshot_event *e = &w->l->s->traces[device].at[i];
    steps_until(w, e->time_ns);
    w->entry++;
    w->l->refused = e->action == SNAPSHOT_OOM;
    switch (e->action) {
    case SNAPSHOT_ALLOC:
        enter(w, phases_shown(w->l->phases, e->stack, w->in_step));
        if (!e->driver)
            w->l->of_entry[device][i] = begin(w, device, e->address, e->size, e->stack);
        break;
    case SNAPSHOT_FREE_REQUESTED:
        go_on(w, e);
        end(w, device, e);
        break;
    case SNAPSHOT_OOM:
        enter(w, phases_shown(w->l->phases, e->stack, w->in_step));
        break;
    default:
        break;
    }
}

static void take_start(struct walk *w, int device, const struct rewound *r)
{
    for (size_t i = 0; i < r->block_count; i++) {
        const struct rewound_block *b = &r->blocks[i];
        if (!b->pending && !b->driver)
            w->l->of_block[device][i] = begin(w, device, b->address, b->size, b->stack);
    }
}

static uint32_t *numbers(size_t n)
{
    uint32_t *of = xrealloc(NULL, (n + 1) * sizeof *of);
    memset(of, 0xff, (n + 1) * sizeof *of);
    return of;
}

void lives_read(struct lives *l, const struct snapshot *s, const struct rewound *start,
                const struct phases *phases)
{
    size_t at[SNAPSHOT_DEVICES] = {0};
    struct walk w = {.l = l};
    *l = (struct lives){.s = s, .phases = phases, .marks = marks_read(s)};
    *PUSH(l->spans, l->span_count) = (struct span){.phase = IMPORT_NONE};
    for (int d = 0; d < s->devices; d++) {
        l->of_entry[d] = numbers(s->traces[d].n);
        l->of_block[d] = numbers(start[d].block_count);
        take_start(&w, d, &start[d]);
    }
    for (int d; w.entry < UINT32_MAX - 1 && (d = lives_next(s, at)) >= 0; at[d]++)
        take_entry(&w, d, at[d]);
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].died == LIFE_STAYS)
            l->at[i].died_in = (uint32_t)l->span_count - 1;
    link_spans(l);
    vs_table_free(&w.live);
}

void lives_free(struct lives *l)
{
    for (int d = 0; d < SNAPSHOT_DEVICES; d++) {
        free(l->of_entry[d]);
        free(l->of_block[d]);
    }
    free(l->marks);
    free(l->at);
    free(l->spans);
    *l = (struct lives){0};
}

/* ---- what was under way ---- */

bool lives_born_in(const struct lives *l, const struct life *x, enum import_phase phase)
{
    return x->born && phase_of(l->phases, x->stack) == phase && l->spans[x->born_in].phase == phase;
}

/* Where frees have no stacks a phase is known to go on up to the last allocation that shows it. */
bool lives_freed_in(const struct lives *l, const struct life *x, enum import_phase phase)
{
    if (x->died == LIFE_STAYS)
        return false;
    if (l->frees_told)
        return phase_of(l->phases, x->freed_by) == phase;
    return l->spans[x->died_in].phase == phase && x->died <= l->spans[x->died_in].last;
}
