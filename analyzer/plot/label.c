/*
 * label.c - see label.h: tries the places around the peak and takes the cheapest.
 *
 * In each pixel column a line is an interval of heights.  The cost of a place is its distance, and much more
 * for every pixel column in which the text would cover one of the intervals.
 */
#include "label.h"

#include <math.h>
#include <stdlib.h>

#define STRIP   0.955 /* above this part of the height is the strip of phases */
#define RADIUS  6     /* of the peak's mark */
#define MARK    12    /* pixels around the peak's mark */
#define NEAR    26    /* pixels: a text this near needs no leader line */
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

/* The straight line between two samples. */
static void add_segment(struct lines *lines, size_t x0, size_t x1, double y0, double y1)
{
    for (size_t x = x0; x <= x1; x++) {
        double slope = x1 > x0 ? (y1 - y0) / (double)(x1 - x0) : 0, y = y0 + slope * (double)(x - x0),
               next = x1 > x0 ? y + slope : y1;
        lines[x].used.low = fmin(y, next);
        lines[x].used.high = fmax(y, next);
    }
}

static void add_used(struct lines *lines, size_t width, const struct panel *p, const struct label_room *r)
{
    const struct trace_sample *last = NULL;
    for (size_t i = 0; p->used_shown && i < p->sample_count; i++) {
        const struct trace_sample *s = &p->samples[i];
        if (s->driver_used == UNKNOWN || s->t < p->columns.from || s->t > p->columns.to)
            continue;
        if (!last)
            last = s;
        add_segment(lines, pixel_of(p, last->t, width), pixel_of(p, s->t, width),
                    height_of(last->driver_used, r), height_of(s->driver_used, r));
        last = s;
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

/* The cost of a place; HUGE_VAL: the text must not be there. */
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
           DARK * (double)dark / all;
}

/* The leader line, from the edge of the peak's mark to the nearest point of the text. */
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

struct label_spot label_place(const struct panel *p, const struct label_room *r)
{
    size_t width = r->width < 1 ? 1 : (size_t)r->width;
    struct lines *lines = make_lines(p, r, width);
    double px = (double)pixel_of(p, p->peak_t, width), py = height_of(p->peak, r), best = HUGE_VAL,
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
