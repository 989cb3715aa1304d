/*
 * curve.c - allocated and reserved of one device over the last minute or so, and what of it is on the host.
 *
 * The history is the database's, asked anew for each frame, as between two looks at the journal's page a
 * peak would be missed.  What was not written yet is the last column, from that page.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/columns.h"
#include "base/units.h"
#include "read/trace.h"
#include "read/curve.h"
#include "top.h"

enum { AXIS = 10 }; /* columns left of the drawing */

static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/* Eighths of row ROW (0: at the bottom) of HEIGHT that VALUE fills. */
static int filled(int64_t value, int64_t top, int row, int height)
{
    double eighth = (double)value / (double)top * height * 8 - row * 8;
    if (value > 0 && row == 0 && eighth < 1)
        return 1; /* a little is not nothing */
    return eighth >= 8 ? 8 : eighth <= 0 ? 0 : (int)eighth;
}

static void put_cell(const struct column *at, int64_t top, int row, int height, bool utf8, FILE *out)
{
    int allocated = filled(at->allocated_max, top, row, height),
        reserved = filled(at->reserved_max, top, row, height);
    bool away = at->away > 0 && allocated && filled(at->allocated_max - at->away, top, row, height) < 4;
    if (away)
        fputs(utf8 ? "▒" : "o", out);
    else if (utf8)
        fputs(allocated ? eighths[allocated] : reserved >= 4 ? "░" : " ", out);
    else
        fputc(allocated >= 4 || (allocated && row == 0) ? '#' : reserved >= 4 ? '.' : ' ', out);
}

static void put_axis(int64_t from, int64_t to, int width, FILE *out)
{
    char *left = xformat("-%s", units_time(to - from).s);
    int gap = width - AXIS - (int)strlen(left) - 3;
    fprintf(out, "%*s%s%*snow\n", AXIS, "", left, gap > 0 ? gap : 1, "");
    free(left);
}

static void draw(const struct columns *c, int64_t top, int height, bool utf8, FILE *out)
{
    for (int row = height - 1; row >= 0; row--) {
        int64_t value = row == height - 1                 ? top
                        : row == height / 2 && height > 4 ? top * (row + 1) / height
                                                          : 0;
        fprintf(out, "%*s ", AXIS - 1, value ? units_bytes(value, false).s : "");
        for (size_t x = 0; x < c->n; x++)
            put_cell(&c->at[x], top, row, height, utf8, out);
        fputc('\n', out);
    }
}

/* What the database has; a file that is being made, or is busy, has nothing this time. */
static bool read_history(struct columns *c, const struct live *live, int64_t device)
{
    struct trace t;
    struct trace_point before;
    if (live->state != LIVE_RUNNING && live->state != LIVE_SILENT && live->state != LIVE_REMOVED)
        return false;
    if (trace_open_brief(&t, live->database, 0))
        return false;
    int64_t coarse = (c->to - c->from) / (int64_t)c->n;
    bool good = !trace_curve(&t, device, c->from, c->to, coarse, &before, columns_add, c);
    if (good)
        columns_finish(c, &before);
    trace_close(&t);
    return good;
}

void top_curve(const struct top *top, const struct live *live, const struct vs_now_device *device, int width,
               int height, FILE *out)
{
    struct vs_journal_stats stats;
    struct columns c;
    vs_journal_stats(live->map, &stats);
    int64_t to = (int64_t)(live->now.published_ns - stats.start_ns),
            from = to > top->window ? to - top->window : 0;
    if (width - AXIS < 10 || to <= 0 || live->now.published_ns < stats.start_ns)
        return;
    columns_init(&c, from, to, (size_t)(width - AXIS));
    struct trace_point now = {.t = to,
                              .t_last = to,
                              .t_max = to,
                              .allocated_min = (int64_t)device->allocated,
                              .allocated_max = (int64_t)device->allocated,
                              .allocated_last = (int64_t)device->allocated,
                              .reserved_min = (int64_t)device->reserved,
                              .reserved_max = (int64_t)device->reserved,
                              .reserved_last = (int64_t)device->reserved,
                              .away = (int64_t)device->away,
                              .away_last = (int64_t)device->away};
    columns_add(&c, &now);
    if (read_history(&c, live, device->ordinal)) {
        int64_t most = columns_max_reserved(&c), allocated = c.at[columns_peak(&c)].allocated_max;
        most = allocated > most ? allocated : most;
        if (most > 0) {
            draw(&c, most, height - 1, top->utf8, out);
            put_axis(from, to, width, out);
        }
    }
    columns_free(&c);
}
