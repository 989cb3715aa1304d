/* savings.c - see savings.h. */
#include "savings.h"

#include <stdlib.h>
#include <string.h>

/* Saturates, because the numbers of a damaged file
 * may overflow. */
static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

struct replay {
    const struct trace_step_memory *m;
    int everything; /* phase whose memory is left out entirely; -1: none */
    int temporary;  /* phase of which only memory that it both makes and frees is left out; -1: none */
};

static int phase_id(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 1; name && i < n; i++)
        if (names[i] && !strcmp(names[i], name))
            return (int)i;
    return -1;
}

static bool in_step(const struct trace_step_memory *m, int64_t seq)
{
    return seq >= m->first_seq && seq <= m->last_seq;
}

static bool in_work(const struct trace_step_memory *m, int64_t seq)
{
    return seq >= m->first_seq && seq <= (m->work_seq ? m->work_seq : m->last_seq);
}

/* What was there before the step and is not freed by its work. */
static bool stays(const struct trace_step_memory *m, const struct trace_lifetime *l)
{
    return l->made_seq < m->first_seq && !in_work(m, l->freed_seq);
}

static bool is_own(const struct replay *r, const struct trace_lifetime *l)
{
    if (stays(r->m, l))
        return false;
    if (l->made_in == r->everything)
        return true;
    return l->made_in == r->temporary && l->freed_in == r->temporary && in_step(r->m, l->made_seq) &&
           in_step(r->m, l->freed_seq);
}

struct edge {
    int64_t seq, bytes;
};

