/* outputs.c - completes the databases of a run and says one line of them (outputs.h). */
#include "outputs.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/residual.h"
#include "core/options.h"
#include "read/leftover.h"
#include "show/report/oom.h"
#include "read/trace.h"
#include "base/shown.h"
#include "read/symbols.h"
#include "read/tables.h"
#include "base/units.h"

struct outputs {
    char **paths;
    size_t n;
};

static void add_path(struct outputs *o, const char *path)
{
    for (size_t i = 0; i < o->n; i++)
        if (!strcmp(o->paths[i], path))
            return;
    *PUSH(o->paths, o->n) = xstrdup(path);
}

struct pattern {           /* of the names of a run's databases */
    char *directory;       /* ends in '/' */
    const char *name;      /* of the requested file */
    size_t stem;           /* every name begins with this many bytes of it */
    const char *extension; /* every name ends in this */
    bool open;             /* the name has %h, %p or %r in it: anything may be between */
};

static struct pattern pattern_of(const char *output)
{
    const char *slash = strrchr(output, '/');
    const char *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name), percent = strcspn(name, "%");
    struct pattern p = {.name = name, .stem = stem, .extension = name + stem, .open = percent < stem};
    p.directory = slash ? xformat("%.*s", (int)(slash - output + 1), output) : xstrdup("./");
    p.stem = p.open ? percent : stem;
    return p;
}

/* A job whose launcher starts a `vramscope run` for each rank: which of them this one is.  Such runs write to
 * the same directory, and each finds the files of all. */
struct job {
    bool known;
    int64_t rank, ranks; /* where known */
};

static struct job job_of(void)
{
    struct vs_launch l = vs_launch();
    bool known = l.rank != VS_UNKNOWN_NUMBER && l.world_size != VS_UNKNOWN_NUMBER && l.world_size > 1;
    return (struct job){known, l.rank, l.world_size};
}

/* "run.db", "run-rank3-pid4211.db" for "run.db": the same beginning, then . or -, the same end. */
static bool belongs(const char *name, const struct pattern *p)
{
    size_t n = strlen(name), e = strlen(p->extension);
    if (n < p->stem + e || strncmp(name, p->name, p->stem) || strcmp(name + n - e, p->extension))
        return false;
    return p->open || n == p->stem + e || name[p->stem] == '-' || name[p->stem] == '.';
}

static bool is_new(const char *path, time_t since)
{
    struct stat st;
    return !stat(path, &st) && st.st_mtime >= since;
}

/* PATTERN with the rank in the place of %r: the names of this rank's files alone. */
static char *with_rank(const char *pattern, const struct job *job)
{
    const char *at = job->known ? strstr(pattern, "%r") : NULL;
    if (!at)
        return xstrdup(pattern);
    char *begin = xformat("%.*s%" PRId64, (int)(at - pattern), pattern, job->rank);
    char *whole = xformat("%s%s", begin, at + 2);
    free(begin);
    return whole;
}

/* Whether the database at PATH is another rank's: that rank's own run speaks of it, and may not have ended.
 * The file says so itself, or, where it cannot be opened, its name does (shim/record/output.c). */
static bool is_of_another(const char *path, const struct job *job)
{
    struct trace t;
    const char *rank = strstr(path, "-rank");
    int64_t of = rank ? strtoll(rank + 5, NULL, 10) : 0;
    if (!job->known)
        return false;
    if (!trace_open(&t, path)) {
        of = t.process.rank == UNKNOWN ? job->rank : t.process.rank;
        trace_close(&t);
    }
    return of != job->rank;
}

static void leave_out_others(struct outputs *o, const struct job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->n; i++)
        if (is_of_another(o->paths[i], job))
            free(o->paths[i]);
        else
            o->paths[kept++] = o->paths[i];
    o->n = kept;
}

static void find_databases(const struct pattern *p, time_t since, struct outputs *o)
{
    DIR *d = opendir(p->directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = belongs(e->d_name, p) ? xformat("%s%s", p->directory, e->d_name) : NULL;
        if (path && is_new(path, since))
            add_path(o, path);
        free(path);
    }
    if (d)
        closedir(d);
}

static bool moved; /* a recording is no longer where the run put it, which was said */

