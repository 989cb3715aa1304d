/* point.c - runs, reads and clears one point's folder (point.h). */
#include "point.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/destination.h"
#include "read/leftover.h"
#include "read/trace.h"
#include "read/ooms.h"
#include "read/steps.h"

#define DEVICES_MOST 64

const char *const outcome_names[OUTCOMES + 1] = {"ok", "oom", "crash", "hang", "between", "unknown", NULL};

/* ---- recordings ---- */

static int64_t peak_of(const struct trace *t, int64_t device, const char *kind)
{
    const struct trace_peak *p = trace_find_peak(t, device, kind);
    return trace_peak_bytes(p);
}

static void take_peaks(struct rank_figures *r, const struct trace *t)
{
    for (int64_t d = 0; d < DEVICES_MOST; d++) {
        int64_t reserved = peak_of(t, d, "reserved");
        if (reserved == UNKNOWN || (r->reserved != UNKNOWN && reserved <= r->reserved))
            continue;
        r->reserved = reserved;
        r->allocated = peak_of(t, d, "allocated");
        r->framework_allocated = peak_of(t, d, "framework");
        r->framework_reserved = peak_of(t, d, "managed_reserved");
        if (r->framework_allocated == 0)
            r->framework_allocated = r->framework_reserved = UNKNOWN;
    }
}

/* The first step has what is made once: it does not count. */
static double rate_of(struct trace *t)
{
    struct trace_step_end *ends = NULL;
    size_t n = 0;
    double rate = NAN;
    if (!trace_step_ends(t, &ends, &n) && n >= 2 && ends[n - 1].t > ends[0].t)
        rate = (double)(n - 1) / ((double)(ends[n - 1].t - ends[0].t) / 1e9);
    free(ends);
    return rate;
}

/* Whether the recording says that it ran out of memory. */
static bool read_rank(struct rank_figures *r, const char *path)
{
    struct trace t;
    *r = (struct rank_figures){xstrdup(path), false,   UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
                               UNKNOWN,       UNKNOWN, UNKNOWN, NAN,     UNKNOWN};
    if (trace_open(&t, path))
        return false;
    r->readable = t.end != TRACE_END_RUNNING;
    r->rank = t.process.rank;
    r->world_size = t.process.driver == VS_DRIVER_DRY ? UNKNOWN : t.process.world_size; /* some will do */
    r->steps = t.steps;
    take_peaks(r, &t);
    r->rate = t.process.driver == VS_DRIVER_DRY ? NAN : rate_of(&t); /* nothing was computed */
    r->refused = trace_last_refused(&t);
    bool oom = r->refused != UNKNOWN || (!trace_load_ooms(&t) && t.oom_total > 0);
    trace_close(&t);
    return oom;
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_figures *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void free_ranks(struct point *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->ranks[i].path);
    free(p->ranks);
    p->ranks = NULL;
    p->n = 0;
}

/* Whether one of them ran out of memory. */
static bool read_ranks(struct point *p)
{
    char why[512];
    size_t n = 0;
    bool oom = false;
    free_ranks(p);
    p->expected = 1;
    char **files = trace_files(&p->folder, 1, &n, why, sizeof why);
    for (size_t i = 0; files && i < n; i++) {
        struct rank_figures *r = PUSH(p->ranks, p->n);
        oom = read_rank(r, files[i]) || oom;
        if (r->world_size != UNKNOWN && r->world_size > p->expected)
            p->expected = r->world_size;
    }
    if (files)
        trace_free_files(files, n);
    if (p->n)
        qsort(p->ranks, p->n, sizeof *p->ranks, by_rank);
    return oom;
}

/* ---- outcomes ---- */

void point_begin(struct point *p, const struct grid *g, const char *folder, const char *const *values)
{
    *p = (struct point){.expected = 1};
    for (size_t a = 0; a < g->n; a++)
        p->values[a] = xstrdup(values[a]);
    p->name = grid_name(g, p->values);
    p->folder = xformat("%s/%s", folder, p->name);
    point_load(p);
}

bool point_answer(struct point *p)
{
    char *path = xformat("%s/answer", p->folder);
    dry_answer_free(&p->dry);
    dry_answer_read(&p->dry, path);
    free(path);
    return p->dry.there;
}

void point_load(struct point *p)
{
    char word[16] = "", *path = xformat("%s/outcome", p->folder);
    int left = 0;
    FILE *in = fopen(path, "r");
    p->done = false;
    p->predicted_allocated = p->predicted_reserved = UNKNOWN;
    if (in && fscanf(in, "%15s %d %" SCNd64 " %d", word, &p->status, &p->ns, &left) == 4)
        for (int i = 0; i < OUTCOMES; i++)
            if (!strcmp(word, outcome_names[i])) {
                p->outcome = (enum outcome)i;
                p->done = true;
            }
    p->left = left != 0;
    if (in)
        fclose(in);
    free(path);
    if (!p->done)
        return;
    point_answer(p);
    read_ranks(p);
}

