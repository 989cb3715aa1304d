/*
 * metrics.c - what processes hold as OpenMetrics.  The figures of a device are the journal's.  What lives
 * by phase and role is asked of the database, which takes a time that grows with it; it is not asked again
 * before 20 times that is over.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/shown.h"
#include "read/living.h"
#include "read/trace.h"
#include "top.h"
#include "trace/roles.h"

static const struct {
    const char *name, *help;
} families[] = {
    {"allocated", "what the process uses of the device, at least"},
    {"reserved", "what it holds of the driver"},
    {"peak_allocated", "the most that it used"},
    {"peak_reserved", "the most that it held"},
    {"limit", "the memory of the device"},
    {"headroom", "what the device has left, by the driver's last word; absent if the driver does not say"},
    {"away", "what of allocated is on the host, and not in reserved; absent if nothing ever was"},
    {"away_role", "the blocks of it, by the role that a framework told"},
};

enum { FAMILIES = sizeof families / sizeof *families, AWAY_ROLE = FAMILIES - 1, AWAY = AWAY_ROLE - 1 };

static void put_head(const char *name, const char *help, FILE *out)
{
    fprintf(
        out,
        "# HELP vramscope_%s_bytes %s\n# TYPE vramscope_%s_bytes gauge\n# UNIT vramscope_%s_bytes bytes\n",
        name, help, name, name);
}

/* Names are of the program's making. */
static void put_label(const char *name, const char *value, FILE *out)
{
    char *harmless = shown_cut(value, 200);
    fprintf(out, ",%s=\"", name);
    for (const char *s = harmless; *s; s++)
        fprintf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    fputc('"', out);
    free(harmless);
}

static void put_begin(const char *name, const struct live *l, int64_t device, FILE *out)
{
    fprintf(out, "vramscope_%s_bytes{pid=\"%lld\",device=\"%lld\"", name, (long long)l->pid,
            (long long)device);
    if (l->rank != UNKNOWN)
        fprintf(out, ",rank=\"%lld\"", (long long)l->rank);
}

static void put_role(const struct live *l, const struct vs_now_device *d, unsigned role, FILE *out)
{
    if (!d->away_of[role])
        return;
    put_begin("away_role", l, d->ordinal, out);
    put_label("role", vs_role_word(role), out);
    fprintf(out, "} %lld\n", (long long)d->away_of[role]);
}

static void put_family(const struct live *l, const struct vs_now_device *d, int family, FILE *out)
{
    const struct vs_device_row *row = live_device(l, d->ordinal);
    bool whole;
    for (unsigned i = 1; family == AWAY_ROLE && i < VS_FRAMEWORK_ROLES; i++)
        put_role(l, d, i, out);
    if (family == AWAY_ROLE)
        return;
    int64_t left = top_headroom(l, d, &whole);
    const int64_t values[AWAY_ROLE] = {(int64_t)d->allocated,
                                       (int64_t)d->reserved,
                                       (int64_t)d->peak_allocated,
                                       (int64_t)d->peak_reserved,
                                       row && row->total_bytes ? (int64_t)row->total_bytes : UNKNOWN,
                                       whole ? left : UNKNOWN,
                                       d->flags & VS_NOW_WAS_AWAY ? (int64_t)d->away : UNKNOWN};
    if (values[family] == UNKNOWN)
        return;
    put_begin(families[family].name, l, d->ordinal, out);
    fprintf(out, "} %lld\n", (long long)values[family]);
}

/* ---- what lives ---- */

static const char *phase_of(const struct trace_live *row)
{
    return row->phase ? row->phase : "unknown";
}

static const char *role_of(const struct trace_live *row)
{
    return row->role ? row->role : vs_role_word(VS_ROLE_UNTOLD);
}

/* ROWS with the same phase and role are one sample; those that were taken lose their bytes. */
static void put_held(const struct live *l, struct trace_live *rows, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        int64_t bytes = 0;
        for (size_t k = i; rows[i].size && k < n; k++)
            if (!strcmp(phase_of(&rows[k]), phase_of(&rows[i])) &&
                !strcmp(role_of(&rows[k]), role_of(&rows[i]))) {
                bytes += rows[k].size;
                rows[k].size = k > i ? 0 : rows[k].size;
            }
        if (!bytes)
            continue;
        put_begin("held", l, rows[i].device, out);
        put_label("phase", phase_of(&rows[i]), out);
        put_label("role", role_of(&rows[i]), out);
        fprintf(out, "} %lld\n", (long long)bytes);
    }
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A database that can't be read just now leaves what was seen before.  Reading takes a twentieth of a
 * processor at most: on a busy machine it takes long, and is no dearer. */
static void look_held(struct top_process *p)
{
    int64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct trace t;
    size_t size, n;
    char *text = NULL;
    if (clock_ns(CLOCK_MONOTONIC) < p->held_until || trace_open(&t, p->live.database))
        return;
    FILE *out = xmemstream(&text, &size);
    bool good = true;
    for (uint32_t k = 0; k < p->live.now.devices; k++) {
        struct trace_live *rows = NULL;
        good = good && !trace_live_at(&t, p->live.now.device[k].ordinal, INT64_MAX, &rows, &n);
        if (good)
            put_held(&p->live, rows, n, out);
        free(rows);
    }
    fclose(out);
    trace_close(&t);
    free(good ? p->held : text);
    p->held = good ? text : p->held;
    p->held_until = clock_ns(CLOCK_MONOTONIC) + 20 * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began);
}

static bool any_was_away(const struct top *top)
{
    bool any = false;
    for (size_t i = 0; i < top->count; i++)
        for (uint32_t k = 0; top->processes[i]->live.seen && k < top->processes[i]->live.now.devices; k++)
            any = any || top->processes[i]->live.now.device[k].flags & VS_NOW_WAS_AWAY;
    return any;
}

void top_metrics(struct top *top, FILE *out)
{
    for (int f = 0; f < FAMILIES; f++) {
        if (f >= AWAY && !any_was_away(top))
            continue;
        put_head(families[f].name, families[f].help, out);
        for (size_t i = 0; i < top->count; i++)
            for (uint32_t k = 0; top->processes[i]->live.seen && k < top->processes[i]->live.now.devices; k++)
                put_family(&top->processes[i]->live, &top->processes[i]->live.now.device[k], f, out);
    }
    put_head("held", "what lives, by the phase that it was made in and its role, a moment ago", out);
    for (size_t i = 0; i < top->count; i++) {
        if (top->processes[i]->live.seen)
            look_held(top->processes[i]);
        fputs(top->processes[i]->held ? top->processes[i]->held : "", out);
    }
    fputs("# EOF\n", out);
}
