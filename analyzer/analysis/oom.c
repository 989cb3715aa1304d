/* oom.c - see oom.h. */
#include "oom.h"

#include <stdlib.h>
#include <string.h>

/* ---- by how much ---- */

static int64_t or_zero(int64_t n)
{
    return n == UNKNOWN ? 0 : n;
}

/* An expandable segment is requested piece by piece, so the need is that of the block. */
static int64_t asked_of_driver(const struct trace_oom_kept *o)
{
    int64_t asked = or_zero(o->asked_driver);
    return asked > o->requested ? asked : o->requested;
}

/* Uses the driver's figures and ours only if they are of one moment.  Otherwise memory that was allocated or
 * freed in between would look like another process's. */
static void what_else_is_there(const struct trace_oom_kept *o, struct oom_need *n, int64_t total)
{
    if (n->returned == UNKNOWN || total == UNKNOWN)
        return;
    int64_t beyond = total - o->free - o->reserved_then;
    bool asked_together = o->process_used != UNKNOWN && o->process_used_t >= o->free_t;
    int64_t residual = asked_together ? o->process_used - o->reserved_then : UNKNOWN;
    if (asked_together && residual >= 0 && beyond >= residual) {
        n->residual = residual;
        n->others = beyond - residual;
    } else if (beyond >= 0) {
        n->beyond = beyond;
    }
}

/* The bytes that the framework gave back between the driver's refusal and giving up.  UNKNOWN if no request
 * reached the driver, or if other threads allocated more meanwhile than was given back. */
static int64_t returned_of(const struct trace_oom_kept *o)
{
    if (o->free == UNKNOWN || o->reserved_then == UNKNOWN || o->reserved_then < o->reserved)
        return UNKNOWN;
    return o->reserved_then - o->reserved;
}

/* The bytes that the driver could have given at once. */
static int64_t available(const struct trace_oom_kept *o, const struct oom_need *n)
{
    return o->free + or_zero(n->returned);
}

static enum oom_cause cause_of(const struct trace_oom_kept *o, const struct oom_need *n, int64_t total)
{
    bool gave_up = o->op == OOM_FRAMEWORK;
    if (total != UNKNOWN && o->device >= 0 && o->requested > total)
        return OOM_TOO_LARGE;
    if (gave_up && or_zero(o->refusals) == 0 && o->free == UNKNOWN) /* an import has one without the other */
        return OOM_NOT_ASKED;
    if (o->free == UNKNOWN || o->requested <= 0)
        return OOM_UNKNOWN;
    if (n->short_by <= 0)
        return OOM_THOUGH_FREE;
    return gave_up && n->usable > 0 && available(o, n) + n->usable >= o->requested ? OOM_FRAGMENTED
                                                                                   : OOM_SHORT;
}

struct oom_need oom_need_of(const struct trace_oom_kept *o, int64_t total, int64_t usable)
{
    struct oom_need n = {.asked = asked_of_driver(o),
                         .usable = usable,
                         .returned = returned_of(o),
                         .short_by = UNKNOWN,
                         .missing = UNKNOWN,
                         .residual = UNKNOWN,
                         .others = UNKNOWN,
                         .beyond = UNKNOWN};
    n.unused = or_zero(o->managed) > or_zero(o->framework) ? o->managed - or_zero(o->framework) : 0;
    if (o->free != UNKNOWN && o->requested > 0)
        n.short_by = n.asked - available(o, &n);
    n.cause = cause_of(o, &n, total);
    if (n.cause == OOM_SHORT)
        n.missing = o->op == OOM_FRAMEWORK ? o->requested - available(o, &n) - or_zero(usable) : n.short_by;
    what_else_is_there(o, &n, total);
    return n;
}

/* ---- which one ---- */

const struct trace_oom_kept *oom_last(const struct trace_oom_kept *kept, size_t n)
{
    const struct trace_oom_kept *last = NULL;
    for (size_t i = 0; i < n; i++)
        if ((kept[i].role & (OOM_LAST | OOM_OPEN)) && (!last || kept[i].seq > last->seq))
            last = &kept[i];
    return last;
}

const struct trace_oom_kept *oom_with_role(const struct trace_oom_kept *kept, size_t n, int64_t role,
                                           int64_t device)
{
    for (size_t i = 0; i < n; i++)
        if ((kept[i].role & role) && (device == UNKNOWN || kept[i].device == device))
            return &kept[i];
    return NULL;
}

const char *oom_cause_name(enum oom_cause cause)
{
    static const char *const names[] = {"unknown", "larger than the device", "driver not asked", "fragmented",
                                        "short",   "refused though free"};
    return names[cause];
}