static void merge_journal(const char *journal, const struct pattern *p)
{
    char *of, why[512];
    bool dead = leftover_database(journal, &of, why, sizeof why) == LEFTOVER_DEAD;
    size_t directory = strlen(p->directory);
    long events;
    if (dead && !strncmp(of, p->directory, directory) && belongs(of + directory, p)) {
        enum leftover_state state = leftover_merge(journal, NULL, &events, why, sizeof why);
        bool said = state == LEFTOVER_FAILED || (state == LEFTOVER_REMOVED && *why);
        if (said)
            complain("%s", why);
        moved = moved || said;
    }
    free(of);
}

/* A process that was killed before its drain began has no database yet, but its journal names it. */
static void merge_journals(const struct pattern *p)
{
    size_t n;
    char **journals = leftover_scan(p->directory, &n);
    for (size_t i = 0; i < n; i++) {
        merge_journal(journals[i], p);
        free(journals[i]);
    }
    free(journals);
}

/* ---- the name that was asked for ---- */

/* Only files that no process has open are renamed: those of processes that have ended, without a log beside
 * them. No file is ever overwritten, and if a step fails the names stay as they were. */

/* Finds the process of PATH; false: the file is not closed and complete, or does not say which process it is
 * of. */
static bool owner_of(const char *path, struct trace_process *p)
{
    struct trace t;
    char *log = xformat("%s-wal", path);
    bool closed = !trace_open(&t, path);
    if (closed) {
        *p = t.process;
        p->host = p->command = NULL;
        closed = (t.end == TRACE_END_CLEAN || t.end == TRACE_END_MERGED) && p->pid != UNKNOWN;
        trace_close(&t);
    }
    closed = closed && access(log, F_OK);
    free(log);
    return closed;
}

/* The name that the shim chooses for a process if OUTPUT is taken (shim/record/output.c). */
static char *name_beside(const char *output, const struct trace_process *p)
{
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    int stem = dot && dot != name ? (int)(dot - output) : (int)strlen(output);
    if (p->rank == UNKNOWN)
        return xformat("%.*s-pid%" PRId64 "%s", stem, output, p->pid, output + stem);
    return xformat("%.*s-rank%" PRId64 "-pid%" PRId64 "%s", stem, output, p->rank, p->pid, output + stem);
}

static bool move(const char *from, const char *to)
{
    return !renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

/* Exchanges the names of FIRST and OWN. */
static void change_names(char **first, char **own, const struct trace_process *taker)
{
    char *output = xstrdup(*first), *beside = name_beside(output, taker);
    if (move(output, beside)) {
        if (move(*own, output)) {
            free(*first);
            free(*own);
            *first = beside;
            *own = output;
            return;
        }
        move(beside, output);
    }
    free(output);
    free(beside);
}

/* While processes run, the first one that uses the GPU takes the requested name, as the command itself may be
 * a shell or a launcher that never does.  If the command, of pid COMMAND, does use it and a child was faster,
 * the two files exchange their names; PATHS are updated. */
static void exchange_names(char **paths, size_t n, const char *output, pid_t command)
{
    struct trace_process taker, own;
    char **first = NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(paths[i], output))
            first = &paths[i];
    if (n < 2 || !first || !owner_of(*first, &taker) || taker.pid == command)
        return;
    for (size_t i = 0; i < n; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, "-pid%ld", (long)command);
        if (&paths[i] != first && strstr(paths[i], suffix) && owner_of(paths[i], &own) &&
            own.pid == command) {
            change_names(first, &paths[i], &taker);
            return;
        }
    }
}

/* ---- the summary ---- */

struct summary {
    struct job job;
    size_t files;
    int64_t allocated, reserved, lost, phases, gaps;
    int64_t unseen;       /* bytes that no call which was seen asked for */
    int64_t other_ranges; /* ranges that name no phase */
    bool unknown;         /* allocated is unknown: a library's pool does not report its use */
    char *oom;            /* the message of the first file that has one; owned */
    char *end;            /* about a missing end, likewise */
    /* the first file in which PyTorch used its own allocator although the arena was requested */
    const char *own_cache, *unserved;
};

static void count_phases(const struct trace *t, struct summary *s)
{
    int64_t named = 0;
    for (size_t i = 0; i < t->phase_count; i++) {
        bool first = t->phases[i].name && strcmp(t->phases[i].name, "none") != 0;
        for (size_t k = 0; first && k < i; k++) /* one row a device */
            first = !t->phases[k].name || strcmp(t->phases[k].name, t->phases[i].name) != 0;
        named += first;
    }
    s->phases = named > s->phases ? named : s->phases;
}

