/* run_outputs.c - see run_outputs.h. */
#include "run_outputs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leftover.h"
#include "trace.h"
#include "units.h"
#include "symbols.h"

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

/* "run.db", "run-r3-4211.db" for "run.db": the same beginning, then . or -, the same end. */
static bool belongs(const char *name, const char *stem, size_t stem_length, const char *extension)
{
    size_t n = strlen(name), e = strlen(extension);
    return n >= stem_length + e && !strncmp(name, stem, stem_length) && !strcmp(name + n - e, extension) &&
           (n == stem_length + e || name[stem_length] == '-' || name[stem_length] == '.');
}

static bool is_new(const char *path, time_t since)
{
    struct stat st;
    return !stat(path, &st) && st.st_mtime >= since;
}

static void find_databases(const char *output, time_t since, struct outputs *o)
{
    const char *slash = strrchr(output, '/');
    const char *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char *directory = slash ? xformat("%.*s", (int)(slash - output + 1), output) : xstrdup("./");
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path =
            belongs(e->d_name, name, stem, name + stem) ? xformat("%s%s", directory, e->d_name) : NULL;
        if (path && is_new(path, since))
            add_path(o, path);
        free(path);
    }
    if (d)
        closedir(d);
    free(directory);
}

/* A process killed before its drain began has no database yet: its journal names it. */
static void merge_journals(const char *output)
{
    size_t n;
    const char *slash = strrchr(output, '/');
    size_t directory = slash ? (size_t)(slash - output) : 0;
    const char *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char *where = xformat("%.*s", (int)(directory ? directory : 1), directory ? output : "/");
    char **journals = leftover_scan(where, &n);
    for (size_t i = 0; i < n; i++) {
        bool alive;
        char *of = leftover_database(journals[i], &alive), why[256];
        long events;
        if (of && !alive && !strncmp(of, output, directory + 1) &&
            belongs(of + directory + 1, name, stem, name + stem)) {
            if (leftover_merge(journals[i], NULL, &events, why, sizeof why) == LEFTOVER_FAILED)
                complain("%s", why);
        }
        free(of);
        free(journals[i]);
    }
    free(journals);
    free(where);
}

struct summary {
    size_t files;
    int64_t allocated, reserved, lost, phases;
    const char *unreadable;
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
        if (!strcmp(p->kind, "reserved") && p->bytes > s->reserved)
            s->reserved = p->bytes;
    }
    for (size_t i = 0; i < t.loss_count; i++)
        s->lost += t.losses[i].events > 0 ? t.losses[i].events : 0;
    count_phases(&t, s);
    trace_close(&t);
}

static const char *shown_path(const char *path)
{
    static char cwd[4096];
    size_t n = getcwd(cwd, sizeof cwd - 1) ? strlen(cwd) : 0;
    return n && !strncmp(path, cwd, n) && path[n] == '/' ? path + n + 1 : path;
}

static void print_summary(const struct outputs *o, const struct summary *s)
{
    if (!s->files) {
        if (!o->n)
            fprintf(stderr, "vramscope: nothing was recorded: the command never used the GPU\n");
        return;
    }
    fprintf(stderr, "vramscope: %s", shown_path(o->paths[0]));
    if (o->n > 1)
        fprintf(stderr, " and %zu more", o->n - 1);
    fprintf(stderr, ": peak %s allocated, %s reserved, %s, ", units_bytes(s->allocated, false).s,
            units_bytes(s->reserved, false).s, units_count(s->phases, "phase").s);
    fprintf(stderr, s->lost ? "%s LOST\n" : "no events lost\n", units_count(s->lost, "event").s);
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

void run_finish_outputs(const char *output, time_t since, bool quiet)
{
    struct outputs o = {0};
    struct summary s = {0};
    merge_journals(output);
    find_databases(output, since, &o);
    if (o.n)
        qsort(o.paths, o.n, sizeof *o.paths, by_name);
    for (size_t i = 0; i < o.n; i++) {
        add_names(o.paths[i]);
        summarize(o.paths[i], &s);
    }
    if (!quiet)
        print_summary(&o, &s);
    for (size_t i = 0; i < o.n; i++)
        free(o.paths[i]);
    free(o.paths);
}