static int by_seq(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The changes of the phase's own memory, in order of time. */
static struct edge *own_edges(const struct replay *r, size_t *n)
{
    struct edge *edges = NULL;
    *n = 0;
    for (size_t i = 0; i < r->m->lifetime_count; i++) {
        const struct trace_lifetime *l = &r->m->lifetimes[i];
        if (!is_own(r, l))
            continue;
        *PUSH(edges, *n) = (struct edge){l->made_seq, l->bytes};
        *PUSH(edges, *n) = (struct edge){l->freed_seq, -l->bytes};
    }
    if (*n)
        qsort(edges, *n, sizeof *edges, by_seq);
    return edges;
}

static void take(struct savings *s, int64_t left, int phase, const char *const *names, size_t n)
{
    if (s->floor != UNKNOWN && left <= s->floor)
        return;
    s->floor = left;
    s->floor_phase = phase >= 0 && (size_t)phase < n ? names[phase] : NULL;
}

static void find_floor(struct savings *s, const struct replay *r, const char *const *names, size_t n)
{
    size_t edge_count, at = 0;
    struct edge *edges = own_edges(r, &edge_count);
    int64_t own = 0;
    while (at < edge_count && edges[at].seq < r->m->first_seq)
        own = add(own, edges[at++].bytes);
    take(s, sub(r->m->before, own), 0, names, n);
    for (size_t i = 0; i < r->m->point_count; i++) {
        const struct trace_step_point *p = &r->m->points[i];
        while (at < edge_count && edges[at].seq <= p->seq)
            own = add(own, edges[at++].bytes);
        take(s, sub(p->allocated, own), p->phase, names, n);
    }
    free(edges);
}

/* The bytes that live at the step's start and are not freed in it. */
static int64_t static_bytes(const struct trace_step_memory *m)
{
    int64_t bytes = m->before;
    for (size_t i = 0; i < m->lifetime_count; i++)
        if (m->lifetimes[i].made_seq < m->first_seq && !stays(m, &m->lifetimes[i]))
            bytes = sub(bytes, m->lifetimes[i].bytes);
    return bytes;
}

/* The first event after which PEAK bytes were allocated. */
static int64_t peak_seq(const struct trace_step_memory *m, int64_t peak)
{
    for (size_t i = 0; i < m->point_count; i++)
        if (m->points[i].allocated >= peak)
            return m->points[i].seq;
    return UNKNOWN;
}

/* What the optimizer made in the step up to the peak, and its work does not free: states, in the first step.
 */
static int64_t states_bytes(const struct trace_step_memory *m, int64_t peak, int optimizer)
{
    int64_t bytes = 0, last = peak_seq(m, peak);
    if (optimizer < 0 || last == UNKNOWN)
        return 0;
    for (size_t i = 0; i < m->lifetime_count; i++) {
        const struct trace_lifetime *l = &m->lifetimes[i];
        if (l->made_in == optimizer && in_step(m, l->made_seq) && l->made_seq <= last &&
            !in_work(m, l->freed_seq))
            bytes = add(bytes, l->bytes);
    }
    return bytes;
}

static bool gives_back(const struct trace_step_memory *m)
{
    for (size_t i = 0; i < m->lifetime_count; i++)
        if (in_step(m, m->lifetimes[i].made_seq) && in_step(m, m->lifetimes[i].freed_seq))
            return true;
    return false;
}

static int64_t least(const struct trace_step_memory *m)
{
    int64_t bytes = m->before;
    for (size_t i = 0; i < m->point_count && in_work(m, m->points[i].seq); i++)
        bytes = m->points[i].allocated < bytes ? m->points[i].allocated : bytes;
    return bytes;
}

static bool has_phase(const struct trace_step_memory *m, int phase)
{
    for (size_t i = 0; i < m->point_count; i++)
        if (m->points[i].phase == phase)
            return true;
    return false;
}

/* Whether the memory at the peak may contain logits that have no phase of their own. */
static bool may_hide_logits(const struct trace_step_memory *m, int logits, const char *phase)
{
    bool theirs = !phase || !strcmp(phase, "none") || !strcmp(phase, "forward") || !strcmp(phase, "backward");
    return theirs && !(logits > 0 && has_phase(m, logits));
}

/* Chooses the phases whose own memory is left out, by the rules of savings_of. */
static struct replay own_memory(const struct trace_step_memory *m, int phase, int logits, int backward)
{
    bool is_loss = logits > 0 && has_phase(m, logits) && (phase == logits || phase == backward);
    return is_loss ? (struct replay){m, .everything = logits, .temporary = backward}
                   : (struct replay){m, .everything = -1, .temporary = phase};
}

/* Sets static memory and returns NULL, or returns why it is not known. */
static const char *find_static(struct savings *s, const struct trace_step_memory *m)
{
    if (!gives_back(m))
        return "the peak's step gives nothing back: what a pool keeps tells nothing of its use";
    s->static_bytes = static_bytes(m);
    /* frees of unrecorded allocations would give more than there ever was */
    s->known = s->static_bytes >= 0 && s->static_bytes <= least(m) && s->static_bytes <= s->peak;
    return s->known ? NULL : "the peak's step frees what was never seen allocated";
}

struct savings savings_of(const struct trace_step_memory *m, int64_t peak, const char *phase,
                          const char *const *names, size_t n, int64_t uncalled)
{
    struct savings s = {.step = m->step,
                        .peak = peak,
                        .why = m->why,
                        .static_bytes = UNKNOWN,
                        .floor = UNKNOWN,
                        .uncalled_classes = UNKNOWN};
    int at_peak = phase_id(phase, names, n), logits = phase_id("logits", names, n);
    if (m->step == UNKNOWN)
        return s;
    s.why = find_static(&s, m);
    if (!s.known)
        return s;
    s.states_bytes = states_bytes(m, peak, phase_id("optimizer", names, n));
    if (s.states_bytes < 0 || s.states_bytes > peak - s.static_bytes) /* only in a damaged file */
        s.states_bytes = 0;
    if (uncalled != UNKNOWN && may_hide_logits(m, logits, phase))
        s.uncalled_classes = uncalled;
    if (at_peak < 0 || s.uncalled_classes != UNKNOWN) /* the phase's own memory cannot be determined */
        return s;

    struct replay r = own_memory(m, at_peak, logits, phase_id("backward", names, n));
    bool is_loss = r.everything >= 0;
    find_floor(&s, &r, names, n);
    if (s.floor < s.static_bytes || s.floor > peak) /* only in a damaged file */
        s.floor = UNKNOWN;
    s.phases[0] = names[is_loss ? logits : at_peak];
    s.phases[1] = is_loss && r.temporary > 0 && has_phase(m, r.temporary) ? names[r.temporary] : NULL;
    return s;
}
