/* reply.c - see reply.h. */
#include "reply.h"

#include <stdlib.h>

#include "base/commands.h"

int reply_find(struct reply *a, const struct attempt_setup *s, enum attempt_allocator allocator,
               const char *folder)
{
    *a = (struct reply){.setup = s, .first = {.allocator = allocator}};
    char *one = xformat("%s/first", folder), *two = xformat("%s/second", folder);
    int bad = attempt_run(&a->first, s, one, true);
    if (!bad && !a->first.error)
        verdict_of(&a->verdict, &a->first);
    a->tried = !bad && !a->first.error && a->verdict.kind <= VERDICT_REFUSED &&
               facts_count(&a->first.facts, FACT_VALUE) > 0;
    if (a->tried) {
        a->second = (struct attempt){.allocator = allocator, .second = true};
        bad = attempt_run(&a->second, s, two, false);
        verdict_of(&a->other, &a->second);
        a->changed = a->other.kind != a->verdict.kind ||
                     a->other.peaks.allocated != a->verdict.peaks.allocated ||
                     a->other.peaks.reserved != a->verdict.peaks.reserved;
    }
    free(one);
    free(two);
    return bad;
}

const struct verdict *reply_verdict(const struct reply *a)
{
    return a->tried && a->verdict.kind == VERDICT_FITS && a->other.kind == VERDICT_REFUSED ? &a->other
                                                                                           : &a->verdict;
}

const struct peaks *reply_peaks(const struct reply *a)
{
    bool more =
        a->tried && a->other.kind <= VERDICT_REFUSED && a->other.peaks.reserved > a->verdict.peaks.reserved;
    return more ? &a->other.peaks : &a->verdict.peaks;
}

int reply_status(const struct reply *a)
{
    static const int statuses[] = {EXIT_GOOD, EXIT_CHECK, EXIT_USAGE, EXIT_INCOMPLETE};
    return a->first.error ? EXIT_USAGE : statuses[reply_verdict(a)->kind];
}

/* The largest figure that no table holds: workspaces come and go one after the other. */
static int64_t guessed(const struct reply *a)
{
    int64_t most = 0;
    for (size_t i = 0; i < a->first.facts.n; i++) {
        const struct fact *f = &a->first.facts.all[i];
        int64_t bytes = f->kind == FACT_GUESS ? strtoll(f->fields[2], NULL, 10) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static struct span span_of(const struct reply *a, int64_t first, int64_t second)
{
    struct span s = {first, first};
    int64_t guess = guessed(a);
    if (first == UNKNOWN)
        return s;
    if (a->tried && a->other.kind <= VERDICT_REFUSED && second != UNKNOWN) {
        s.least = second < first ? second : first;
        s.most = second > first ? second : first;
    }
    s.least = s.least > guess ? s.least - guess : 0;
    s.most += guess;
    return s;
}

struct span reply_allocated(const struct reply *a)
{
    return span_of(a, a->verdict.peaks.allocated, a->other.peaks.allocated);
}

struct span reply_reserved(const struct reply *a)
{
    return span_of(a, a->verdict.peaks.reserved, a->other.peaks.reserved);
}

bool reply_is_exact(const struct reply *a)
{
    struct span allocated = reply_allocated(a), reserved = reply_reserved(a);
    return !facts_count(&a->first.facts, FACT_GUESS) && a->verdict.whole &&
           allocated.least == allocated.most && reserved.least == reserved.most &&
           (!a->tried || a->other.kind == a->verdict.kind);
}

void reply_free(struct reply *a)
{
    attempt_free(&a->first);
    attempt_free(&a->second);
    verdict_free(&a->verdict);
    verdict_free(&a->other);
    free(a->path);
}
