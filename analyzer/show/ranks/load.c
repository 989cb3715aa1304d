/* load.c - extracts the part of a report that is shown beside those of other ranks. */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "base/args.h"

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void add_word(char **state, const char *word)
{
    char *longer = **state ? xformat("%s, %s", *state, word) : xstrdup(word);
    free(*state);
    *state = longer;
}

/* Whether the program itself ran out of memory.  (When the driver refuses, a framework frees its cache and
 * repeats the request, which the program does
 * not notice.) */
static bool ran_out(struct trace *t)
{
    int64_t absorbed = t->refused_total > 0 ? trace_counter(t, "driver_out_of_memory_absorbed") : 0;
    return t->oom_total > 0 || t->refused_total > (absorbed > 0 ? absorbed : 0);
}

static void add_end(char **state, const struct trace *t)
{
    static const char *const words[] = {[TRACE_END_RUNNING] = "still running",
                                        [TRACE_END_UNKNOWN] = "INCOMPLETE: not at its end",
                                        [TRACE_END_GONE] = "INCOMPLETE: its journal is gone",
                                        [TRACE_END_ELSEWHERE] = "INCOMPLETE: its journal is on its host",
                                        [TRACE_END_OTHERS] = "INCOMPLETE: its journal is another user's",
                                        [TRACE_END_FAILED] = "INCOMPLETE: its journal can't be merged"};
    if (t->end == TRACE_END_MERGED && t->came_to_exit != 1)
        add_word(state, "no clean end");
    else if (t->end != TRACE_END_CLEAN && t->end != TRACE_END_MERGED)
        add_word(state, words[t->end]);
}

/* The state in a few words, for one cell of the row. */
static char *state_of(const struct report *r)
{
    const struct trace *t = r->trace;
    char *state = xstrdup("");
    if (ran_out(r->trace))
        add_word(&state, "out of memory");
    if (r->lost_events > 0)
        add_word(&state, "events lost");
    else if (trace_has_loss(t, LOSS_GAP) || trace_has_loss(t, LOSS_NOTE))
        add_word(&state, "see its report");
    if (trace_disagreements(t))
        add_word(&state, "mismatch");
    else if (t->mismatch_count)
        add_word(&state, "began late");
    if (t->unwritten > 0)
        add_word(&state, "no room for all its events");
    add_end(&state, t);
    if (!*state)
        add_word(&state, RANK_COMPLETE);
    return state;
}

static char *top_line(const struct device_report *d)
{
    size_t n;
    struct holder *held = d->live_count ? holders_group(d->live, d->live_count, BY_LINE, &n) : NULL;
    char *line = NULL;
    for (size_t i = 0; held && i < n && !line; i++)
        line = copy(held[i].line);
    free(held);
    return line;
}

static struct rank_device device_of(const struct report *r, const struct device_report *d)
{
    struct rank_device out = {.device = d->device,
                              .allocated = trace_peak_bytes(d->allocated),
                              .reserved = d->reserved ? d->reserved->bytes : UNKNOWN,
                              .residual = d->residual.fullest.residual,
                              .step_at_peak = d->step_at_peak,
                              .whole_device = d->residual.whole_device,
                              .uuid = copy(d->uuid),
                              .phase_at_peak = copy(d->phase_at_peak),
                              .line = top_line(d)};
    for (size_t i = 0; i < r->trace->phase_count; i++) {
        const struct trace_phase *p = &r->trace->phases[i];
        if (p->device == d->device)
            *PUSH(out.phases, out.phase_count) =
                (struct rank_phase){copy(p->name), p->allocated, p->reserved, p->ns};
    }
    return out;
}

static int64_t end_of(const struct trace *t)
{
    int64_t last = t->process.end_ns != UNKNOWN ? t->process.end_ns : t->t_last;
    return t->process.start_realtime_ns == UNKNOWN || last == UNKNOWN ? UNKNOWN
                                                                      : t->process.start_realtime_ns + last;
}

static struct rank_file file_of(const struct trace *t)
{
    const struct trace_process *p = &t->process;
    return (struct rank_file){.label = copy(t->label),
                              .path = copy(t->path),
                              .host = copy(p->host),
                              .command = copy(p->command),
                              .labels = trace_run_labels(t),
                              .dry = trace_dry(t) ? trace_mark_line(t) : NULL,
                              .whole = trace_whole(t),
                              .rank = p->rank,
                              .world_size = p->world_size,
                              .pid = p->pid,
                              .steps = t->steps,
                              .from_ns = p->start_realtime_ns,
                              .to_ns = end_of(t)};
}

struct rank_file ranks_file_start(const struct trace *t)
{
    struct rank_file f = file_of(t);
    for (size_t i = 0; i < t->device_count; i++)
        *PUSH(f.devices, f.device_count) = (struct rank_device){.device = t->devices[i].id,
                                                                .allocated = UNKNOWN,
                                                                .reserved = UNKNOWN,
                                                                .residual = UNKNOWN,
                                                                .uuid = copy(t->devices[i].uuid)};
    return f;
}

struct rank_file ranks_file_of(const struct report *r)
{
    struct rank_file f = file_of(r->trace);
    f.state = state_of(r);
    for (size_t i = 0; i < r->device_count; i++)
        *PUSH(f.devices, f.device_count) = device_of(r, &r->devices[i]);
    return f;
}

/* ---- ranks without a file ---- */

#define SHOWN 24 /* runs of ranks */

char *ranks_list(const int64_t *ranks, size_t n)
{
    char *list = xstrdup("");
    size_t shown = 0, next;
    for (size_t i = 0; i < n && shown < SHOWN; i = next, shown++) {
        for (next = i + 1; next < n && ranks[next] == ranks[next - 1] + 1; next++) {
        }
        char *more = next > i + 1 ? xformat("%s%s%lld-%lld", list, i ? ", " : "", (long long)ranks[i],
                                            (long long)ranks[next - 1])
                                  : xformat("%s%s%lld", list, i ? ", " : "", (long long)ranks[i]);
        free(list);
        list = more;
    }
    if (shown == SHOWN && n) {
        char *more = xformat("%s, ...", list);
        free(list);
        list = more;
    }
    return list;
}

void ranks_seen_add(struct ranks_seen *seen, const struct trace *t)
{
    *PUSH(seen->files, seen->count) = ranks_file_start(t);
}

int ranks_seen_end(struct ranks_seen *seen, bool tell)
{
    size_t count, n;
    struct rank_job *jobs = ranks_jobs(seen->files, seen->count, &count);
    int status = EXIT_GOOD;
    for (size_t i = 0; tell && i < count; i++) {
        int64_t *missing = ranks_missing(&jobs[i], &n);
        char *list = ranks_list(missing, n);
        if (n) {
            complain("of the job's %lld ranks %zu %s no file, and not shown: %s",
                     (long long)jobs[i].world_size, n, n > 1 ? "have" : "has", list);
            status = EXIT_INCOMPLETE;
        }
        free(list);
        free(missing);
    }
    ranks_free_jobs(jobs, count);
    for (size_t i = 0; i < seen->count; i++)
        ranks_free_file(&seen->files[i]);
    free(seen->files);
    *seen = (struct ranks_seen){0};
    return status;
}
