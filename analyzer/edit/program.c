/*
 * program.c - reads a program and says what its blocks are for (program.h).
 *
 * What PyTorch itself said counts first.  It is not asked at every step; the rest follows from where a block
 * was born and where it died:
 *
 *      backward .. after it, as large as a parameter       gradient
 *      optimizer .. the same optimizer's step              temporary of it
 *      optimizer .. a later step, or never                 state
 *      forward .. backward                                 saved for backward
 *
 * A run that ended in a refusal had perhaps freed no block of its last step: of those that lived then, what
 * an optimizer's arithmetic made is a temporary, as the call stack says.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#define SMALL     (UINT64_C(1) << 20)
#define ROLE_MOST 4

static uint16_t phase_named(const struct edit_facts *f, const char *name)
{
    for (size_t i = 1; i < f->phase_count && i < UINT16_MAX; i++)
        if (f->phase_names[i] && !strcmp(f->phase_names[i], name))
            return (uint16_t)i;
    return 0;
}

static void read_phases(struct trace *t, struct edit_facts *f)
{
    f->phase_names = t->phase_names;
    f->phase_count = t->phase_name_count;
    f->forward = phase_named(f, "forward");
    f->logits = phase_named(f, "logits");
    f->backward = phase_named(f, "backward");
    f->optimizer = phase_named(f, "optimizer");
    f->evaluation = phase_named(f, "evaluation");
}

/* Phases are in the file whether there is anything in them or not. */
static void forget_unused(struct edit_facts *f, const struct program *p)
{
    uint16_t *phases[] = {&f->forward, &f->logits, &f->backward, &f->optimizer, &f->evaluation};
    bool *used = xrealloc(NULL, UINT16_MAX + 1);
    memset(used, 0, UINT16_MAX + 1);
    for (size_t i = 0; i < p->event_count; i++)
        used[p->events[i].phase] = true;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        *phases[i] = *phases[i] && used[*phases[i]] ? *phases[i] : EDIT_NO_PHASE;
    free(used);
}

/* Whether a parameter has SIZE, give or take what an allocator does not split off. */
static bool is_parameters(const struct sizes *s, uint64_t size)
{
    uint64_t slack = size > SMALL ? SMALL : 0;
    size_t at = sizes_from(s, size - slack);
    return at < s->n && s->at[at] <= size + slack;
}

/* ---- kinds ---- */

struct reading {
    const struct edit_facts *facts;
    struct program *p;
    uint32_t *step; /* of each event */
    struct sizes parameters;
    bool cut; /* the last step ended in a refusal: what lives then would have died */
};

static enum edit_kind by_role(uint8_t role)
{
    static const enum edit_kind kinds[ROLE_MOST + 1] = {KIND_OTHER, KIND_PARAMETER, KIND_GRADIENT, KIND_STATE,
                                                        KIND_BUFFER};
    return kinds[role <= ROLE_MOST ? role : 0];
}

static enum edit_kind optimizers(const struct reading *r, const struct edit_block *b, bool same)
{
    const struct edit_stack *s = program_stack(r->p, b);
    if (b->died == BLOCK_NEVER)
        return s->update ? KIND_UPDATE : KIND_STATE;
    return same && r->p->events[b->died].phase == r->facts->optimizer ? KIND_UPDATE
           : same                                                     ? KIND_OTHER
                                                                      : KIND_STATE;
}

/* A library's workspace, which is no tensor and stays. */
static bool is_workspace(const struct reading *r, const struct edit_block *b)
{
    return program_is_workspace(b->size) && (b->type == ELEMENT_UNKNOWN || program_asked(r->p, b)->raw);
}

static bool is_over(const struct reading *r, uint16_t phase)
{
    return r->p->events[r->p->event_count - 1].phase != phase;
}

/* Of a block of the step that a refusal ended.  When backward is over its temporaries are gone. */
static enum edit_kind unfinished(const struct reading *r, const struct edit_block *b, uint16_t born)
{
    const struct edit_facts *f = r->facts;
    if (born == f->optimizer)
        return optimizers(r, b, true);
    if (born == f->logits)
        return KIND_LOGITS;
    if (born == f->backward && is_parameters(&r->parameters, b->size))
        return KIND_GRADIENT;
    if (born == f->backward)
        return is_over(r, f->backward) || is_workspace(r, b) ? KIND_OTHER : KIND_BACKWARD;
    return born == f->forward && !is_workspace(r, b) ? KIND_SAVED : KIND_OTHER;
}

