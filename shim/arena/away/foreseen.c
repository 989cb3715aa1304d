/* foreseen.c - see foreseen.h. */
#include "foreseen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/options.h"

#define SHAPES 64u

static struct shape {
    uint64_t units; /* a block's size */
    uint32_t wanted, found;
} shape[SHAPES];
static unsigned shapes;
static float idle_ms = -1; /* 0: not as the recording says */

static uint64_t units_of(uint64_t bytes)
{
    return (bytes + VS_ARENA_UNIT - 1) / VS_ARENA_UNIT;
}

static struct shape *shape_of(const struct vs_watched *w)
{
    for (unsigned i = 0; i < shapes; i++)
        if (shape[i].units == units_of(w->size))
            return &shape[i];
    return NULL;
}

/* "16777216x48,8388608x2" */
static bool read_shapes(const char *text)
{
    unsigned long long bytes;
    unsigned count;
    int n;
    for (shapes = 0; shapes < SHAPES && sscanf(text, "%llux%u%n", &bytes, &count, &n) == 2; text += n + 1) {
        shape[shapes++] = (struct shape){.units = units_of(bytes), .wanted = count};
        if (text[n] != ',')
            return text[n] == 0;
    }
    return false;
}

/* What is watched has each shape as often as the recording. */
static bool agrees(void)
{
    bool same = true;
    VS_WATCHED_EACH(w)
    {
        struct shape *s = shape_of(w);
        if (s != NULL && w->told)
            s->found++;
    }
    for (unsigned i = 0; i < shapes && same; i++) {
        same = shape[i].found == shape[i].wanted;
        if (!same)
            vs_log("park: the recording of --from has %u optimizer states of %.2f MiB, this process %u: idle "
                   "time is measured first",
                   shape[i].wanted, (double)(shape[i].units * VS_ARENA_UNIT) / 0x1p20, shape[i].found);
    }
    return same;
}

static bool any_told(void)
{
    VS_WATCHED_EACH(w)
    if (w->told)
        return true;
    return false;
}

float vs_foreseen_ms(void)
{
    const char *text = vs_options.park_from, *list = strchr(text, ';');
    unsigned long long ns;
    if (idle_ms >= 0 || *text == 0 || !any_told())
        return idle_ms > 0 ? idle_ms : -1;
    idle_ms = 0;
    if (list == NULL || sscanf(text, "ns=%llu", &ns) != 1 || !read_shapes(list + 1))
        vs_log("VRAMSCOPE_PARK_FROM=%s is no plan of vramscope run --from: idle time is measured first",
               text);
    else if (agrees())
        idle_ms = (float)((double)ns / 1e6);
    return idle_ms > 0 ? idle_ms : -1;
}

bool vs_foreseen(const struct vs_watched *w)
{
    return idle_ms > 0 && shape_of(w) != NULL;
}
