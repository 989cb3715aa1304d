/*
 * certain.c - see certain.h.
 *
 * Two things are not known exactly: values that only a GPU computes and guesses that are tried, so there are
 * further runs, and figures that no table holds.  A fit is certain where the latter would find room, a
 * refusal where what was missing is more.
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

/* What no table holds of the figures, and no run tried: how far the interval reaches beyond what was seen. */
static int64_t guessed(const struct reply *a)
{
    int64_t most = reply_peaks(a)->reserved;
    return most == UNKNOWN ? 0 : reply_reserved(a).most - most;
}

bool reply_is_certain(const struct reply *a)
{
    int64_t guess = guessed(a);
    for (size_t i = 0; i < a->n && a->verdicts[0].kind <= VERDICT_REFUSED; i++)
        if (a->verdicts[i].kind != a->verdicts[0].kind ||
            !one_is_certain(&a->verdicts[i], &a->runs[i], guess))
            return false;
    return true;
}
