/* frame.c - a frame as lines of text; see top.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "top.h"

#define RATE_NS   UINT64_C(900000000) /* looks that are nearer than that give no rate */
#define BASE_WIDE 92                  /* columns from which on there is room for events a second */

/* ---- looking ---- */

static double rate(uint64_t from, uint64_t to, uint64_t ns)
{
    return to < from ? NAN : (double)(to - from) * 1e9 / (double)ns;
}

static void look(struct top_process *p)
{
    live_look(&p->live);
    if (!p->live.seen)
        return;
    const struct vs_now *now = &p->live.now;
    if (!p->has_before) {
        p->before = *now;
        p->has_before = true;
        p->events = p->steps = NAN;
        return;
    }
    uint64_t ns = now->published_ns - p->before.published_ns;
    if (now->published_ns <= p->before.published_ns || ns < RATE_NS)
        return;
    p->events = rate(p->before.rows, now->rows, ns);
    p->steps = rate(p->before.steps, now->steps, ns);
    p->before = *now;
}

void top_look(struct top *top)
{
    for (size_t i = 0; i < top->count; i++)
        look(top->processes[i]);
}

void top_free(struct top *top)
{
    for (size_t i = 0; i < top->count; i++) {
        live_close(&top->processes[i]->live);
        free(top->processes[i]->held);
        free(top->processes[i]);
    }
    for (size_t i = 0; i < top->line_count; i++)
        free(top->lines[i]);
    free(top->processes);
    free(top->lines);
}

/* ---- lines ---- */

struct page {
    FILE *out;
    int width, left; /* columns; lines that there is room for, INT32_MAX: as many as there are */
    bool utf8;
};

/* TEXT cut to the page's width; in ASCII where the terminal has no more. */
static void put_line(struct page *p, const char *text)
{
    int columns = 0;
    if (p->left <= 0)
        return;
    p->left--;
    for (const unsigned char *s = (const unsigned char *)text; *s && columns < p->width; columns++) {
        int32_t code;
        int n = shown_next(s, &code);
        if (code >= 128 && !p->utf8)
            fputc('?', p->out);
        else
            fwrite(s, 1, (size_t)n, p->out);
        s += n;
    }
    fputc('\n', p->out);
}

static void put_format(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_format(struct page *p, const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int n = vasprintf(&text, format, list);
    va_end(list);
    if (n >= 0)
        put_line(p, text);
    free(text);
}

static void put_head(struct page *p, const struct top *top)
{
    char when[16], host[64] = "";
    time_t now = time(NULL);
    struct tm parts;
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &parts));
    gethostname(host, sizeof host - 1);
    char *left = xformat("vramscope top  %s  %zu process%s on %s", when, top->count,
                         top->count == 1 ? "" : "es", shown(host));
    int gap = p->width - (int)text_width(left) - (top->keys ? (int)text_width(top->keys) : 0);
    if (top->keys && gap > 0)
        put_format(p, "%s%*s%s", left, gap, "", top->keys);
    else
        put_line(p, left);
    free(left);
}

/* ---- rows ---- */

static uint64_t total_of(const struct live *l, int ordinal)
{
    const struct vs_device_row *row = live_device(l, ordinal);
    return row ? row->total_bytes : 0;
}

int64_t top_headroom(const struct live *l, const struct vs_now_device *d, bool *whole)
{
    uint64_t total = total_of(l, d->ordinal);
    *whole = d->device_used_t != 0;
    uint64_t used = *whole ? d->device_used : d->process_used_t ? d->process_used : d->reserved;
    if (!*whole && used < d->reserved)
        used = d->reserved;
    return !total || used > total ? UNKNOWN : (int64_t)(total - used);
}

static char *headroom(const struct live *l, const struct vs_now_device *d)
{
    bool whole;
    int64_t left = top_headroom(l, d, &whole);
    return left == UNKNOWN ? xstrdup("unknown")
                           : xformat("%s%s", whole ? "" : "<", units_bytes(left, false).s);
}

static char *rate_text(double value)
{
    if (isnan(value))
        return xstrdup("-");
    return value >= 999.5 ? xformat("%.1fk", value / 1000) : xformat("%.3g", value);
}

/* The ranges that are open on the thread that opened one last, outermost first. */
static char *open_ranges(const struct live *l)
{
    const struct vs_now *now = &l->now;
    char *path = xstrdup("");
    if (!now->ranges)
        return path;
    uint32_t thread = now->range[now->ranges - 1].thread;
    for (uint32_t i = 0; i < now->ranges; i++) {
        if (now->range[i].thread != thread)
            continue;
        char *longer = xformat("%s%s%s", path, *path ? " > " : "", shown(live_string(l, now->range[i].name)));
        free(path);
        path = longer;
    }
    return path;
}

static const char *innermost(const char *path)
{
    const char *last = path;
    for (const char *s = path; (s = strstr(s, " > ")); s += 3)
        last = s + 3;
    return last;
}

static void put_titles(struct page *p)
{
    put_format(p, "    PID  RANK DEV ALLOCATED       PEAK   RESERVED       FREE  STEPS/S%s  IN",
               p->width >= BASE_WIDE ? "  EVENTS/S" : "");
}

