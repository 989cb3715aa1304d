/* reply.c - runs the program as often as its answer needs (reply.h). */
#include "reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "attempt.h"
#include "read/trace.h"
#include "show/report/oom.h"

/* What was read and not even assumed, or guessed at and not tried. */
static bool is_open(const struct fact *f)
{
    return (f->kind == FACT_VALUE && !strcmp(f->fields[2], "unknown")) ||
           (f->kind == FACT_GUESS && !*f->fields[4]);
}

static bool tries(const struct fact *f, enum assumption assumption)
{
    if (f->kind == FACT_GUESS && *f->fields[4])
        return strcmp(f->fields[2], f->fields[assumption == ASSUME_SECOND ? 4 : 3]) != 0;
    return f->kind == FACT_VALUE && assumption == ASSUME_SECOND;
}

/* Whether a run under ASSUMPTION may be another one. */
static bool is_wanted(const struct attempt *first, enum assumption assumption)
{
    for (size_t i = 0; i < first->facts.n; i++)
        if (tries(&first->facts.all[i], assumption))
            return true;
    return first->compiled && assumption == ASSUME_SECOND;
}

static int find_one(struct reply *a, enum attempt_allocator allocator, enum assumption assumption,
                    const char *folder)
{
    char *one = xformat("%s/%s", folder, attempt_assumption_name(assumption)),
         *caches = xformat("%s/compiled", folder);
    struct attempt *run = &a->runs[a->n];
    *run = (struct attempt){.allocator = allocator, .assumption = assumption};
    int bad = attempt_run(run, a->setup, one, caches, assumption == ASSUME_FIRST);
    free(one);
    free(caches);
    if (bad || run->error)
        return bad;
    verdict_of(&a->verdicts[a->n], run);
    a->n++;
    return 0;
}

/* Where the command is a launcher of several ranks, and nobody said how many there are, its settings do. */
static bool is_launched(struct reply *a)
{
    const struct fact *f =
        a->n && !a->setup->ranks.world ? facts_first(&a->runs[0].facts, FACT_LAUNCH) : NULL;
    a->launched = *a->setup;
    if (!f || !strcmp(f->fields[1], "1") || ranks_read(&a->launched.ranks, f->fields[1], NULL, NULL))
        return false;
    a->setup = &a->launched;
    attempt_free(&a->runs[0]);
    verdict_free(&a->verdicts[0]);
    a->verdicts[0] = (struct verdict){0};
    a->n = 0;
    return true;
}

static int find_first(struct reply *a, enum attempt_allocator allocator, const char *folder)
{
    int bad = find_one(a, allocator, ASSUME_FIRST, folder);
    if (bad || !is_launched(a))
        return bad;
    char *ranks = folder_in(folder, "ranks");
    bad = find_one(a, allocator, ASSUME_FIRST, ranks);
    free(ranks);
    return bad;
}

int reply_find(struct reply *a, const struct attempt_setup *s, enum attempt_allocator allocator,
               const char *folder)
{
    *a = (struct reply){.setup = s};
    int bad = find_first(a, allocator, folder);
    for (enum assumption i = ASSUME_SECOND; a->n && !bad && i < ASSUMPTIONS; i++)
        if (a->verdicts[0].kind <= VERDICT_REFUSED && is_wanted(&a->runs[0], i))
            bad = find_one(a, allocator, i, folder);
    return bad;
}

size_t reply_decides(const struct reply *a)
{
    for (size_t i = 1; i < a->n; i++)
        if (a->verdicts[0].kind == VERDICT_FITS && a->verdicts[i].kind == VERDICT_REFUSED)
            return i;
    return 0;
}

const struct verdict *reply_verdict(const struct reply *a)
{
    return &a->verdicts[reply_decides(a)];
}

const struct peaks *reply_peaks(const struct reply *a)
{
    const struct peaks *most = &a->verdicts[0].peaks;
    for (size_t i = 1; i < a->n; i++) {
        const struct peaks *p = &a->verdicts[i].peaks;
        if (a->verdicts[i].kind <= VERDICT_REFUSED &&
            (p->reserved > most->reserved ||
             (p->reserved == most->reserved && p->allocated > most->allocated)))
            most = p;
    }
    return most;
}

int reply_status(const struct reply *a)
{
    static const int statuses[] = {EXIT_GOOD, EXIT_CHECK, EXIT_USAGE, EXIT_INCOMPLETE};
    return a->runs[0].error ? EXIT_USAGE : statuses[reply_verdict(a)->kind];
}

