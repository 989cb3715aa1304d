/*
 * excess.c - why one device of a job holds more than another: what lived at the two peaks, and what the
 * driver had beyond reserved.  Only the two files are read again, and all that is said is a difference of
 * measured bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "read/living.h"
#include "read/stacks.h"
#include "read/tables.h"
#include "trace/roles.h"

/* ---- what lived at the peaks ---- */

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

static bool begins(const char *text, const char *prefix)
{
    return text && !strncmp(text, prefix, strlen(prefix));
}

/* What a communication library asked the driver for, or one of its kernels was given. */
static int64_t communication(const struct trace_live *live, size_t n)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bool library = begins(live[i].category, "direct") &&
                       (begins(live[i].owner, "libnccl") || begins(live[i].owner, "libnvshmem"));
        if (library || vs_role_named(live[i].role) == VS_ROLE_COMMUNICATION)
            bytes += live[i].size;
    }
    return bytes;
}

bool ranks_gather_frame(const struct trace_frame *f)
{
    static const char *const files[] = {"/torch/distributed/", "/deepspeed/"}, *const functions[] = {
                                                                                   "all_gather", "allgather",
                                                                                   "unshard"};
    bool file = false, function = false;
    for (size_t i = 0; f->file && i < sizeof files / sizeof *files; i++)
        file = file || strstr(f->file, files[i]);
    for (size_t i = 0; f->function && i < sizeof functions / sizeof *functions; i++)
        function = function || strstr(f->function, functions[i]);
    return file && function;
}

/* Blocks with such a frame in their call stack: parameters that were gathered, of all ranks. */
static int64_t gathered(struct trace *t, const struct trace_live *live, size_t n)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct trace_frame *frames = NULL;
        size_t count = 0;
        bool gather = false;
        if (!live[i].stack || trace_stack(t, live[i].stack, &frames, &count))
            continue;
        for (size_t k = 0; k < count && !gather; k++)
            gather = ranks_gather_frame(&frames[k]);
        bytes += gather ? live[i].size : 0;
        free(frames);
    }
    return bytes;
}

static struct rank_excess excess_of(const struct lived *low, const struct lived *high, bool exact)
{
    struct rank_excess e = {.words = moved_words(low, high, true, exact)};
    for (int by = MOVED_ROLE; by <= MOVED_LINE; by++)
        e.name[by] = moved_most(low, high, (enum moved_by)by, true, &e.bytes[by]);
    e.communication = communication(high->live, high->n) - communication(low->live, low->n);
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
        e.gathered = gathered(&of_high, high, m) - gathered(&of_low, low, n);
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

/* ---- what is beyond reserved ---- */

/* The residual of DEVICE of FILE with its parts, when the device was fullest. */
static bool residual_at(const struct rank_file *file, const struct rank_device *device,
                        const struct relabel *relabel, struct residual_moment *out)
{
    struct trace t;
    struct trace_sample *samples = NULL;
    struct trace_cost *costs = NULL;
    size_t n = 0, count = 0, kept = 0;
    if (relabel_open(&t, file->path, relabel))
        return false;
    bool good = !trace_samples(&t, device->device, &samples, &n) && !trace_costs(&t, &costs, &count);
    for (size_t i = 0; good && i < count; i++) {
        bool end = costs[i].kind == COST_CONTEXT_END || costs[i].kind == COST_MODULE_END;
        if (costs[i].device == device->device || (end && costs[i].device < 0))
            costs[kept++] = costs[i];
    }
    if (good) {
        struct residual r = residual_of(samples, n, costs, kept);
        good = r.known;
        *out = r.fullest;
    }
    free(samples);
    free(costs);
    trace_close(&t);
    return good;
}

bool ranks_beyond(const struct rank_span *residuals, const struct relabel *relabel, struct rank_beyond *out)
{
    struct residual_moment low, high;
    *out = (struct rank_beyond){.part = NULL};
    if (residuals->n < 2 || residuals->most <= residuals->least || residuals->device->whole_device ||
        residuals->least_device->whole_device ||
        !residual_at(residuals->least_file, residuals->least_device, relabel, &low) ||
        !residual_at(residuals->file, residuals->device, relabel, &high))
        return false;
    for (int part = 0; part < RESIDUAL_PARTS; part++) {
        int64_t more = compare_change(low.parts[part], high.parts[part]);
        if (more != UNKNOWN && more > out->bytes) {
            out->bytes = more;
            out->part = residual_part_name((enum residual_part)part);
        }
    }
    int64_t rest = compare_change(low.unexplained, high.unexplained);
    if (rest != UNKNOWN && rest > out->bytes) {
        out->bytes = rest;
        out->part = "of unknown cause";
    }
    return out->part != NULL;
}
