/*
 * excess.c - why one device of a job peaked higher than another: what lived at the two peaks, beside each
 * other.
 */
#include <stdlib.h>

#include "ranks.h"

/* What lived at the peak of DEVICE of FILE, in *T, which stays open where this is true. */
static bool lived_at(const struct rank_file *file, const struct rank_device *device,
                     const struct relabel *relabel, struct trace *t, struct trace_live **live, size_t *n)
{
    *live = NULL;
    if (relabel_open(t, file->path, relabel))
        return false;
    if (!trace_live(t, device->device, live, n))
        return true;
    free(*live);
    trace_close(t);
    return false;
}

static struct rank_excess excess_of(const struct lived *low, const struct lived *high, bool exact)
{
    struct rank_excess e = {.words = moved_words(low, high, true, exact)};
    for (int by = MOVED_ROLE; by <= MOVED_LINE; by++)
        e.name[by] = moved_most(low, high, (enum moved_by)by, true, &e.bytes[by]);
    return e;
}

struct rank_excess ranks_excess(const struct rank_span *peaks, const struct relabel *relabel, bool exact)
{
    struct rank_excess e = {.words = NULL};
    struct trace of_low, of_high;
    struct trace_live *low, *high;
    size_t n, m;
    if (peaks->n < 2 || peaks->most <= peaks->least ||
        !lived_at(peaks->least_file, peaks->least_device, relabel, &of_low, &low, &n))
        return e;
    if (lived_at(peaks->file, peaks->device, relabel, &of_high, &high, &m)) {
        e = excess_of(&(struct lived){low, n}, &(struct lived){high, m}, exact);
        free(high);
        trace_close(&of_high);
    }
    free(low);
    trace_close(&of_low);
    return e;
}

void ranks_free_excess(struct rank_excess *e)
{
    for (size_t i = 0; i < sizeof e->name / sizeof *e->name; i++)
        free(e->name[i]);
    free(e->words);
}
