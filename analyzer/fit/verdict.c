/*
 * verdict.c - what a dry run says (reply.h).
 *
 *      memory ran out  >  what is not simulated was called  >  it failed  >  nothing was recorded  >  it fits
 *
 * The first that holds is the verdict: what comes after a refusal is no word against it.  Where PyTorch
 * refused at a limit that the program set, the device was not asked: that is no word about the device.
 */
#include "reply.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/shown.h"
#include "base/units.h"
#include "read/steps.h"
#include "read/tape.h"
#include "read/trace.h"
#include "replay/layouts.h"
#include "show/report/report.h"

/* ---- figures ---- */

/* The guesses that a run tried at their most, and how many; the caller frees them. */
static struct mixed_guess *guesses_of(const struct facts *facts, size_t *n)
{
    struct mixed_guess *all = NULL;
    *n = 0;
    for (size_t i = 0; i < facts->n; i++) {
        const char *const *fields = facts->all[i].fields;
        struct mixed_guess g = {strtoll(fields[2], NULL, 10), strtoll(fields[3], NULL, 10),
                                strtoll(fields[4], NULL, 10)};
        if (facts->all[i].kind == FACT_GUESS && g.most > 0 && g.least >= 0 && g.likely >= 0)
            *PUSH(all, *n) = g;
    }
    return all;
}

/* What the figures lie between, wherever the driver puts memory, and with other guesses. */
static void find_layouts(struct peaks *p, struct trace *t, const struct attempt *a)
{
    size_t n = 0;
    const struct trace_tape *tape = p->framework ? trace_tape(t, p->device) : NULL;
    if (!tape)
        return;
    struct mixed_guess *guesses = a->assumption == ASSUME_SECOND ? guesses_of(&a->facts, &n) : NULL;
    layouts_try(tape, p->total, p->allocated, p->reserved, p->world_size > 1, &p->layouts);
    mixed_try(tape, p->total, guesses, n, p->allocated, p->reserved, &p->layouts);
    free(guesses);
}

/* Of the device where the rank reserves most. */
static void take_allocated(struct verdict *v, const struct report *r)
{
    const struct device_report *fullest = NULL;
    for (size_t i = 0; i < r->device_count; i++)
        if (!fullest || trace_peak_bytes(r->devices[i].reserved) > trace_peak_bytes(fullest->reserved))
            fullest = &r->devices[i];
    int64_t bytes = fullest ? trace_peak_bytes(fullest->framework) : UNKNOWN;
    if (bytes == UNKNOWN)
        return;
    v->least = v->least == UNKNOWN || bytes < v->least ? bytes : v->least;
    v->most = bytes > v->most ? bytes : v->most;
}

static void take_device(struct peaks *p, struct trace *t, const struct device_report *d,
                        const struct attempt *a)
{
    const struct trace_peak *managed = trace_find_peak(t, d->device, "managed_reserved");
    int64_t driver = trace_peak_bytes(d->reserved);
    if (driver == UNKNOWN || (p->driver != UNKNOWN && driver <= p->driver))
        return;
    free(p->phase);
    *p = (struct peaks){.framework = managed && managed->bytes > 0,
                        .phase = d->phase_at_peak ? xstrdup(d->phase_at_peak) : NULL,
                        .step = d->step_at_peak,
                        .total = d->total_bytes,
                        .steps = t->steps,
                        .driver = driver,
                        .residual = d->residual.known ? d->residual.fullest.residual : UNKNOWN,
                        .device = d->device,
                        .rank = t->process.rank,
                        .world_size = t->process.world_size};
    p->allocated = trace_peak_bytes(p->framework ? d->framework : d->allocated);
    p->reserved = p->framework ? trace_peak_bytes(managed) : driver;
    p->layouts = (struct layouts){0, 0, p->allocated, p->allocated, p->reserved, p->reserved};
    find_layouts(p, t, a);
}

/* The limit that the program had set and O met, below what the device has; 0: none. */
static uint64_t limit_at(const struct trace_tape *tape, const struct trace_oom_kept *o, int64_t total)
{
    if (oom_need_of(o, total, UNKNOWN).cause != OOM_NOT_ASKED)
        return 0;
    for (size_t i = 0; i < tape->refusal_count; i++)
        if (tape->refusals[i].seq == o->seq)
            return total == UNKNOWN || tape->refusals[i].limit < (uint64_t)total ? tape->refusals[i].limit
                                                                                 : 0;
    return 0;
}

/* The last of these limits, where no request that reached the program was one of the driver; else 0. */
static uint64_t own_limit(const struct oom_report *r, struct trace *t)
{
    uint64_t limit = 0;
    const struct trace_tape *tape = r->need.cause == OOM_NOT_ASKED ? trace_tape(t, r->lead->device) : NULL;
    for (size_t i = 0; tape && i < r->kept_count && (i == 0 || limit); i++)
        limit = limit_at(tape, &r->kept[i], r->total_bytes);
    return limit;
}

static void take_refusal(struct verdict *v, const struct report *r, struct trace *t, int64_t file)
{
    v->given_back += r->oom.absorbed > 0 ? r->oom.absorbed : 0;
    if (!r->oom.lead || v->refused_file != UNKNOWN)
        return;
    uint64_t limit = own_limit(&r->oom, t);
    char *line = oom_report_line(&r->oom, false);
    if (limit) {
        free(v->limited);
        v->limited = line;
        return;
    }
    v->kind = VERDICT_REFUSED;
    v->refused_file = file;
    v->why = line;
    v->went_on = r->oom.steps_after > 0;
}

