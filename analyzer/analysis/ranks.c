/* ranks.c - see ranks.h. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

static bool same(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

static bool same_or_none(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* ---- which files are one job ---- */

static bool share_device(const struct rank_file *a, const struct rank_file *b)
{
    for (size_t i = 0; i < a->device_count; i++)
        for (size_t k = 0; k < b->device_count; k++)
            if (same(a->devices[i].uuid, b->devices[k].uuid))
                return true;
    return false;
}

/* ns: tolerance for the hosts' clocks, and for ranks that end before the last one begins */
#define SKEW INT64_C(10000000000)

/* Whether two files ran at the same time, as ranks of a job do because they wait for each other.  Unknown
 * times do not exclude it. */
static bool overlap(const struct rank_file *a, const struct rank_file *b)
{
    if (a->from_ns == UNKNOWN || b->from_ns == UNKNOWN || a->to_ns == UNKNOWN || b->to_ns == UNKNOWN)
        return true;
    return a->from_ns <= b->to_ns + SKEW && b->from_ns <= a->to_ns + SKEW;
}

static bool fits(const struct rank_job *job, const struct rank_file *f)
{
    bool together = false;
    if (job->ranked != (f->rank != UNKNOWN) || (job->ranked && job->world_size != f->world_size))
        return false;
    if (!same_or_none(job->files[0]->labels, f->labels)) /* a launcher's ranks inherit one run's labels */
        return false;
    for (size_t i = 0; job->ranked && i < job->file_count; i++) {
        const struct rank_file *g = job->files[i];
        together = together || overlap(f, g);
        if (g->rank == f->rank && !(same(g->host, f->host) && overlap(f, g) && share_device(f, g)))
            return false;
    }
    return together || !job->ranked;
}

/* Tries the job that began last first, because a rerun may lie beside files of an earlier job. */
static void add_file(struct rank_job **jobs, size_t *count, const struct rank_file *f)
{
    size_t i = *count;
    while (i > 0 && !fits(&(*jobs)[i - 1], f))
        i--;
    struct rank_job *job = i ? &(*jobs)[i - 1] : PUSH(*jobs, *count);
    if (!i)
        *job = (struct rank_job){.world_size = f->world_size, .ranked = f->rank != UNKNOWN};
    *PUSH(job->files, job->file_count) = f;
}

static int by_start(const void *a, const void *b)
{
    const struct rank_file *x = *(const struct rank_file *const *)a, *y = *(const struct rank_file *const *)b;
    if ((x->rank == UNKNOWN) != (y->rank == UNKNOWN))
        return x->rank == UNKNOWN ? 1 : -1;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    return x < y ? -1 : x > y; /* in the order of the arguments */
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_file *x = *(const struct rank_file *const *)a, *y = *(const struct rank_file *const *)b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int64_t amount(int64_t n)
{
    return n == UNKNOWN ? 0 : n;
}

static int by_address(const void *a, const void *b)
{
    const struct rank_device *x = *(const struct rank_device *const *)a,
                             *y = *(const struct rank_device *const *)b;
    return x < y ? -1 : x > y;
}

/* Whether F holds more on another device than on D. */
static bool holds_more_elsewhere(const struct rank_file *f, const struct rank_device *d)
{
    for (size_t i = 0; i < f->device_count; i++)
        if (amount(f->devices[i].reserved) > amount(d->reserved))
            return true;
    return false;
}

static void set_aside(struct rank_job *job)
{
    size_t n;
    struct rank_gpu *gpus = ranks_shared_gpus(job, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < gpus[i].other_count; k++)
            if (holds_more_elsewhere(gpus[i].others[k], gpus[i].other_devices[k]))
                *PUSH(job->aside, job->aside_count) = gpus[i].other_devices[k];
    ranks_free_gpus(gpus, n);
    if (job->aside_count)
        qsort(job->aside, job->aside_count, sizeof *job->aside, by_address);
}

static bool lies_aside(const struct rank_job *job, const struct rank_device *d)
{
    return job->aside_count && bsearch(&d, job->aside, job->aside_count, sizeof *job->aside, by_address);
}

struct rank_job *ranks_jobs(const struct rank_file *files, size_t n, size_t *count)
{
    struct rank_job *jobs = NULL;
    const struct rank_file **order = xrealloc(NULL, (n + 1) * sizeof *order);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        order[i] = &files[i];
    qsort(order, n, sizeof *order, by_start);
    for (size_t i = 0; i < n; i++)
        add_file(&jobs, count, order[i]);
    for (size_t i = 0; i < *count; i++) {
        qsort(jobs[i].files, jobs[i].file_count, sizeof *jobs[i].files, by_rank);
        set_aside(&jobs[i]);
    }
    free(order);
    return jobs;
}

void ranks_free_jobs(struct rank_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(jobs[i].files);
        free(jobs[i].aside);
    }
    free(jobs);
}