static void note_oom(struct trace *t, struct summary *s)
{
    struct oom_report oom;
    if (!s->oom && oom_report_load(&oom, t, OOM_LAST) == 0) {
        s->oom = oom_report_line(&oom, false);
        oom_report_free(&oom);
    }
}

static void look_for_unseen(struct trace *t, struct summary *s)
{
    const char *off;
    for (size_t i = 0; i < t->peak_count; i++) {
        const struct trace_peak *p = &t->peaks[i];
        int64_t bytes;
        if (p->device >= 0 && p->kind && !strcmp(p->kind, "reserved") &&
            !unseen_load(t, p->device, &bytes, &off) && bytes > s->unseen)
            s->unseen = bytes;
    }
}

static void look_for_arena(struct trace *t, const char *path, struct summary *s)
{
    const char *asked = getenv("VRAMSCOPE_ALLOCATOR");
    bool used = false, kept = false;
    if (!asked || strcmp(asked, "arena") != 0)
        return;
    for (size_t i = 0; i < t->peak_count; i++) {
        const struct trace_peak *p = &t->peaks[i];
        bool some = p->kind && p->device >= 0 && p->bytes > 0;
        used = used || (some && !strcmp(p->kind, "allocated"));
        kept = kept || (some && !strcmp(p->kind, "managed_reserved"));
    }
    if (kept && !s->own_cache)
        s->own_cache = path;
    if (used && !s->unserved && !trace_arena_served(t, -1))
        s->unserved = path;
}

static const char *shown_path(const char *path)
{
    static char cwd[4096];
    size_t n = getcwd(cwd, sizeof cwd - 1) ? strlen(cwd) : 0;
    return shown(n && !strncmp(path, cwd, n) && path[n] == '/' ? path + n + 1 : path);
}

static void summarize(const char *path, struct summary *s)
{
    struct trace t;
    if (trace_open(&t, path)) {
        complain("%s", t.why);
        return;
    }
    s->files++;
    for (size_t i = 0; i < t.peak_count; i++) {
        const struct trace_peak *p = &t.peaks[i];
        if (p->device < 0 || !p->kind)
            continue;
        if (!strcmp(p->kind, "allocated") && p->bytes > s->allocated)
            s->allocated = p->bytes;
        s->unknown = s->unknown || p->at_least;
        if (!strcmp(p->kind, "reserved") && p->bytes > s->reserved)
            s->reserved = p->bytes;
    }
    for (size_t i = 0; i < t.loss_count; i++) {
        s->lost += t.losses[i].events > 0 ? t.losses[i].events : 0;
        s->gaps += t.losses[i].kind == LOSS_GAP;
    }
    count_phases(&t, s);
    s->other_ranges += trace_other_ranges(&t);
    if (t.end_line && !s->end)
        s->end = xformat("%s: %s", shown_path(path), t.end_line);
    look_for_unseen(&t, s);
    note_oom(&t, s);
    look_for_arena(&t, path, s);
    trace_close(&t);
}

/* If the arena was requested but did not serve, the user must not take the figures for the arena's. */
static void print_no_arena(const struct summary *s)
{
    if (s->own_cache)
        fprintf(stderr,
                "vramscope: %s: PyTorch kept its own allocator, it did not use the arena: start python "
                "without -I, -E and -S (vramscope-run(1), THE ARENA, says what else keeps it)\n",
                shown_path(s->own_cache));
    else if (s->unserved)
        fprintf(stderr,
                "vramscope: %s: the arena served nothing: `vramscope doctor` says whether it can "
                "(vramscope(5), THE ARENA, says what it leaves to the driver)\n",
                shown_path(s->unserved));
}

static bool is_off(const char *value)
{
    static const char *const words[] = {"off", "0", "no", "false"};
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (!strcmp(value, words[i]))
            return true;
    return false;
}

static void print_nothing(const char *output, const struct run_end *end)
{
    bool started_off = is_off(getenv("VRAMSCOPE_ENABLED"));
    const char *simulated = getenv("VRAMSCOPE_SIMULATED");
    char *why = started_off ? NULL : run_nothing(output, end->command, end->status);
    if (why) {
        fprintf(stderr, "vramscope: nothing was recorded: %s\n", why);
        free(why);
        return;
    }
    fprintf(stderr, "vramscope: nothing was recorded: the command never %s%s\n",
            started_off ? "called vramscope_record_start(), or never used the GPU" : "used the GPU",
            simulated ? " (the simulated driver serves programs of CUDA's driver API; those of PyTorch's run "
                        "under vramscope fit)"
            : started_off ? ""
                          : ", or in processes that lost LD_PRELOAD: in front of those, vramscope wrap --");
}

