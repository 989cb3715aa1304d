/* json.c - the jobs of several files for programs (see vramscope-report(1)). */
#include <stdlib.h>

#include "ranks.h"
#include "trace/roles.h"

static void span_json(struct json *j, const char *name, const struct rank_span *s, const char *unit)
{
    char *least = xformat("min_%s", unit), *mean = xformat("mean_%s", unit), *most = xformat("max_%s", unit);
    json_begin(j, name, '{');
    json_int(j, "devices", (int64_t)s->n);
    json_int(j, least, s->least);
    json_int(j, mean, s->mean);
    json_int(j, most, s->most);
    json_int(j, "max_rank", s->file ? s->file->rank : UNKNOWN);
    json_text(j, "max_file", s->file ? s->file->path : NULL);
    json_int(j, "max_device", s->device ? s->device->device : UNKNOWN);
    json_text(j, "max_line", s->device ? s->device->line : NULL);
    json_end(j);
    free(least);
    free(mean);
    free(most);
}

static void phases_json(const struct rank_job *job, struct json *j)
{
    size_t n;
    const char **names = ranks_phases(job, &n);
    json_begin(j, "phases", '[');
    for (size_t i = 0; i < n; i++) {
        struct rank_span a = ranks_phase_span(job, names[i], PHASE_ALLOCATED),
                         r = ranks_phase_span(job, names[i], PHASE_RESERVED),
                         t = ranks_phase_span(job, names[i], PHASE_TIME);
        json_begin(j, NULL, '{');
        json_text(j, "phase", names[i]);
        span_json(j, "peak_allocated", &a, "bytes");
        span_json(j, "peak_reserved", &r, "bytes");
        span_json(j, "time", &t, "ns");
        json_end(j);
    }
    json_end(j);
    free(names);
}

static void lists_json(const struct rank_job *job, struct json *j)
{
    size_t n;
    int64_t *missing = ranks_missing(job, &n);
    json_begin(j, "missing_ranks", '[');
    for (size_t i = 0; i < n; i++)
        json_int(j, NULL, missing[i]);
    json_end(j);
    json_begin(j, "files", '[');
    for (size_t i = 0; i < job->file_count; i++)
        json_text(j, NULL, job->files[i]->path);
    json_end(j);
    free(missing);
}

/* What the device with the highest peak held beyond the one with the lowest. */
static void excess_json(const struct rank_span *peaks, const struct relabel *relabel, struct json *j)
{
    static const char *const names[][2] = {[MOVED_ROLE] = {"what", "what_bytes"},
                                           [MOVED_LAYER] = {"layer", "layer_bytes"},
                                           [MOVED_LINE] = {"line", "line_bytes"}};
    struct rank_excess e = ranks_excess(peaks, relabel, true);
    json_begin(j, "max_over_min", '{');
    json_int(j, "size_bytes", peaks->n ? peaks->most - peaks->least : UNKNOWN);
    json_int(j, "min_rank", peaks->least_file ? peaks->least_file->rank : UNKNOWN);
    json_text(j, "min_file", peaks->least_file ? peaks->least_file->path : NULL);
    json_int(j, "min_device", peaks->least_device ? peaks->least_device->device : UNKNOWN);
    for (int by = MOVED_ROLE; by <= MOVED_LINE; by++) {
        json_text(j, names[by][0], e.name[by]);
        json_int(j, names[by][1], e.name[by] ? e.bytes[by] : UNKNOWN);
    }
    json_text(j, "old_what", vs_role_before(e.name[MOVED_ROLE]));
    json_int(j, "communication_bytes", e.communication);
    json_int(j, "gathered_bytes", e.gathered);
    json_end(j);
    ranks_free_excess(&e);
}

static void shared_json(const struct rank_job *job, struct json *j)
{
    size_t n;
    struct rank_gpu *gpus = ranks_shared_gpus(job, &n);
    json_begin(j, "shared_gpus", '[');
    for (size_t i = 0; i < n; i++) {
        const struct rank_gpu *g = &gpus[i];
        json_begin(j, NULL, '{');
        json_text(j, "host", g->owner->host);
        json_text(j, "uuid", g->device->uuid);
        json_int(j, "rank", g->owner->rank);
        json_text(j, "file", g->owner->path);
        json_int(j, "own_bytes", g->own);
        json_int(j, "others_bytes", g->foreign);
        json_int(j, "others_allocated_bytes", g->foreign_allocated);
        json_bool(j, "at_least", g->at_least);
        json_begin(j, "others", '[');
        for (size_t k = 0; k < g->other_count; k++)
            json_text(j, NULL, g->others[k]->path);
        json_end(j);
        json_end(j);
    }
    json_end(j);
    ranks_free_gpus(gpus, n);
}

static void beyond_json(const struct rank_span *residual, const struct relabel *relabel, struct json *j)
{
    struct rank_beyond b;
    bool known = ranks_beyond(residual, relabel, &b);
    json_begin(j, "residual_over_min", '{');
    json_text(j, "part", b.part);
    json_int(j, "part_bytes", known ? b.bytes : UNKNOWN);
    json_end(j);
}

static void job_json(const struct rank_job *job, const struct relabel *relabel, struct json *j)
{
    struct rank_span allocated = ranks_span(job, FIGURE_ALLOCATED),
                     reserved = ranks_span(job, FIGURE_RESERVED), residual = ranks_span(job, FIGURE_RESIDUAL);
    json_begin(j, NULL, '{');
    json_bool(j, "ranked", job->ranked);
    json_bool(j, "complete", ranks_whole(job));
    json_int(j, "world_size", job->world_size);
    json_text(j, "labels", job->files[0]->labels);
    json_int(j, "hosts", (int64_t)ranks_hosts(job));
    lists_json(job, j);
    span_json(j, "peak_allocated", &allocated, "bytes");
    excess_json(&allocated, relabel, j);
    span_json(j, "peak_reserved", &reserved, "bytes");
    span_json(j, "residual", &residual, "bytes");
    beyond_json(&residual, relabel, j);
    shared_json(job, j);
    phases_json(job, j);
    json_end(j);
}

bool ranks_json(const struct rank_file *files, size_t n, const struct relabel *relabel, struct json *j)
{
    size_t count;
    bool whole = true;
    struct rank_job *jobs = ranks_jobs(files, n, &count);
    json_begin(j, "jobs", '[');
    for (size_t i = 0; i < count; i++) {
        job_json(&jobs[i], relabel, j);
        whole = whole && ranks_whole(&jobs[i]);
    }
    json_end(j);
    ranks_free_jobs(jobs, count);
    return whole;
}