static void free_device(struct rank_device *d)
{
    for (size_t i = 0; i < d->phase_count; i++)
        free(d->phases[i].name);
    free(d->phases);
    free(d->uuid);
    free(d->phase_at_peak);
    free(d->line);
}

void ranks_free_file(struct rank_file *f)
{
    char *texts[] = {f->label, f->path, f->host, f->command, f->state, f->labels, f->dry};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    for (size_t i = 0; i < f->device_count; i++)
        free_device(&f->devices[i]);
    free(f->devices);
}

/* ---- who is missing ---- */

#define WORLD_MOST 1000000 /* a larger number is not a world size */

int64_t *ranks_missing(const struct rank_job *job, size_t *n)
{
    int64_t *missing = NULL;
    size_t at = 0;
    *n = 0;
    if (!job->ranked || job->world_size == UNKNOWN || job->world_size > WORLD_MOST)
        return NULL;
    for (int64_t rank = 0; rank < job->world_size; rank++) { /* both are in order */
        while (at < job->file_count && job->files[at]->rank < rank)
            at++;
        if (at == job->file_count || job->files[at]->rank != rank)
            *PUSH(missing, *n) = rank;
    }
    return missing;
}

bool ranks_whole(const struct rank_job *job)
{
    size_t missing;
    free(ranks_missing(job, &missing));
    for (size_t i = 0; i < job->file_count; i++)
        if (!job->files[i]->whole)
            return false;
    return missing == 0;
}

/* ---- figures over ranks ---- */

struct sum {
    struct rank_span span;
    double total;
};

static void take(struct sum *s, int64_t value, const struct rank_file *f, const struct rank_device *d)
{
    if (value == UNKNOWN)
        return;
    if (!s->span.n || value < s->span.least) {
        s->span.least = value;
        s->span.least_file = f;
        s->span.least_device = d;
    }
    if (!s->span.n || value > s->span.most) {
        s->span.most = value;
        s->span.file = f;
        s->span.device = d;
    }
    s->span.n++;
    s->total += (double)value;
}

static struct rank_span finish(struct sum *s)
{
    if (!s->span.n)
        return (struct rank_span){.least = UNKNOWN, .mean = UNKNOWN, .most = UNKNOWN};
    s->span.mean = (int64_t)(s->total / (double)s->span.n);
    return s->span;
}

struct rank_span ranks_span(const struct rank_job *job, enum rank_figure figure)
{
    struct sum s = {.total = 0};
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < job->files[i]->device_count; k++) {
            const struct rank_device *d = &job->files[i]->devices[k];
            int64_t values[] = {d->allocated, d->reserved, d->residual};
            if (!lies_aside(job, d))
                take(&s, values[figure], job->files[i], d);
        }
    return finish(&s);
}

static void take_phases(struct sum *s, const struct rank_file *f, const struct rank_device *d,
                        const char *name, enum rank_phase_figure figure)
{
    for (size_t i = 0; i < d->phase_count; i++) {
        const struct rank_phase *p = &d->phases[i];
        int64_t values[] = {p->allocated, p->reserved, p->ns};
        if (same(p->name, name))
            take(s, values[figure], f, d);
    }
}

struct rank_span ranks_phase_span(const struct rank_job *job, const char *name, enum rank_phase_figure figure)
{
    struct sum s = {.total = 0};
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < job->files[i]->device_count; k++)
            if (!lies_aside(job, &job->files[i]->devices[k]))
                take_phases(&s, job->files[i], &job->files[i]->devices[k], name, figure);
    return finish(&s);
}

static void add_name(const char ***names, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (same((*names)[i], name))
            return;
    if (name)
        *PUSH(*names, *n) = name;
}

const char **ranks_phases(const struct rank_job *job, size_t *n)
{
    const char **names = NULL;
    *n = 0;
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < job->files[i]->device_count; k++)
            for (size_t p = 0; p < job->files[i]->devices[k].phase_count; p++)
                add_name(&names, n, job->files[i]->devices[k].phases[p].name);
    return names;
}

/* ---- GPUs that several files used ---- */

struct use { /* of a GPU by a file */
    const struct rank_file *file;
    const struct rank_device *device;
};