static enum edit_kind kind_of(const struct reading *r, const struct edit_block *b)
{
    const struct edit_facts *f = r->facts;
    uint16_t born = r->p->events[b->born].phase, died = 0;
    bool lives = b->died == BLOCK_NEVER, same = !lives && r->step[b->born] == r->step[b->died];
    if (!lives)
        died = r->p->events[b->died].phase;
    if (!born)
        return KIND_OTHER;
    if (lives && r->cut && r->step[b->born] == r->step[r->p->event_count - 1])
        return unfinished(r, b, born);
    if (born == f->optimizer)
        return optimizers(r, b, same);
    if (born == f->backward) {
        if (same && died == f->backward)
            return KIND_BACKWARD;
        bool sized = !r->parameters.n || is_parameters(&r->parameters, b->size);
        return sized ? KIND_GRADIENT : KIND_OTHER;
    }
    if (!program_is_forward(f, born))
        return KIND_OTHER;
    if (born == f->logits)
        return KIND_LOGITS;
    if (same && died == f->backward)
        return KIND_SAVED;
    if (same && program_is_forward(f, died))
        return KIND_FORWARD;
    return KIND_OTHER;
}

uint32_t *program_steps(const struct program *p)
{
    uint32_t *step = xrealloc(NULL, (p->event_count + 1) * sizeof *step);
    step[0] = 0;
    for (size_t i = 0; i < p->event_count; i++)
        step[i + 1] = step[i] + (p->events[i].what == MOMENT_STEP);
    return step;
}

static void find_kinds(struct reading *r)
{
    struct program *p = r->p;
    r->step = program_steps(p);
    r->parameters = program_sizes(p, 1u << KIND_PARAMETER, 0);
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_OTHER)
            p->blocks[i].kind = (uint8_t)kind_of(r, &p->blocks[i]);
        else if (p->blocks[i].kind == KIND_REQUEST)
            p->blocks[i].as = (uint8_t)kind_of(r, &p->blocks[i]);
    free(r->step);
    free(r->parameters.at);
}

/* Whether most bytes are known to be of a type, or of none. */
static bool has_types(const struct program *p, const struct asked_table *asked)
{
    double all = 0, known = 0;
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        all += (double)b->size;
        known += b->type != ELEMENT_UNKNOWN || asked->at[b->asked].raw ? (double)b->size : 0;
    }
    return known > 0 && known >= all * 0.9;
}

/* ---- reading ---- */

/* Events up to the refusal, and the request itself. */
static void cut(struct program *p, const struct trace_tape *tape, size_t refusal)
{
    size_t at = 0;
    while (at < p->event_count &&
           (p->events[at].what != MOMENT_REFUSED || p->events[at].block != (uint32_t)refusal))
        at++;
    if (at == p->event_count)
        return;
    const struct tape_refusal *asked = &tape->refusals[refusal];
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].died != BLOCK_NEVER && p->blocks[i].died > at)
            p->blocks[i].died = BLOCK_NEVER;
    while (p->block_count && p->blocks[p->block_count - 1].born > at)
        p->block_count--;
    p->event_count = at;
    *PUSH(p->events, p->event_count) = (struct trace_moment){
        .block = (uint32_t)p->block_count, .phase = p->events[at].phase, .what = MOMENT_BORN};
    *PUSH(p->blocks, p->block_count) = (struct edit_block){.size = asked->size,
                                                           .stack = asked->stack,
                                                           .born = (uint32_t)at,
                                                           .died = BLOCK_NEVER,
                                                           .kind = KIND_REQUEST};
}

static void take_blocks(struct program *p, const struct trace_tape *tape, const uint8_t *roles)
{
    p->blocks = xrealloc(NULL, (tape->ids + (size_t)1) * sizeof *p->blocks);
    p->block_count = tape->ids;
    for (size_t i = 0; i < tape->ids; i++) {
        const struct tape_block *b = &tape->blocks[i];
        p->blocks[i] = (struct edit_block){.size = b->request,
                                           .stack = b->stack,
                                           .asked = b->asked,
                                           .type = tape->made_for.at[b->asked].type,
                                           .born = BLOCK_NEVER,
                                           .died = BLOCK_NEVER,
                                           .stream = b->stream,
                                           .kind = (uint8_t)by_role(roles[i])};
    }
}

static void take_event(struct program *p, const struct tape_event *e)
{
    uint32_t at = (uint32_t)p->event_count;
    enum trace_moment_what what = e->what == TAPE_ALLOC  ? MOMENT_BORN
                                  : e->what == TAPE_FREE ? MOMENT_DIED
                                                         : MOMENT_REFUSED;
    if (what == MOMENT_BORN)
        p->blocks[e->id].born = at;
    else if (what == MOMENT_DIED)
        p->blocks[e->id].died = at;
    *PUSH(p->events, p->event_count) =
        (struct trace_moment){.block = e->id, .phase = e->phase, .what = (uint16_t)what};
}

