/*
 * overlay_text.c - an overlay on a terminal: each run's area has a pattern of its own, and a cell belongs to
 * the lowest run that reaches into it.  A character column's top is the greatest value in it.
 */
#include <stdlib.h>
#include <string.h>

#include "overlay.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"

static const char *const patterns[PICTURE_RUNS] = {"░", "█", "▒", "▓", "o", "x", "+", "."};

/* The number of rows that the run fills in character column X of WIDTH; 0: it has ended. */
static size_t rows_of(const struct picture *p, const struct panel *q, size_t x, size_t width, int64_t top,
                      size_t height)
{
    const struct columns *c = &q->columns;
    int64_t shift = p->runs[q->run].origin, span = p->to - p->from;
    int64_t t = p->from + (int64_t)((double)span * ((double)x + 0.5) / (double)width) + shift;
    if (t < c->from || t > c->to)
        return 0;
    int64_t value = c->at[columns_index(c, t)].allocated_max;
    size_t rows = (size_t)((double)value / (double)top * (double)height + 0.5);
    return value > 0 && rows == 0 ? 1 : rows; /* a small value is still visible */
}

/* The run that shows in a cell; PICTURE_RUNS: none reaches it. */
static size_t front(const size_t *rows, size_t runs, size_t row)
{
    size_t best = PICTURE_RUNS;
    for (size_t i = 0; i < runs; i++)
        if (rows[i] > row && (best == PICTURE_RUNS || rows[i] < rows[best]))
            best = i;
    return best;
}

static void draw_row(const struct picture *p, size_t (*rows)[PICTURE_RUNS], size_t width, size_t row,
                     bool color, FILE *out)
{
    size_t now = PICTURE_RUNS;
    for (size_t x = 0; x < width; x++) {
        size_t run = front(rows[x], p->run_count, row);
        if (color && run != now)
            text_color(out, run < PICTURE_RUNS ? p->runs[run].color : NULL);
        now = run;
        fputs(run < PICTURE_RUNS ? patterns[run] : " ", out);
    }
    if (color && now != PICTURE_RUNS)
        text_color(out, NULL);
    fputc('\n', out);
}

static void draw_names(const struct picture *p, int64_t device, bool color, FILE *out)
{
    for (size_t run = 0; run < p->run_count; run++) {
        const struct panel *q = overlay_panel(p, device, run);
        char *name = q ? overlay_name(p, q) : NULL;
        if (!q)
            continue;
        fprintf(out, "%*s", TEXT_AXIS, "");
        if (color)
            text_color(out, p->runs[run].color);
        fputs(patterns[run], out);
        if (color)
            text_color(out, NULL);
        fprintf(out, " %s, %s; reserved up to %s\n", name, units_time(q->peak_t - p->runs[run].origin).s,
                units_bytes(columns_max_reserved(&q->columns), false).s);
        free(name);
    }
}

static void draw_device(const struct picture *p, int64_t device, size_t height, size_t width, bool color,
                        FILE *out)
{
    int64_t top = 1;
    size_t(*rows)[PICTURE_RUNS] = xrealloc(NULL, width * sizeof *rows);
    for (size_t run = 0; run < p->run_count; run++) {
        const struct panel *q = overlay_panel(p, device, run);
        top = q && q->peak > top ? q->peak : top;
    }
    for (size_t x = 0; x < width; x++)
        for (size_t run = 0; run < p->run_count; run++) {
            const struct panel *q = overlay_panel(p, device, run);
            rows[x][run] = q ? rows_of(p, q, x, width, top, height) : 0;
        }
    fprintf(out, "%s\n", overlay_title(p, device));
    for (size_t row = height; row-- > 0;) {
        bool label = row == height - 1 || row == height / 2;
        int64_t at = (int64_t)((double)top * (double)(row + 1) / (double)height);
        fprintf(out, "%*s%s", TEXT_AXIS - 1, label ? units_bytes(at, false).s : "", label ? "┤" : "│");
        draw_row(p, rows, width, row, color, out);
    }
    text_axis(p->from, p->to, p->to - p->from, width, out);
    draw_names(p, device, color, out);
    free(rows);
}

void overlay_text(const struct picture *p, FILE *out, size_t height, bool color)
{
    size_t n;
    int64_t *devices = overlay_devices(p, &n);
    fprintf(out, "%s\n\n", shown(p->title));
    for (size_t i = 0; i < n; i++) {
        if (i)
            fputc('\n', out);
        draw_device(p, devices[i], height, p->columns, color, out);
    }
    free(devices);
}
