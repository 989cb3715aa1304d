/* absent.c - see trace.h. */
#include "trace.h"

#include <string.h>

#include "curve.h"

const char *absent_device(struct trace *t, int64_t device)
{
    char list[160] = "";
    for (size_t i = 0, at = 0; i < t->peak_count && at < sizeof list; i++)
        if (t->peaks[i].device >= 0 && t->peaks[i].kind && !strcmp(t->peaks[i].kind, "allocated"))
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", *list ? ", " : "",
                                   (long long)t->peaks[i].device);
    if (device == UNKNOWN || !*list)
        snprintf(t->why, sizeof t->why, "%s: %s: vramscope report says what else was recorded", t->path,
                 trace_no_device(t));
    else
        snprintf(t->why, sizeof t->why, "%s has nothing on device %lld: it has %s", t->path,
                 (long long)device, list);
    return t->why;
}

const char *absent_steps(struct trace *t, const int64_t *steps)
{
    int64_t first, last;
    for (int i = 0; i < 2; i++)
        if (trace_step_folded(t, steps[i], &first, &last)) {
            snprintf(t->why, sizeof t->why,
                     "--step: steps %lld to %lld of %s are folded into one (VRAMSCOPE_MAX_BYTES): use --from "
                     "and --to",
                     (long long)first, (long long)last, t->path);
            return t->why;
        }
    snprintf(t->why, sizeof t->why,
             t->steps > 0 ? "--step: %s has steps 1 to %lld"
                          : "--step: %s tells no steps: use --from and --to",
             t->path, (long long)t->steps);
    return t->why;
}

int absent_events(struct trace *t)
{
    if (t->thinned)
        snprintf(t->why, sizeof t->why,
                 "%s has not every event any more: record with vramscope run --max-bytes=0", t->path);
    else if (trace_has_loss(t, LOSS_EVENTS))
        snprintf(
            t->why, sizeof t->why,
            "%s lacks events that were lost, and a replay would be one of another run: vramscope report %s "
            "says how they were lost",
            t->path, t->path);
    else
        return 0;
    return -1;
}

const char *absent_blocks(struct trace *t, int64_t device)
{
    snprintf(t->why, sizeof t->why,
             "%s has no blocks of a framework's allocator%s: vramscope peak %s shows who held its memory",
             t->path, device == UNKNOWN ? "" : " on that device", t->path);
    return t->why;
}