/* The largest figure that no table holds and no run tried: workspaces come and go one after the other. */
static int64_t guessed(const struct reply *a)
{
    int64_t most = 0;
    for (size_t i = 0; i < a->runs[0].facts.n; i++) {
        const struct fact *f = &a->runs[0].facts.all[i];
        int64_t bytes = f->kind == FACT_GUESS && is_open(f) ? strtoll(f->fields[2], NULL, 10) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* A GPU that is done at once at one time and late at another leaves other holes than one that always is
 * either: it may reserve more than both.  How much more is not known; of six trainings on two H200s one took
 * 9 % of what lies between them beyond the larger (docs/measurements/fit.md), so a quarter is given. */
static int64_t between_moments(const struct reply *a)
{
    bool told = false;
    for (size_t i = 0; i < a->runs[0].facts.n; i++) {
        const struct fact *f = &a->runs[0].facts.all[i];
        told = told || (f->kind == FACT_VALUE && !strncmp(f->fields[1], "when a GPU is done", 18));
    }
    const struct peaks *first = &a->verdicts[0].peaks, *second = &a->verdicts[1].peaks;
    bool only_holes =
        told && a->n > 1 && a->verdicts[1].kind <= VERDICT_REFUSED && first->allocated == second->allocated;
    return only_holes ? llabs(first->reserved - second->reserved) / 4 : 0;
}

static struct span span_of(const struct reply *a, bool reserved)
{
    struct span s = {UNKNOWN, UNKNOWN};
    for (size_t i = 0; i < a->n; i++) {
        const struct layouts *l = &a->verdicts[i].peaks.layouts;
        struct span one = reserved ? (struct span){l->reserved_least, l->reserved_most}
                                   : (struct span){l->allocated_least, l->allocated_most};
        if ((i && a->verdicts[i].kind > VERDICT_REFUSED) || one.least == UNKNOWN)
            continue;
        s.least = s.least == UNKNOWN || one.least < s.least ? one.least : s.least;
        s.most = one.most > s.most ? one.most : s.most;
    }
    s.most += reserved && s.least != UNKNOWN ? between_moments(a) : 0;
    int64_t guess = s.least == UNKNOWN ? 0 : guessed(a);
    s.least = s.least == UNKNOWN || s.least > guess ? s.least - guess : 0;
    s.most += guess;
    return s;
}

/* Where what is reserved is not certain, neither is which rank reserves most, whose figures these are. */
struct span reply_allocated(const struct reply *a)
{
    struct span s = span_of(a, false), reserved = span_of(a, true);
    if (s.least == UNKNOWN || reserved.least == reserved.most)
        return s;
    for (size_t i = 0; i < a->n; i++) {
        const struct verdict *v = &a->verdicts[i];
        if ((i && v->kind > VERDICT_REFUSED) || v->least == UNKNOWN || v->peaks.world_size < 2)
            continue;
        s.least = v->least < s.least ? v->least : s.least;
        s.most = v->most > s.most ? v->most : s.most;
    }
    return s;
}

struct span reply_reserved(const struct reply *a)
{
    return span_of(a, true);
}

bool reply_is_exact(const struct reply *a)
{
    struct span allocated = reply_allocated(a), reserved = reply_reserved(a);
    bool exact = a->verdicts[0].whole && allocated.least == allocated.most && reserved.least == reserved.most;
    for (size_t i = 0; i < a->n; i++) {
        exact = exact && a->verdicts[i].kind == a->verdicts[0].kind;
        for (size_t k = 0; k < a->runs[i].facts.n; k++)
            exact = exact && !is_open(&a->runs[i].facts.all[k]);
    }
    return exact;
}

bool reply_beside_is_measured(const struct reply *a)
{
    return a->setup->card->measured && !facts_count(&a->runs[0].facts, FACT_BESIDE);
}

/* ---- whether the verdict is certain ---- */

/* What the request of V's recording was short by; 0: that is not known. */
static int64_t missing(const struct verdict *v, const struct attempt *a)
{
    struct trace t;
    struct oom_report r;
    int64_t bytes = UNKNOWN;
    if (v->refused_file == UNKNOWN || trace_open(&t, a->files[v->refused_file]))
        return 0;
    if (!oom_report_load(&r, &t, OOM_LAST)) {
        bytes = r.need.short_by;
        oom_report_free(&r);
    }
    trace_close(&t);
    return bytes > 0 ? bytes : 0;
}

static bool one_is_certain(const struct verdict *v, const struct attempt *a, int64_t guess)
{
    if (v->kind == VERDICT_FITS)
        return guess == 0 || verdict_left(&v->peaks) >= guess;
    return guess == 0 || missing(v, a) > guess;
}

/* How far the interval of reserved reaches beyond what any run held. */
static int64_t beyond_seen(const struct reply *a)
{
    int64_t most = reply_peaks(a)->reserved;
    return most == UNKNOWN ? 0 : reply_reserved(a).most - most;
}

bool reply_is_certain(const struct reply *a)
{
    int64_t guess = beyond_seen(a);
    for (size_t i = 0; i < a->n && a->verdicts[0].kind <= VERDICT_REFUSED; i++)
        if (a->verdicts[i].kind != a->verdicts[0].kind ||
            !one_is_certain(&a->verdicts[i], &a->runs[i], guess))
            return false;
    return true;
}

void reply_free(struct reply *a)
{
    for (size_t i = 0; i < ASSUMPTIONS; i++) {
        attempt_free(&a->runs[i]);
        verdict_free(&a->verdicts[i]);
    }
    free(a->path);
}
