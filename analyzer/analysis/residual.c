/* residual.c - see residual.h. */
#include "residual.h"

#include <string.h>

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b; /* UNKNOWN is the least of all */
}

static bool usable(const struct trace_sample *s)
{
    return s->driver_used != UNKNOWN && s->reserved != UNKNOWN && s->source;
}

static int says(const char *source)
{
    return !strcmp(source, "nvml_process") ? 2 : !strcmp(source, "nvml_device") ? 1 : 0;
}

/* The source whose figure says most about this process; NULL: there is none.  Before NVML is loaded the
 * host's own cuMemGetInfo may have given the first samples. */
static const char *best_source(const struct trace_sample *samples, size_t n)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (usable(&samples[i]) && (!best || says(samples[i].source) > says(best)))
            best = samples[i].source;
    return best;
}

struct residual residual_of(const struct trace_sample *samples, size_t n)
{
    struct residual r = {.source = best_source(samples, n),
                         .driver_used = UNKNOWN,
                         .reserved = UNKNOWN,
                         .residual = UNKNOWN,
                         .at_first = UNKNOWN,
                         .modules = UNKNOWN,
                         .unexplained = UNKNOWN,
                         .rss = UNKNOWN,
                         .pinned = UNKNOWN};
    for (size_t i = 0; i < n; i++) {
        const struct trace_sample *s = &samples[i];
        r.rss = greater(r.rss, s->rss);
        r.pinned = greater(r.pinned, s->pinned);
        if (!usable(s) || strcmp(s->source, r.source))
            continue;
        if (!r.known) {
            r.known = true;
            r.at_first = s->driver_used - s->reserved;
        }
        if (s->driver_used <= r.driver_used)
            continue;
        r.t = s->t;
        r.driver_used = s->driver_used;
        r.reserved = s->reserved;
        r.residual = s->driver_used - s->reserved;
        r.unexplained = r.residual - r.at_first;
    }
    r.whole_device = r.known && strcmp(r.source, "nvml_process") != 0;
    return r;
}

const char *residual_source(const char *source)
{
    if (!source)
        return "unknown";
    if (!strcmp(source, "nvml_process"))
        return "NVML, this process";
    if (!strcmp(source, "nvml_device"))
        return "NVML, whole device: other processes included";
    if (!strcmp(source, "meminfo"))
        return "cuMemGetInfo, whole device: other processes included";
    return source;
}