static void take_file(struct verdict *v, const struct attempt *a, int64_t file)
{
    struct trace t;
    struct report r;
    if (trace_open(&t, a->files[file])) {
        complain("%s", t.why);
        v->unread = true;
        return;
    }
    if (report_load(&r, &t, REPORT_RESIDUAL | REPORT_REFUSAL))
        complain("%s", t.why);
    v->whole = v->whole && trace_whole(&t);
    for (size_t i = 0; i < r.device_count; i++)
        take_device(&v->peaks, &t, &r.devices[i], a);
    take_allocated(v, &r);
    take_refusal(v, &r, &t, file);
    report_free(&r);
    trace_close(&t);
}

int64_t verdict_beside(const struct peaks *p)
{
    if (p->driver == UNKNOWN || p->residual == UNKNOWN || p->reserved == UNKNOWN)
        return UNKNOWN;
    return p->driver - p->reserved + p->residual;
}

int64_t verdict_left(const struct peaks *p)
{
    if (p->driver == UNKNOWN || p->residual == UNKNOWN || p->total == UNKNOWN)
        return UNKNOWN;
    return p->total - p->driver - p->residual;
}

/* ---- what else can be ---- */

static void say(struct verdict *v, enum verdict_kind kind, char *why, const char *what)
{
    v->kind = kind;
    v->why = why;
    v->what = what ? xstrdup(what) : NULL;
}

static char *end_of(int status)
{
    if (WIFSIGNALED(status))
        return xformat("it was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return xformat("it ended with status %d", WEXITSTATUS(status));
}

static bool says(const struct attempt *a, const char *words)
{
    return a->said && strstr(a->said, words);
}

static void judge_missing(struct verdict *v, const struct fact *f)
{
    say(v, VERDICT_UNKNOWN,
        xformat("the program calls %s of %s, which is not simulated", shown(f->fields[1]),
                shown(f->fields[0])),
        "run it on a GPU, under `vramscope run`; or do without what calls it");
}

static void judge_limited(struct verdict *v)
{
    say(v, VERDICT_UNKNOWN, xstrdup(v->limited),
        "have the program set no limit (torch.cuda.set_per_process_memory_fraction): the device was not "
        "asked");
}

static void judge_failed(struct verdict *v, const struct attempt *a)
{
    if (says(a, "No module named 'torch'"))
        say(v, VERDICT_UNKNOWN, xstrdup("this Python has no PyTorch"),
            "install PyTorch's CUDA wheel; NVIDIA's packages are not needed beside it: pip install --no-deps "
            "torch");
    else
        say(v, VERDICT_FAILED, end_of(a->status), NULL);
}

static void judge_nothing(struct verdict *v, const struct attempt *a)
{
    const struct fact *torch = facts_first(&a->facts, FACT_TORCH);
    if (v->unread || !v->whole)
        say(v, VERDICT_UNKNOWN, xstrdup("the recording is not whole: what the program held is not known"),
            "is there room where it lies? That is beside -o's file, or in TMPDIR");
    else if (torch && !strcmp(torch->fields[1], "none"))
        say(v, VERDICT_UNKNOWN,
            xformat("PyTorch %s here is a build for the CPU, which has no CUDA allocator to ask",
                    shown(torch->fields[0])),
            "install the build for CUDA; NVIDIA's packages are not needed beside it: pip install --no-deps "
            "torch");
    else if (torch)
        say(v, VERDICT_UNKNOWN, xstrdup("the program imported PyTorch and never used a GPU"),
            "have it use device cuda");
    else
        say(v, VERDICT_UNKNOWN, xstrdup("the program never used a GPU"),
            "`vramscope fit` is for programs of PyTorch's or of CUDA's driver API");
}

void verdict_of(struct verdict *v, const struct attempt *a)
{
    *v = (struct verdict){.kind = VERDICT_FITS,
                          .whole = true,
                          .refused_file = UNKNOWN,
                          .least = UNKNOWN,
                          .most = UNKNOWN,
                          .peaks = {.allocated = UNKNOWN,
                                    .reserved = UNKNOWN,
                                    .step = UNKNOWN,
                                    .total = UNKNOWN,
                                    .layouts = {0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
                                    .driver = UNKNOWN,
                                    .residual = UNKNOWN}};
    for (size_t i = 0; i < a->n; i++)
        take_file(v, a, (int64_t)i);
    if (v->kind == VERDICT_REFUSED) {
        v->went_on = v->went_on || a->status == 0;
        return;
    }
    const struct fact *missing = facts_first(&a->facts, FACT_MISSING);
    if (missing)
        judge_missing(v, missing);
    else if (a->status && v->limited)
        judge_limited(v);
    else if (a->status)
        judge_failed(v, a);
    else if (v->peaks.driver == UNKNOWN || v->peaks.driver == 0)
        judge_nothing(v, a);
}

void verdict_free(struct verdict *v)
{
    free(v->why);
    free(v->what);
    free(v->limited);
    free(v->peaks.phase);
}
