/*
 * levels.c - the curve at several levels of detail (levels.h). The finest is made of the changes, each wider
 * one of the one below it.
 */
#include "levels.h"

#include <stdlib.h>

/* How many columns of WIDTH there would be; *CROWD: the events of the fullest. */
static size_t columns_of(const struct trace_change *changes, size_t n, int64_t width, size_t *crowd)
{
    size_t count = 0, events = 0;
    int64_t before = -1;
    *crowd = 0;
    for (size_t i = 0; i < n; i++) {
        if (changes[i].t / width != before) {
            before = changes[i].t / width;
            count++;
            events = 0;
        }
        events++;
        *crowd = events > *crowd ? events : *crowd;
    }
    return count;
}

/* The column that begins at state AT, as C left it. */
static struct view_column begin(uint32_t index, int64_t width, uint32_t at, const struct view_column *before)
{
    int64_t allocated = before ? before->last : 0, reserved = before ? before->reserved_last : 0;
    return (struct view_column){.index = index,
                                .max = allocated,
                                .min = allocated,
                                .last = allocated,
                                .t_max = (int64_t)index * width,
                                .reserved_max = reserved,
                                .reserved_min = reserved,
                                .reserved_last = reserved,
                                .at_max = at,
                                .at_last = at};
}

static void add(struct view_column *c, const struct trace_change *change, uint32_t at)
{
    c->events++;
    if (change->allocated > c->max) {
        c->max = change->allocated;
        c->t_max = change->t;
        c->at_max = at;
    }
    c->min = change->allocated < c->min ? change->allocated : c->min;
    c->last = change->allocated;
    c->at_last = at;
    c->reserved_max = change->reserved > c->reserved_max ? change->reserved : c->reserved_max;
    c->reserved_min = change->reserved < c->reserved_min ? change->reserved : c->reserved_min;
    c->reserved_last = change->reserved;
    c->folded |= change->what == CHANGE_FOLDED;
}

static void mark_gaps(struct view_level *l)
{
    for (size_t i = 0; i < l->count; i++)
        l->columns[i].gap = i + 1 == l->count || l->columns[i + 1].index != l->columns[i].index + 1;
}

static struct view_level finest(const struct trace_change *changes, size_t n, int64_t width)
{
    struct view_level l = {.width = width};
    for (size_t i = 0; i < n; i++) {
        uint32_t index = (uint32_t)(changes[i].t / width);
        if (!l.count || l.columns[l.count - 1].index != index) {
            struct view_column c = begin(index, width, (uint32_t)i, l.count ? &l.columns[l.count - 1] : NULL);
            *PUSH(l.columns, l.count) = c;
        }
        add(&l.columns[l.count - 1], &changes[i], (uint32_t)i + 1);
    }
    mark_gaps(&l);
    return l;
}

static void join(struct view_column *wide, const struct view_column *c)
{
    wide->events += c->events;
    if (c->max > wide->max) {
        wide->max = c->max;
        wide->t_max = c->t_max;
        wide->at_max = c->at_max;
    }
    wide->min = c->min < wide->min ? c->min : wide->min;
    wide->reserved_max = c->reserved_max > wide->reserved_max ? c->reserved_max : wide->reserved_max;
    wide->reserved_min = c->reserved_min < wide->reserved_min ? c->reserved_min : wide->reserved_min;
    wide->last = c->last;
    wide->at_last = c->at_last;
    wide->reserved_last = c->reserved_last;
    wide->folded |= c->folded;
}

static struct view_level widen(const struct view_level *fine)
{
    struct view_level l = {.width = fine->width * VIEW_FACTOR};
    for (size_t i = 0; i < fine->count; i++) {
        const struct view_column *c = &fine->columns[i];
        uint32_t index = c->index / VIEW_FACTOR;
        if (!l.count || l.columns[l.count - 1].index != index) {
            uint32_t at = i ? fine->columns[i - 1].at_last : 0;
            struct view_column wide = begin(index, l.width, at, l.count ? &l.columns[l.count - 1] : NULL);
            *PUSH(l.columns, l.count) = wide;
        }
        join(&l.columns[l.count - 1], c);
    }
    mark_gaps(&l);
    return l;
}

/* The finest width: quarters of the root's as long as some column has more than CROWD events and there is
 * room. */
static int64_t choose(const struct trace_change *changes, size_t n, int64_t last, size_t most, size_t crowd)
{
    int64_t root = last / VIEW_ROOT + 1, width = root;
    size_t fullest;
    columns_of(changes, n, width, &fullest);
    /* an index is a uint32_t, so that there can be no more than 9 levels below the root */
    for (int depth = 0; depth < 9 && fullest > crowd && root >> 2 * (depth + 1) > 16; depth++) {
        int64_t narrow = (root >> 2 * (depth + 1)) + 1;
        if (columns_of(changes, n, narrow, &fullest) > most)
            break;
        width = narrow;
    }
    return width;
}

struct view_levels view_levels(const struct trace_change *changes, size_t n, int64_t last, size_t most,
                               size_t crowd)
{
    struct view_levels out = {0};
    n = n < UINT32_MAX - 1 ? n : UINT32_MAX - 1;
    struct view_level level = finest(changes, n, choose(changes, n, last, most, crowd));
    *PUSH(out.levels, out.count) = level;
    while (out.levels[out.count - 1].width < last / VIEW_ROOT + 1) {
        struct view_level wide = widen(&out.levels[out.count - 1]);
        *PUSH(out.levels, out.count) = wide;
    }
    for (size_t i = 0; i < out.count / 2; i++) {
        level = out.levels[i];
        out.levels[i] = out.levels[out.count - 1 - i];
        out.levels[out.count - 1 - i] = level;
    }
    return out;
}

void view_free_levels(struct view_levels *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->levels[i].columns);
    free(l->levels);
    *l = (struct view_levels){0};
}
