/*
 * text.c - the picture on a terminal: eighth blocks for allocated, medium shade for what of it is on the
 * host, light shade for reserved, dark shade between the least and the greatest of a folded stretch, a line
 * of letters for the phases.  A character column's top is the greatest value in it.
 */
#include <stdlib.h>
#include <string.h>

#include "picture.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"

static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

void text_color(FILE *out, const char *hex)
{
    unsigned rgb = hex ? (unsigned)strtoul(hex + 1, NULL, 16) : 0;
    if (hex)
        fprintf(out, "\033[38;2;%u;%u;%um", rgb >> 16, rgb >> 8 & 255, rgb & 255);
    else
        fputs("\033[0m", out);
}

/* How many eighths of row ROW (0 = bottom) VALUE fills. */
static int filled(int64_t value, int64_t top, size_t row, size_t height)
{
    double eighth = (double)value / (double)top * (double)height * 8 - (double)row * 8;
    if (value > 0 && row == 0 && eighth < 1)
        return 1; /* a small value is still visible */
    return eighth >= 8 ? 8 : eighth <= 0 ? 0 : (int)eighth;
}

static int phase_at(const struct panel *q, size_t x, size_t *band)
{
    int64_t middle =
        columns_edge(&q->columns, x) + (columns_edge(&q->columns, x + 1) - columns_edge(&q->columns, x)) / 2;
    while (*band < q->band_count && q->bands[*band].to <= middle)
        ++*band;
    return *band < q->band_count && q->bands[*band].from <= middle ? q->bands[*band].phase : 0;
}

static void draw_cell(const struct column *at, int64_t top, size_t row, size_t height, FILE *out)
{
    int allocated = filled(at->allocated_max, top, row, height),
        reserved = filled(at->reserved_max, top, row, height);
    if (at->away > 0 && allocated && filled(at->allocated_max - at->away, top, row, height) < 4)
        fputs("▒", out);
    else if (at->band && allocated && filled(at->allocated_min, top, row, height) < allocated)
        fputs("▓", out);
    else if (allocated)
        fputs(eighths[allocated], out);
    else
        fputs(reserved >= 4 ? "░" : " ", out);
}

static void draw_row(const struct picture *p, const struct panel *q, int64_t top, size_t row, size_t height,
                     bool color, FILE *out)
{
    size_t band = 0;
    const char *now = NULL;
    for (size_t x = 0; x < q->columns.n; x++) {
        const struct column *at = &q->columns.at[x];
        const char *want = p->phases[phase_at(q, x, &band)].color;
        if (!filled(at->allocated_max, top, row, height))
            want = NULL; /* reserved stays neutral */
        if (color && want != now)
            text_color(out, want);
        now = want;
        draw_cell(at, top, row, height, out);
    }
    if (color && now)
        text_color(out, NULL);
    fputc('\n', out);
}

/* One letter a phase: the first of its name that is still free. */
static void choose_letters(const struct picture *p, char *letters)
{
    bool taken[128] = {false};
    for (size_t i = 1; i < p->phase_count; i++) {
        char pick = '?';
        for (const char *s = p->phases[i].name; pick == '?' && *s; s++)
            if ((*s & 0x80) == 0 && *s > ' ' && !taken[(int)*s])
                pick = *s;
        for (char c = 'a'; pick == '?' && c <= 'z'; c++)
            if (!taken[(int)c])
                pick = c;
        taken[(int)pick] = true;
        letters[i] = pick;
    }
    letters[0] = ' ';
}

static void draw_strip(const struct picture *p, const struct panel *q, const char *letters, bool color,
                       FILE *out)
{
    size_t band = 0;
    fprintf(out, "%*s ", TEXT_AXIS - 1, "phase");
    for (size_t x = 0; x < q->columns.n; x++) {
        int phase = phase_at(q, x, &band);
        if (color && p->phases[phase].color)
            text_color(out, p->phases[phase].color);
        fputc(letters[phase], out);
    }
    if (color)
        text_color(out, NULL);
    fputc('\n', out);
}

static void draw_peak(const struct panel *q, FILE *out)
{
    size_t x = columns_index(&q->columns, q->peak_t), n = q->columns.n;
    char *name = panel_peak_text(q), *text = xformat("%s, %s", name, units_time(q->peak_t).s);
    size_t w = text_width(text);
    if (x + 2 + w <= n || x < w + 2)
        fprintf(out, "%*s▼ %s\n", (int)(TEXT_AXIS + x), "", text);
    else
        fprintf(out, "%*s%s ▼\n", (int)(TEXT_AXIS + x - w - 1), "", text);
    free(name);
    free(text);
}

/* What ran out, when, and how much was asked for. */
static void draw_ooms(const struct panel *q, FILE *out)
{
    for (size_t i = 0; i < q->oom_count; i++) {
        char *text = panel_oom_text(&q->ooms[i]);
        fprintf(out, "%*s%s at %s", TEXT_AXIS, "", text, units_time(q->ooms[i].t).s);
        if (q->capacity != UNKNOWN)
            fprintf(out, "; the device has %s", units_bytes(q->capacity, false).s);
        fputc('\n', out);
        free(text);
    }
}

