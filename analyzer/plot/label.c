/*
 * label.c - tries the places around a mark for its label and takes the cheapest (script.h).
 *
 * In each pixel column a line is an interval of heights.  The cost of a place is its distance, and much more
 * for every pixel column in which the text would cover one of the intervals.
 */
#include "script.h"
#include "read/tables.h"

#include <math.h>
#include <stdlib.h>

#define STRIP   0.955 /* above this part of the height is the strip of phases */
#define RADIUS  6     /* of the mark */
#define MARK    12    /* pixels around the mark */
#define DOT     2     /* of a sample */
#define NEAR    26    /* a text this near needs no line */
#define STEP_X  10
#define STEP_Y  5
#define REACH   600
#define COVERED 5000 /* for a text that lies on a line from end to end */
#define DARK    400  /* for one that lies on the allocated area */

struct interval {
    double low, high; /* empty where low > high */
};

struct lines {
    struct interval allocated, reserved, used;
};

static double height_of(int64_t bytes, const struct label_room *r)
{
    return (double)bytes / r->full * r->height;
}

/* The interval in one pixel column, including the step up or down from its left neighbour. */
static struct lines column_lines(const struct columns *c, size_t x, const struct label_room *r)
{
    const struct column *at = &c->at[x], *left = &c->at[x ? x - 1 : 0];
    int64_t low = at->allocated_min < left->allocated_last ? at->allocated_min : left->allocated_last,
            floor = at->reserved_min < left->reserved_last ? at->reserved_min : left->reserved_last;
    return (struct lines){{height_of(low, r), height_of(at->allocated_max, r)},
                          {height_of(floor, r), height_of(at->reserved_max, r)},
                          {1, 0}};
}

static size_t pixel_of(const struct panel *p, int64_t t, size_t width)
{
    double x = (double)(t - p->columns.from) / (double)(p->columns.to - p->columns.from) * (double)width;
    return x < 0 ? 0 : x >= (double)width ? width - 1 : (size_t)x;
}

/* The driver's samples are points. */
static void add_used(struct lines *lines, size_t width, const struct panel *p, const struct label_room *r)
{
    for (size_t i = 0; p->used_shown && i < p->sample_count; i++) {
        const struct trace_sample *s = &p->samples[i];
        if (s->driver_used == UNKNOWN || s->t < p->columns.from || s->t > p->columns.to)
            continue;
        size_t x = pixel_of(p, s->t, width), first = x > DOT ? x - DOT : 0;
        double y = height_of(s->driver_used, r);
        for (size_t k = first; k <= x + DOT && k < width; k++) {
            struct interval *used = &lines[k].used;
            bool none = used->low > used->high;
            used->low = none ? y - DOT : fmin(used->low, y - DOT);
            used->high = none ? y + DOT : fmax(used->high, y + DOT);
        }
    }
}

static struct lines *make_lines(const struct panel *p, const struct label_room *r, size_t width)
{
    struct lines *lines = xrealloc(NULL, width * sizeof *lines);
    for (size_t x = 0; x < width; x++)
        lines[x] = column_lines(&p->columns, x * p->columns.n / width, r);
    add_used(lines, width, p, r);
    return lines;
}

static bool meets(const struct interval *i, double low, double high)
{
    return i->low <= i->high && i->low <= high && i->high >= low;
}

static double distance(double x, double y, const struct label_room *r, double px, double py)
{
    double dx = fmax(fabs(px - x) - r->text_width / 2, 0), dy = fmax(fabs(py - y) - r->text_height / 2, 0);
    return sqrt(dx * dx + dy * dy);
}

static bool overlaps(const struct label_room *r, double x, double y)
{
    double w = r->text_width / 2, h = r->text_height / 2;
    for (size_t i = 0; i < r->taken_count; i++) {
        const struct label_box *b = &r->taken[i];
        if (x - w < b->right && x + w > b->left && y - h < b->top && y + h > b->bottom)
            return true;
    }
    return false;
}

/* HUGE_VAL where it may not stand. */
static double cost(const struct lines *lines, size_t width, const struct label_room *r, double x, double y,
                   double px, double py)
{
    double low = y - r->text_height / 2, high = y + r->text_height / 2, away = distance(x, y, r, px, py);
    size_t left = (size_t)fmax(x - r->text_width / 2, 0),
           right = (size_t)fmin(x + r->text_width / 2, (double)width), covered = 0, dark = 0;
    if (away < MARK)
        return HUGE_VAL;
    for (size_t i = left; i < right; i++) {
        covered += meets(&lines[i].allocated, low, high) || meets(&lines[i].reserved, low, high) ||
                   meets(&lines[i].used, low, high);
        dark += low < lines[i].allocated.high;
    }
    double all = fmax((double)(right - left), 1);
    return away + (covered ? COVERED / 10.0 + COVERED * (double)covered / all : 0) +
           (overlaps(r, x, y) ? 2.0 * COVERED : 0) + DARK * (double)dark / all;
}

/* From the edge of the mark to the nearest point of the text. */
static void draw_leader(struct label_spot *spot, const struct label_room *r, double px, double py)
{
    double x = fmin(fmax(px, spot->x - r->text_width / 2), spot->x + r->text_width / 2),
           y = fmin(fmax(py, spot->y - r->text_height / 2), spot->y + r->text_height / 2),
           away = fmax(sqrt((x - px) * (x - px) + (y - py) * (y - py)), 1);
    spot->from[0] = px + (x - px) * RADIUS / away;
    spot->from[1] = py + (y - py) * RADIUS / away;
    spot->to[0] = x;
    spot->to[1] = y;
    spot->leader = away > NEAR;
}

struct label_spot label_place(const struct panel *p, const struct label_room *r, int64_t t, int64_t value)
{
    size_t width = r->width < 1 ? 1 : (size_t)r->width;
    struct lines *lines = make_lines(p, r, width);
    double px = (double)pixel_of(p, t, width), py = height_of(value, r), best = HUGE_VAL,
           half = r->text_width / 2, top = r->height * STRIP - r->text_height / 2 - 2;
    struct label_spot spot = {.x = fmin(fmax(px, half), r->width - half), .y = top};
    for (double y = r->text_height / 2 + 2; y <= top; y += STEP_Y) {
        for (double x = fmax(half + 2, px - REACH); x <= fmin(r->width - half - 2, px + REACH); x += STEP_X) {
            double price = cost(lines, width, r, x, y, px, py);
            if (price < best) {
                best = price;
                spot.x = x;
                spot.y = y;
            }
        }
    }
    draw_leader(&spot, r, px, py);
    free(lines);
    return spot;
}