static int order(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

/* By GPU, and of one GPU who reserved most first. */
static int by_gpu(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    int64_t most = amount(x->device->reserved), other = amount(y->device->reserved);
    int c = order(x->file->host, y->file->host);
    c = c ? c : order(x->device->uuid, y->device->uuid);
    if (c || most != other)
        return c ? c : most > other ? -1 : 1;
    return x->file->rank != y->file->rank ? (x->file->rank < y->file->rank ? -1 : 1)
           : x->file < y->file            ? -1
                                          : 1;
}

static bool same_gpu(const struct use *a, const struct use *b)
{
    return same(a->file->host, b->file->host) && same(a->device->uuid, b->device->uuid);
}

static int64_t driver_bytes(const struct rank_device *d)
{
    return amount(d->reserved) + (d->whole_device ? 0 : amount(d->residual));
}

static int by_foreign(const void *a, const void *b)
{
    const struct rank_gpu *x = a, *y = b;
    if (x->foreign != y->foreign)
        return x->foreign > y->foreign ? -1 : 1;
    return x->owner->rank != y->owner->rank ? (x->owner->rank < y->owner->rank ? -1 : 1)
                                            : order(x->device->uuid, y->device->uuid);
}

/* Whether both ran at the same time, by their host's one clock.  Unknown times do not exclude it. */
static bool at_once(const struct rank_file *a, const struct rank_file *b)
{
    if (a->from_ns == UNKNOWN || b->from_ns == UNKNOWN || a->to_ns == UNKNOWN || b->to_ns == UNKNOWN)
        return true;
    return a->from_ns < b->to_ns && b->from_ns < a->to_ns;
}

/* Reorders USES so that those that ran at the same time as the first one follow it directly; returns how many
 * these are, the first included. */
static size_t beside_first(struct use *uses, size_t n)
{
    size_t together = 1;
    for (size_t i = 1; i < n; i++) {
        if (!at_once(uses[0].file, uses[i].file))
            continue;
        struct use moved = uses[i];
        memmove(&uses[together + 1], &uses[together], (i - together) * sizeof *uses);
        uses[together++] = moved;
    }
    return together;
}

static struct rank_gpu gpu_of(const struct use *uses, size_t n)
{
    struct rank_gpu g = {
        .owner = uses[0].file, .device = uses[0].device, .own = driver_bytes(uses[0].device)};
    g.others = xrealloc(NULL, n * sizeof *g.others);
    g.other_devices = xrealloc(NULL, n * sizeof *g.other_devices);
    for (size_t i = 1; i < n; i++) {
        const struct rank_device *d = uses[i].device;
        g.others[g.other_count] = uses[i].file;
        g.other_devices[g.other_count++] = d;
        g.foreign += driver_bytes(d);
        g.foreign_allocated += amount(d->allocated);
        g.at_least = g.at_least || d->whole_device || d->residual == UNKNOWN;
    }
    return g;
}

struct rank_gpu *ranks_shared_gpus(const struct rank_job *job, size_t *n)
{
    struct rank_gpu *gpus = NULL;
    struct use *uses = NULL;
    size_t count = 0, next;
    *n = 0;
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < job->files[i]->device_count; k++)
            if (job->files[i]->devices[k].uuid)
                *PUSH(uses, count) = (struct use){job->files[i], &job->files[i]->devices[k]};
    if (count)
        qsort(uses, count, sizeof *uses, by_gpu);
    for (size_t i = 0; i < count; i = next) {
        for (next = i + 1; next < count && same_gpu(&uses[i], &uses[next]); next++) {
        }
        next = i + beside_first(&uses[i], next - i); /* the rest is another group */
        if (next > i + 1)
            *PUSH(gpus, *n) = gpu_of(&uses[i], next - i);
    }
    free(uses);
    if (*n)
        qsort(gpus, *n, sizeof *gpus, by_foreign);
    return gpus;
}

void ranks_free_gpus(struct rank_gpu *gpus, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(gpus[i].others);
        free(gpus[i].other_devices);
    }
    free(gpus);
}

/* ---- hosts and devices ---- */

size_t ranks_hosts(const struct rank_job *job)
{
    const char **hosts = NULL;
    size_t n = 0;
    for (size_t i = 0; i < job->file_count; i++)
        add_name(&hosts, &n, job->files[i]->host);
    free(hosts);
    return n;
}

/* Whether two different devices of one host have the same number. */
static bool confused(const struct rank_file *a, const struct rank_file *b)
{
    for (size_t i = 0; same(a->host, b->host) && i < a->device_count; i++)
        for (size_t k = 0; k < b->device_count; k++)
            if (a->devices[i].device == b->devices[k].device && !same(a->devices[i].uuid, b->devices[k].uuid))
                return true;
    return false;
}

bool ranks_need_uuid(const struct rank_job *job)
{
    for (size_t i = 0; i < job->file_count; i++)
        for (size_t k = 0; k < i; k++)
            if (confused(job->files[i], job->files[k]))
                return true;
    return false;
}
