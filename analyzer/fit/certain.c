/*
 * certain.c - see certain.h.
 *
 * Two things are not known exactly: values that only a GPU computes, so there are two runs, and figures that
 * no table holds.  A fit is certain where the second would find room, a refusal where what was missing is
 * more.
 */
#include "certain.h"

#include "read/trace.h"
#include "show/report/oom.h"

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

/* What no table holds of the figures: how far the interval reaches beyond what was seen. */
static int64_t guessed(const struct reply *a)
{
    int64_t most = a->verdict.peaks.reserved;
    if (a->tried && a->other.peaks.reserved > most)
        most = a->other.peaks.reserved;
    return most == UNKNOWN ? 0 : reply_reserved(a).most - most;
}

bool reply_is_certain(const struct reply *a)
{
    int64_t guess = guessed(a);
    if (a->verdict.kind > VERDICT_REFUSED)
        return true;
    if (a->tried && a->other.kind != a->verdict.kind)
        return false;
    return one_is_certain(&a->verdict, &a->first, guess) &&
           (!a->tried || one_is_certain(&a->other, &a->second, guess));
}