/* Of a job's ranks the first has the word; the others are heard where something is wrong with theirs. */
static bool is_heard(const struct summary *s)
{
    return !s->job.known || s->job.rank == 0 || s->lost || s->gaps || s->unseen || s->end || s->oom ||
           s->own_cache || s->unserved;
}

/* Where the ranks' files lie in one directory, which the first rank says once. */
static void print_job(const char *first)
{
    const char *path = shown_path(first), *slash = strrchr(path, '/');
    fprintf(stderr, "vramscope: vramscope report %.*s shows the ranks that wrote there beside each other\n",
            slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
}

static void print_summary(const struct outputs *o, const struct summary *s, const char *output,
                          const struct run_end *end)
{
    if (!s->files) {
        if (!o->n && !moved)
            print_nothing(output, end);
        return;
    }
    if (!is_heard(s))
        return;
    fprintf(stderr, "vramscope: %s", shown_path(o->paths[0]));
    if (o->n > 1)
        fprintf(stderr, " and %zu more", o->n - 1);
    if (s->job.known)
        fprintf(stderr, " (rank %" PRId64 " of %" PRId64 ")", s->job.rank, s->job.ranks);
    const char *least = s->lost ? "at least " : "";
    fprintf(stderr, ": peak %s%s allocated, %s%s reserved, %s, ", s->unknown ? "" : least,
            units_bytes(s->unknown ? UNKNOWN : s->allocated, false).s, least,
            units_bytes(s->reserved, false).s, units_count(s->phases, "phase").s);
    if (!s->phases && s->other_ranges)
        fprintf(stderr, "%s by name (report lists them), ", units_count(s->other_ranges, "range").s);
    if (s->lost)
        fprintf(stderr, "%s LOST", units_count(s->lost, "event").s);
    else
        fputs(s->end ? "not at its end" : "no events lost", stderr);
    if (s->unseen)
        fprintf(stderr, ", %s UNSEEN: report says more", units_bytes(s->unseen, false).s);
    if (s->gaps)
        fprintf(stderr, ", %s NOT COVERED: report says which", units_count(s->gaps, "road").s);
    fputc('\n', stderr);
    if (s->end)
        fprintf(stderr, "vramscope: %s\n", shown(s->end));
    if (s->oom)
        fprintf(stderr, "vramscope: %s: vramscope report %s\n", s->oom, shown_path(o->paths[0]));
    print_no_arena(s);
    if (s->job.known && s->job.rank == 0)
        print_job(o->paths[0]);
}

static int by_name(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return strlen(x) != strlen(y) ? (strlen(x) > strlen(y)) - (strlen(x) < strlen(y)) : strcmp(x, y);
}

static void add_names(const char *path)
{
    char why[256] = "";
    if (vs_symbols_fill(path, why, sizeof why) < 0)
        complain("the call stacks of %s stay without names: %s", shown_path(path), why);
}

char **run_outputs(const char *output, time_t since, pid_t command, size_t *n)
{
    struct outputs o = {0};
    struct job job = job_of();
    char *own = with_rank(output, &job);
    struct pattern p = pattern_of(own);
    merge_journals(&p);
    find_databases(&p, since, &o);
    free(p.directory);
    free(own);
    leave_out_others(&o, &job);
    exchange_names(o.paths, o.n, output, command);
    if (o.n)
        qsort(o.paths, o.n, sizeof *o.paths, by_name);
    for (size_t i = 0; i < o.n; i++)
        add_names(o.paths[i]);
    *n = o.n;
    return o.paths;
}

void run_free_outputs(char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
}

void run_finish_outputs(const char *output, time_t since, const struct run_end *end, bool quiet)
{
    struct outputs o;
    struct summary s = {.job = job_of()};
    o.paths = run_outputs(output, since, end->pid, &o.n);
    for (size_t i = 0; i < o.n; i++)
        summarize(o.paths[i], &s);
    if (!quiet)
        print_summary(&o, &s, output, end);
    free(s.oom);
    free(s.end);
    run_free_outputs(o.paths, o.n);
}