static int write_outcome(const struct point *p, const char *who)
{
    char *path = xformat("%s/outcome", p->folder);
    struct destination to;
    FILE *out = destination_open(&to, who, path);
    if (out)
        fprintf(out, "%s %d %" PRId64 " %d\n", outcome_names[p->outcome], p->status, p->ns, p->left);
    int bad = out ? destination_close(&to, out, true) : 2;
    free(path);
    return bad;
}

static enum outcome outcome_of(const struct point *p, const struct child_end *end, bool oom)
{
    static const struct {
        const char *verdict;
        enum outcome outcome;
    } of[] = {{"fits", POINT_OK}, {"does not fit", POINT_OOM}, {"failed", POINT_CRASH}};
    if (end->timed_out)
        return POINT_HANG;
    if (!p->dry.there)
        return end->status == 0 ? POINT_OK : oom ? POINT_OOM : POINT_CRASH;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (p->dry.verdict && !strcmp(p->dry.verdict, of[i].verdict))
            return of[i].outcome == POINT_CRASH || p->dry.certain ? of[i].outcome : POINT_BETWEEN;
    return POINT_UNKNOWN;
}

int point_finish(struct point *p, const struct child_end *end, const char *who)
{
    p->status = end->status;
    p->ns = end->ns;
    p->left = end->left;
    bool oom = read_ranks(p);
    p->outcome = outcome_of(p, end, oom);
    int bad = write_outcome(p, who);
    p->done = !bad;
    return bad;
}

/* What a killed process left for DATABASE in memory is for nobody once that is gone. */
static void remove_journal(const char *database)
{
    char *journal = leftover_find(database), *names = NULL, why[256];
    long events;
    if (journal && leftover_database(journal, &names, why, sizeof why) == LEFTOVER_DEAD)
        leftover_merge(journal, NULL, &events, why, sizeof why);
    free(names);
    free(journal);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    remove(path);
    return 0;
}

/* The last is of a `fit` that was killed. */
static void clear(const struct point *p, bool journals)
{
    DIR *folder = opendir(p->folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        bool run = !strncmp(e->d_name, "run", 3);
        size_t n = strlen(e->d_name);
        char *path = xformat("%s/%s", p->folder, e->d_name);
        if (!journals && !strncmp(e->d_name, ".vramscope-dry-", 15))
            nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
        if (journals && run && n > 3 && !strcmp(e->d_name + n - 3, ".db"))
            remove_journal(path);
        else if (!journals && (run || !strcmp(e->d_name, "log") || !strcmp(e->d_name, "outcome") ||
                               !strcmp(e->d_name, "answer")))
            unlink(path);
        free(path);
    }
    if (folder)
        closedir(folder);
}

void point_clear(const struct point *p)
{
    clear(p, true); /* which needs the databases with their logs */
    clear(p, false);
}

void point_free(struct point *p)
{
    free_ranks(p);
    dry_answer_free(&p->dry);
    for (size_t a = 0; a < GRID_AXES; a++)
        free(p->values[a]);
    free(p->name);
    free(p->folder);
}

char *point_status(const struct point *p)
{
    if (p->dry.there)
        return xstrdup(p->outcome >= POINT_CRASH && p->dry.why ? p->dry.why : "");
    if (WIFSIGNALED(p->status))
        return xformat("signal %d", WTERMSIG(p->status));
    return WEXITSTATUS(p->status) ? xformat("exit %d", WEXITSTATUS(p->status)) : xstrdup("");
}

int64_t point_refused(const struct point *p)
{
    int64_t most = UNKNOWN;
    for (size_t i = 0; p->outcome == POINT_OOM && i < p->n; i++)
        if (p->ranks[i].refused > 0 && p->ranks[i].refused > most)
            most = p->ranks[i].refused;
    return most;
}

static double figure(const struct rank_figures *r, enum point_figure what)
{
    int64_t n = what == FIGURE_POINT_ALLOCATED   ? r->allocated
                : what == FIGURE_POINT_RESERVED  ? r->reserved
                : what == FIGURE_POINT_FRAMEWORK ? r->framework_reserved
                                                 : UNKNOWN;
    if (what == FIGURE_POINT_RATE)
        return r->rate;
    return n == UNKNOWN ? NAN : (double)n;
}

bool point_span(const struct point *p, enum point_figure what, double *least, double *mean, double *greatest)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        double x = figure(&p->ranks[i], what);
        if (isnan(x))
            continue;
        *least = n == 0 || x < *least ? x : *least;
        *greatest = n == 0 || x > *greatest ? x : *greatest;
        sum += x;
        n++;
    }
    *mean = n ? sum / (double)n : NAN;
    return n > 0;
}