static void put_row(struct page *p, const struct top_process *t, const struct vs_now_device *d, bool chosen)
{
    const struct live *l = &t->live;
    char *rank = l->rank == UNKNOWN ? xstrdup("-") : xformat("%lld", (long long)l->rank);
    char *free_bytes = headroom(l, d), *steps = rate_text(t->steps), *events = rate_text(t->events),
         *path = open_ranges(l);
    char *more = p->width >= BASE_WIDE ? xformat("  %8s", events) : xstrdup("");
    put_format(p, "%c%6lld %5s %3d %s%9s %10s %10s %10s %8s%s  %s", chosen ? '*' : ' ', (long long)l->pid,
               rank, d->ordinal, d->flags & VS_NOW_USE_UNKNOWN ? ">" : "",
               units_bytes((int64_t)d->allocated, false).s, units_bytes((int64_t)d->peak_allocated, false).s,
               units_bytes((int64_t)d->reserved, false).s, free_bytes, steps, more, innermost(path));
    free(rank);
    free(free_bytes);
    free(steps);
    free(events);
    free(path);
    free(more);
}

struct choice { /* the row whose curve is shown */
    const struct top_process *process;
    const struct vs_now_device *device;
};

static struct choice put_rows(struct page *p, struct top *top)
{
    struct choice choice = {NULL, NULL};
    size_t row = 0;
    for (size_t i = 0; i < top->count; i++)
        row += top->processes[i]->live.seen ? top->processes[i]->live.now.devices : 0;
    top->rows = row;
    top->chosen = top->chosen < row ? top->chosen : row ? row - 1 : 0;
    if (row)
        put_titles(p);
    row = 0;
    for (size_t i = 0; i < top->count; i++) {
        const struct top_process *t = top->processes[i];
        for (uint32_t k = 0; t->live.seen && k < t->live.now.devices; k++, row++) {
            if (row == top->chosen)
                choice = (struct choice){t, &t->live.now.device[k]};
            put_row(p, t, &t->live.now.device[k], row == top->chosen && top->rows > 1);
        }
    }
    return choice;
}

/* The bytes of TEXT that a line of WIDTH columns takes, up to a blank where it does not end there. */
static size_t fitting(const char *text, int width)
{
    const char *at = text, *blank = NULL;
    for (int columns = 0; *at && columns < width; columns++) {
        int32_t code;
        blank = *at == ' ' ? at : blank;
        at += shown_next((const unsigned char *)at, &code);
    }
    return !*at || *at == ' ' || !blank ? (size_t)(at - text) : (size_t)(blank - text);
}

/* A sentence, over several lines where one has no room for it. */
static void put_sentence(struct page *p, const char *text)
{
    for (const char *at = text; *at;) {
        int indent = at == text ? 0 : 2;
        size_t n = fitting(at, p->width > 12 ? p->width - indent : 10);
        put_format(p, "%*s%.*s", indent, "", (int)n, at);
        at += n;
        at += *at == ' ';
    }
}

/* ---- about the chosen one ---- */

/* Roles are what a framework says; what it says nothing of has none. */
static void put_away(struct page *p, const struct vs_now_device *d)
{
    char *roles = xstrdup("");
    for (unsigned i = 1; i < VS_FRAMEWORK_ROLES; i++) {
        if (!d->away_of[i])
            continue;
        char *more = xformat("%s%s%s %s", roles, *roles ? ", " : ": ",
                             units_bytes((int64_t)d->away_of[i], false).s, vs_role_word(i));
        free(roles);
        roles = more;
    }
    char *all =
        xformat("%s of what is allocated are on the host%s", units_bytes((int64_t)d->away, false).s, roles);
    put_sentence(p, all);
    free(all);
    free(roles);
}

static void put_details(struct page *p, const struct choice *c)
{
    const struct live *l = &c->process->live;
    const struct vs_now_device *d = c->device;
    const struct vs_device_row *device = live_device(l, d->ordinal);
    char *path = open_ranges(l);
    put_line(p, "");
    put_format(p, "pid %lld%s: %s", (long long)l->pid, l->dry ? ", dry run, no GPU" : "",
               l->command ? shown(l->command) : "unknown command");
    put_format(p, "device %d: %s, %s; peak %s at %s", d->ordinal,
               device ? shown(device->name) : "unknown name",
               device ? units_bytes((int64_t)device->total_bytes, false).s : "unknown size",
               units_bytes((int64_t)d->peak_allocated, false).s, units_time(d->peak_t).s);
    if (l->now.steps > 0)
        put_format(p, "step %llu under way%s%s", (unsigned long long)l->now.steps + 1, *path ? "; in " : "",
                   path);
    else
        put_format(p, "no step has ended%s%s", *path ? "; in " : "", path);
    if (d->away)
        put_away(p, d);
    if (d->flags & VS_NOW_USE_UNKNOWN)
        put_line(p, "a library's pool does not report what it uses: allocated is the least that it is");
    if (d->out_of_memory)
        put_format(p, "OUT OF MEMORY: a framework gave up %s",
                   units_count((int64_t)d->out_of_memory, "time").s);
    free(path);
}

static void put_lines(struct page *p, const struct top *top)
{
    for (size_t i = 0; i < top->count; i++) {
        char *line = live_line(&top->processes[i]->live);
        if (line)
            put_sentence(p, shown(line));
        free(line);
    }
    for (size_t i = 0; i < top->line_count; i++)
        put_sentence(p, shown(top->lines[i]));
}

void top_frame(struct top *top, int width, int height, FILE *out)
{
    enum { LEAST_CURVE = 5, CURVE = 12 };
    struct page p = {out, width, height > 0 ? height : INT32_MAX, top->utf8};
    put_head(&p, top);
    put_lines(&p, top);
    struct choice c = put_rows(&p, top);
    if (!c.process)
        return;
    put_details(&p, &c);
    int room = height > 0 ? p.left - 1 : CURVE;
    if (room >= LEAST_CURVE)
        top_curve(top, &c.process->live, c.device, width, room < 2 * CURVE ? room : 2 * CURVE, out);
}
