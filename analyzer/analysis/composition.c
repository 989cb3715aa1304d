/* composition.c - see columns.h. */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

#include "read/events.h"
#include "read/living.h"

#define MOST_EVENTS 5000000            /* some seconds */
#define MOST_BYTES  (INT64_C(1) << 61) /* of a damaged file: sums stay numbers */

static const char *const made[COMPOSITION_MADE] = {
    "made in forward",    "made in logits",        "made in backward",      "made in optimizer",
    "made in evaluation", "made in another phase", "made outside any phase"};
enum { MADE = VS_ROLE_COUNT, MADE_ELSEWHERE = COMPOSITION_ROLES - 2, MADE_OUTSIDE };

const char *composition_role(size_t group)
{
    return group >= MADE && group < COMPOSITION_ROLES ? made[group - MADE] : vs_role_word((unsigned)group);
}

static size_t group_of_made(const struct trace *t, int phase)
{
    const char *name = phase > 0 && (size_t)phase < t->phase_name_count ? t->phase_names[phase] : NULL;
    if (!name || !strcmp(name, "none"))
        return MADE_OUTSIDE;
    for (size_t i = MADE; i < MADE_ELSEWHERE; i++)
        if (!strcmp(name, made[i - MADE] + strlen("made in ")))
            return i;
    return MADE_ELSEWHERE;
}

const char *composition_none(const struct trace *t)
{
    if (t->thinned || t->folded.stretches > 0 || t->unwritten > 0)
        return "some of its events are folded (VRAMSCOPE_MAX_BYTES)";
    return t->events > MOST_EVENTS ? "it has more than five million events" : NULL;
}

struct owner { /* event SEQ made or ended a block of GROUP */
    int64_t seq;
    size_t group;
};

struct walk {
    const struct trace *t;
    const struct columns *columns;
    struct composition *c;
    enum composition_by by;
    const size_t *group_of_phase;
    size_t phase_count;
    const struct trace_role *roles;
    size_t role_count, role_next;
    struct owner *owners; /* in the order of their numbers */
    size_t owner_count;
    int64_t *now;      /* of each group */
    int64_t allocated; /* after the last event */
    int64_t *best;     /* of each column that has begun */
    size_t begun;      /* columns that have */
};

static void snapshot(struct walk *w, size_t x)
{
    w->best[x] = w->allocated;
    memcpy(&w->c->at[x * w->c->groups], w->now, w->c->groups * sizeof *w->now);
}

/* Columns up to X begin with what the last event left. */
static void begin_columns(struct walk *w, size_t x)
{
    for (; w->begun <= x; w->begun++)
        snapshot(w, w->begun);
}

static size_t group_of_event(const struct walk *w, int64_t seq)
{
    const struct owner *owner = FIND(seq, w->owners, w->owner_count);
    return owner ? owner->group : 0;
}

static size_t group_of_birth(struct walk *w, const struct trace_row *e)
{
    if (w->by == COMPOSITION_PHASE)
        return e->phase >= 0 && (size_t)e->phase < w->phase_count ? w->group_of_phase[e->phase] : 0;
    while (w->role_next < w->role_count && w->roles[w->role_next].seq < e->seq)
        w->role_next++;
    bool known = w->role_next < w->role_count && w->roles[w->role_next].seq == e->seq;
    size_t group = known ? vs_role_named(w->roles[w->role_next].role) : 0;
    return group ? group : group_of_made(w->t, e->phase);
}

/* What is more than the block's size is a change of something else that was lost. */
static int64_t own_change(const struct trace_row *e, int64_t change)
{
    int64_t size = e->size > 0 ? e->size : 0;
    return change > size ? size : change < -size ? -size : change;
}

static bool take(void *context, const struct trace_row *e)
{
    struct walk *w = context;
    if (e->t > w->columns->to)
        return false;
    size_t group = e->mate > 0 ? group_of_event(w, e->mate) : group_of_birth(w, e);
    *PUSH(w->owners, w->owner_count) = (struct owner){e->seq, group};
    size_t x = columns_index(w->columns, e->t);
    int64_t allocated = e->framework + e->direct;
    if (e->t >= w->columns->from)
        begin_columns(w, x);
    int64_t own = w->now[group] + own_change(e, allocated - w->allocated);
    w->now[group] = own < 0 ? 0 : own > MOST_BYTES ? MOST_BYTES : own;
    w->allocated = allocated;
    if (e->t >= w->columns->from && w->allocated > w->best[x])
        snapshot(w, x);
    return true;
}

/* The rest of each column, so that its groups sum to its greatest allocated. */
static void finish(struct walk *w)
{
    size_t groups = w->c->groups;
    begin_columns(w, w->columns->n - 1);
    for (size_t x = 0; x < w->columns->n; x++) {
        int64_t *at = &w->c->at[x * groups], rest = w->columns->at[x].allocated_max;
        for (size_t g = 1; g < groups; g++) {
            at[g] = at[g] > rest ? rest : at[g];
            rest -= at[g];
        }
        at[0] = rest;
    }
}

int composition_load(struct composition *c, struct trace *t, int64_t device, const struct columns *columns,
                     enum composition_by by, const size_t *group_of_phase, size_t groups)
{
    struct trace_role *role_rows = NULL;
    size_t role_count = 0;
    *c = (struct composition){.groups = by == COMPOSITION_ROLE ? COMPOSITION_ROLES : groups};
    if (by == COMPOSITION_ROLE && trace_roles(t, &role_rows, &role_count)) {
        free(role_rows);
        return -1;
    }
    c->at = xrealloc(NULL, columns->n * c->groups * sizeof *c->at);
    struct walk w = {.t = t,
                     .columns = columns,
                     .c = c,
                     .by = by,
                     .group_of_phase = group_of_phase,
                     .phase_count = t->phase_name_count,
                     .roles = role_rows,
                     .role_count = role_count,
                     .now = xrealloc(NULL, c->groups * sizeof *w.now),
                     .best = xrealloc(NULL, columns->n * sizeof *w.best)};
    memset(w.now, 0, c->groups * sizeof *w.now);
    const struct trace_part part = {device, 0, INT64_MAX, EVENTS_TOTALS};
    int result = trace_rows(t, &part, take, &w);
    finish(&w);
    free(w.now);
    free(w.best);
    free(w.owners);
    free(role_rows);
    return result;
}

int64_t composition_most(const struct composition *c, size_t columns, size_t group)
{
    int64_t most = 0;
    for (size_t x = 0; group < c->groups && x < columns; x++) {
        int64_t bytes = c->at[x * c->groups + group];
        most = bytes > most ? bytes : most;
    }
    return most;
}

void composition_free(struct composition *c)
{
    free(c->at);
    *c = (struct composition){0};
}
