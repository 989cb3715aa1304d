/*
 * relabel.c - see relabel.h.  Rules give each range its phase, bands each moment; an event takes the phase
 * of its own thread's ranges or, if none is open, that of the lead thread, as during a recording.
 */
#include "relabel.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "base/shown.h"
#include "read/tables.h"

/* ---- rules ---- */

struct rule {
    char *name, *pattern;
};

struct rules {
    struct rule *at;
    size_t n;
};

static void free_rules(struct rules *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->at[i].name);
        free(r->at[i].pattern);
    }
    free(r->at);
    *r = (struct rules){0};
}

/* False: *BAD gets the invalid rule. */
static bool read_rules(struct rules *r, const char *text, char **bad)
{
    char *copy = xstrdup(text), *save = NULL;
    *bad = NULL;
    for (char *row = strtok_r(copy, ",", &save); row && !*bad; row = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(row, '=');
        if (!equals || equals == row || !equals[1])
            *bad = xstrdup(row);
        else
            *PUSH(r->at, r->n) =
                (struct rule){xformat("%.*s", (int)(equals - row), row), xstrdup(equals + 1)};
    }
    free(copy);
    return !*bad;
}

int relabel_check(const struct relabel *r, char *why, size_t size)
{
    struct rules rules = {0};
    char *bad = NULL;
    bool good = !r->phases || read_rules(&rules, r->phases, &bad);
    if (!good)
        snprintf(why, size, "--phases: '%s' is no name=pattern, such as logits=head*", bad);
    else if (r->phases && !rules.n)
        snprintf(why, size, "--phases: give name=pattern[,name=pattern...]");
    good = good && (!r->phases || rules.n);
    free(bad);
    free_rules(&rules);
    return good ? 0 : -1;
}

/* ---- the phase of a moment ---- */

struct timeline {
    int64_t thread;
    struct band *bands;
    size_t n;
};

struct moments {
    struct timeline *threads; /* by number */
    size_t count;
    struct timeline lead; /* of threads without a range */
};

static struct timeline flatten(const struct trace_range *ranges, size_t n, int64_t thread)
{
    struct timeline line = {.thread = thread};
    line.bands = bands_flatten(ranges, n, 0, INT64_MAX, &line.n);
    return line;
}

static int by_thread(const void *a, const void *b)
{
    const struct trace_range *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->t_push > y->t_push) - (x->t_push < y->t_push);
}

static struct moments *moments_of(struct trace_range *ranges, size_t n)
{
    struct moments *m = xrealloc(NULL, sizeof *m);
    *m = (struct moments){.lead = flatten(ranges, n, UNKNOWN)};
    if (n)
        qsort(ranges, n, sizeof *ranges, by_thread);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && ranges[k].thread == ranges[i].thread; k++) {
        }
        *PUSH(m->threads, m->count) = flatten(&ranges[i], k - i, ranges[i].thread);
    }
    return m;
}

static void free_moments(void *moments)
{
    struct moments *m = moments;
    for (size_t i = 0; i < m->count; i++)
        free(m->threads[i].bands);
    free(m->threads);
    free(m->lead.bands);
    free(m);
}

static int phase_in(const struct timeline *line, int64_t seq)
{
    size_t low = FROM(seq + 1, line->bands, line->n, to); /* the first band that ends after SEQ */
    return low < line->n && line->bands[low].from <= seq ? line->bands[low].phase : 0;
}

static int phase_at(void *context, int64_t thread, int64_t seq)
{
    const struct moments *m = context;
    const struct timeline *own = FIND(thread, m->threads, m->count);
    int phase = own ? phase_in(own, seq) : 0;
    return phase ? phase : phase_in(&m->lead, seq);
}

/* ---- a file ---- */

static const char *phase_of(const struct rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->n; i++)
        if (!fnmatch(rules->at[i].pattern, name, 0))
            return rules->at[i].name;
    return NULL;
}

static int relabel_names(struct trace *t, const struct rules *rules, const char *steps)
{
    struct trace_relabel_text *names = NULL;
    size_t n = 0, phases = 0, bound = 0, ends = 0;
    int result = trace_relabel_begin(t, &names, &n);
    for (size_t i = 0; !result && i < n; i++) {
        const char *phase = names[i].text ? phase_of(rules, names[i].text) : NULL;
        bool step = steps && names[i].text && !fnmatch(steps, names[i].text, 0);
        result = (phase && trace_relabel_name(t, names[i].id, phase)) ||
                 (step && trace_relabel_step(t, names[i].id));
        phases += phase && names[i].free;
        bound += phase && !names[i].free;
        ends += step;
    }
    free(names);
    if (!result && rules->n && !phases) {
        snprintf(t->why, sizeof t->why,
                 bound ? "--phases: what has such a name in %s is a mark, a start/end range or an automatic "
                         "phase, which a rule can't change"
                       : "--phases: %s has no range of such a name: vramscope report --all lists them",
                 t->path);
        return -1;
    }
    if (!result && steps && !ends) {
        snprintf(t->why, sizeof t->why,
                 "--steps: %s has no range or mark of such a name: vramscope report --all lists ranges",
                 t->path);
        return -1;
    }
    return result ? -1 : 0;
}

static int relabel(struct trace *t, const struct relabel *r)
{
    struct rules rules = {0};
    struct trace_range *ranges = NULL;
    size_t n = 0;
    char *bad = NULL;
    if (r->phases)
        read_rules(&rules, r->phases, &bad);
    free(bad);
    int result = relabel_names(t, &rules, r->steps);
    free_rules(&rules);
    if (!result)
        result = trace_relabel_ranges(t, r->steps != NULL) || trace_relabel_spans(t, &ranges, &n);
    if (!result)
        result = trace_relabel_events(t, phase_at, moments_of(ranges, n), free_moments);
    free(ranges);
    return result ? -1 : 0;
}

/* Complains once per file, however often it is opened. */
static void say_which(const struct trace *t)
{
    static char **said;
    static size_t n;
    for (size_t i = 0; i < n; i++)
        if (strcmp(said[i], t->path) == 0)
            return;
    *PUSH(said, n) = xstrdup(t->path);
    fprintf(stderr, "vramscope: %s has the processes %s: this is %lld; --process N shows another\n",
            shown(t->path), t->process_names, (long long)t->process.id);
}

int relabel_open(struct trace *t, const char *path, const struct relabel *r)
{
    bool asked = r->phases || r->steps;
    if (r->brief && !asked ? trace_open_brief(t, path, r->process) : trace_open_process(t, path, r->process))
        return -1;
    bool open = !t->wanted_process && t->processes > 1;
    if (open && !r->chosen)
        say_which(t);
    if (open && r->chosen)
        snprintf(t->why, sizeof t->why, "%s has the processes %s: which one? --process=N, or %s#N, names it",
                 shown(t->path), t->process_names, shown(t->path));
    else if (r->process && t->processes == 1 && t->process.id != r->process && !r->several)
        snprintf(t->why, sizeof t->why, "%s has no process %lld: it has %s", path, (long long)r->process,
                 t->process_names);
    else if (asked && t->thinned)
        snprintf(
            t->why, sizeof t->why,
            "%s: --phases and --steps need every event, and old ones are folded: vramscope run --max-bytes "
            "keeps more",
            path);
    else if (!asked || !relabel(t, r))
        return 0;
    char why[sizeof t->why];
    memcpy(why, t->why, sizeof why);
    trace_close(t);
    memcpy(t->why, why, sizeof why);
    return -1;
}