static void take_events(struct program *p, const struct trace_tape *tape)
{
    size_t step = 0;
    for (size_t i = 0; i <= tape->n; i++) {
        for (; step < tape->step_count && tape->steps[step] <= i; step++)
            *PUSH(p->events, p->event_count) = (struct trace_moment){.what = MOMENT_STEP};
        if (i < tape->n &&
            (tape->at[i].what == TAPE_ALLOC || tape->at[i].what == TAPE_FREE || tape->at[i].what == TAPE_OOM))
            take_event(p, &tape->at[i]);
    }
}

/* Where another phase begins an event says so: an edit may leave nothing else of it. */
static void mark_phases(struct program *p)
{
    struct trace_moment *events = NULL;
    size_t n = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        bool block = e->what == MOMENT_BORN || e->what == MOMENT_DIED;
        if (block && e->phase && (!n || events[n - 1].phase != e->phase))
            *PUSH(events, n) = (struct trace_moment){.phase = e->phase, .what = MOMENT_PHASE};
        if (e->what == MOMENT_BORN)
            p->blocks[e->block].born = (uint32_t)n;
        else if (e->what == MOMENT_DIED)
            p->blocks[e->block].died = (uint32_t)n;
        *PUSH(events, n) = *e;
    }
    free(p->events);
    p->events = events;
    p->event_count = n;
}

static int take_tape(struct trace *t, const struct trace_tape *tape, struct program *p,
                     struct edit_facts *facts)
{
    int64_t told;
    uint8_t *roles = tape_roles(t, tape, &told);
    if (!roles)
        return -1;
    take_blocks(p, tape, roles);
    free(roles);
    take_events(p, tape);
    facts->roles = told > 0;
    facts->steps = (int64_t)tape->step_count;
    facts->refusals = (int64_t)tape->refusal_count;
    facts->asked = asked_copy(&tape->made_for);
    return stacks_read(t, facts);
}

int program_read(struct trace *t, int64_t device, size_t refusal, struct program *p, struct edit_facts *facts)
{
    *facts = (struct edit_facts){0};
    *p = (struct program){.facts = facts};
    read_phases(t, facts);
    const struct trace_tape *tape = trace_tape(t, device);
    if (!tape || take_tape(t, tape, p, facts))
        return -1;
    forget_unused(facts, p);
    facts->ranks = t->process.world_size > 1 ? t->process.world_size : 1;
    facts->cut = refusal < tape->refusal_count;
    if (facts->cut)
        facts->limit = tape->refusals[refusal].limit;
    stacks_find_units(p, facts);
    if (facts->cut)
        cut(p, tape, refusal);
    struct reading r = {.facts = facts, .p = p, .cut = facts->cut};
    find_kinds(&r);
    facts->types = has_types(p, &facts->asked);
    facts->imported = trace_is_imported(t);
    mark_phases(p);
    return 0;
}

void program_free(struct program *p)
{
    free(p->blocks);
    free(p->events);
    *p = (struct program){0};
}

void program_free_facts(struct edit_facts *f)
{
    free(f->stacks);
    free(f->units_name);
    for (size_t i = 0; i < f->layer_count; i++)
        free(f->layer_names[i]);
    free(f->layer_names);
    asked_free(&f->asked);
    *f = (struct edit_facts){0};
}

struct sizes program_sizes(const struct program *p, unsigned kinds, uint64_t least)
{
    struct sizes s = {0};
    for (size_t i = 0; i < p->block_count; i++)
        if ((kinds >> p->blocks[i].kind & 1) && p->blocks[i].size > least)
            *PUSH(s.at, s.n) = p->blocks[i].size;
    sizes_sort(&s);
    return s;
}

uint64_t program_most(const struct program *p, enum edit_kind kind)
{
    uint64_t now = 0, most = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if ((e->what != MOMENT_BORN && e->what != MOMENT_DIED) || p->blocks[e->block].kind != kind)
            continue;
        now += e->what == MOMENT_BORN ? p->blocks[e->block].size : -p->blocks[e->block].size;
        most = now > most ? now : most;
    }
    return most;
}

/* ---- sizes ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void sizes_sort(struct sizes *s)
{
    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, by_size);
}

size_t sizes_from(const struct sizes *s, uint64_t size)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->at[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sizes_have(const struct sizes *s, uint64_t size)
{
    size_t at = sizes_from(s, size);
    return at < s->n && s->at[at] == size;
}