/* A mark in the column of each out-of-memory, under the time axis. */
static void draw_oom_marks(const struct panel *q, FILE *out)
{
    char *marks = xrealloc(NULL, q->columns.n + 1);
    if (q->oom_count) {
        memset(marks, ' ', q->columns.n);
        marks[q->columns.n] = 0;
        for (size_t i = 0; i < q->oom_count; i++)
            marks[columns_index(&q->columns, q->ooms[i].t)] = 'X';
        fprintf(out, "%*s %s\n", TEXT_AXIS - 1, "no memory", marks);
    }
    free(marks);
}

void text_axis(int64_t from, int64_t to, int64_t span, size_t width, FILE *out)
{
    struct axis_unit unit = picture_time_unit(span);
    char *left = xformat("%.4g %s", (double)from / unit.scale, unit.name);
    char *right = xformat("%.4g %s", (double)to / unit.scale, unit.name);
    size_t w = text_width(left) + text_width(right);
    fprintf(out, "%*s└", TEXT_AXIS - 1, "");
    for (size_t i = 0; i < width; i++)
        fputs("─", out);
    fprintf(out, "\n%*s%s%*s%s\n", TEXT_AXIS, "", left, (int)(width > w ? width - w : 1), "", right);
    free(left);
    free(right);
}

static void draw_panel(const struct picture *p, const struct panel *q, size_t height, const char *letters,
                       bool color, FILE *out)
{
    int64_t top = columns_max_reserved(&q->columns);
    top = q->peak > top ? q->peak : top > 0 ? top : 1;
    fprintf(out, "%s\n", q->title);
    if (q->peak > 0)
        draw_peak(q, out);
    for (size_t row = height; row-- > 0;) {
        bool label = row == height - 1 || row == height / 2;
        int64_t at = (int64_t)((double)top * (double)(row + 1) / (double)height);
        fprintf(out, "%*s%s", TEXT_AXIS - 1, label ? units_bytes(at, false).s : "", label ? "┤" : "│");
        draw_row(p, q, top, row, height, color, out);
    }
    text_axis(q->columns.from, q->columns.to, p->to - p->from, q->columns.n, out);
    if (p->phase_count > 1)
        draw_strip(p, q, letters, color, out);
    draw_oom_marks(q, out);
    draw_ooms(q, out);
    char *beside = panel_beside_text(q);
    if (*beside)
        wrap_print(out, TEXT_AXIS, TEXT_AXIS + 2, "%s", beside);
    free(beside);
    if (q->mixed_phases)
        fprintf(out, "%*sa column shows the phase of its peak\n", TEXT_AXIS, "");
}

static void draw_legend(const struct picture *p, const char *letters, bool color, FILE *out)
{
    char *away = picture_away(p);
    fprintf(out, "%*s█ allocated%s%s  ░ reserved%s", TEXT_AXIS, "", away ? "  ▒ " : "", away ? away : "",
            picture_folded(p) ? "  ▓ folded: least to greatest" : "");
    free(away);
    for (size_t i = 1; i < p->phase_count; i++) {
        if (!p->phases[i].ns)
            continue;
        fputs("  ", out);
        if (color)
            text_color(out, p->phases[i].color);
        fputc(letters[i], out);
        if (color)
            text_color(out, NULL);
        fprintf(out, " %s", p->phases[i].name);
    }
    fputc('\n', out);
}

#define WHOLE_ROWS 3

/* The run that the picture is a part of, and which part. */
static void draw_whole(const struct picture *p, FILE *out)
{
    const struct columns *c = &p->whole->columns;
    int64_t top = columns_max_reserved(c), most = c->at[columns_peak(c)].allocated_max;
    size_t first = columns_index(c, p->from), last = columns_index(c, p->to);
    top = most > top ? most : top > 0 ? top : 1;
    fprintf(out, "whole run of device %lld, %lld steps; ▲ is shown below\n", (long long)p->whole->device,
            (long long)p->whole->steps);
    for (size_t row = WHOLE_ROWS; row-- > 0;) {
        fprintf(out, "%*s%s", TEXT_AXIS - 1, row + 1 == WHOLE_ROWS ? units_bytes(top, false).s : "",
                row + 1 == WHOLE_ROWS ? "┤" : "│");
        for (size_t x = 0; x < c->n; x++)
            draw_cell(&c->at[x], top, row, WHOLE_ROWS, out);
        fputc('\n', out);
    }
    fprintf(out, "%*s└", TEXT_AXIS - 1, "");
    for (size_t x = 0; x < c->n; x++)
        fputs(x >= first && x <= last ? "▲" : "─", out);
    fprintf(out, "\n%*s0%*s\n\n", TEXT_AXIS, "", (int)(c->n > 1 ? c->n - 1 : 1), units_time(c->to).s);
}

void text_draw(const struct picture *p, FILE *out, size_t height, bool color)
{
    if (p->run_count) {
        overlay_text(p, out, height, color);
        return;
    }
    char *letters = xrealloc(NULL, p->phase_count + 1);
    choose_letters(p, letters);
    fprintf(out, "%s\n\n", shown(p->title));
    if (p->whole)
        draw_whole(p, out);
    for (size_t i = 0; i < p->panel_count; i++) {
        draw_panel(p, &p->panels[i], height, letters, color, out);
        fputc('\n', out);
    }
    draw_legend(p, letters, color, out);
    free(letters);
}
