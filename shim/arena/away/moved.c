/* moved.c - see moved.h: asks the arena how many bytes of a block are away. */
#include "moved.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "park.h"
#include "park_copy.h"
#include "provider/provider.h"

/* ---- waiting ---- */

#define WAITS 4u /* whose end the device has not reached */

static struct {
    CUevent from, to;
} wait[WAITS];
static unsigned waits;
static bool under_way;
static struct vs_served *waits_on;
static uint64_t waited_ns; /* VS_BYTES_UNKNOWN from the first time on that could not be taken */

static void read_waits(void)
{
    unsigned read = 0;
    while (read < waits && vs_park_reached(waits_on, wait[read].to)) {
        float ms = vs_park_between(waits_on, wait[read].from, wait[read].to);
        if (ms < 0)
            waited_ns = VS_BYTES_UNKNOWN;
        else if (waited_ns != VS_BYTES_UNKNOWN)
            waited_ns += (uint64_t)((double)ms * 1e6);
        read++;
    }
    waits -= read;
    memmove(wait, wait + read, waits * sizeof *wait);
}

/* Where some block is not back. */
static struct vs_served *lacking(void)
{
    for (uint32_t i = 0; i < vs_watched_count; i++)
        if (vs_watched[i].parked || vs_watched[i].coming)
            return vs_watched[i].s;
    return NULL;
}

static bool can_stamp(const struct vs_served *s, CUstream stream)
{
    bool captures = s->cuda.captures != NULL && __atomic_load_n(s->cuda.captures, __ATOMIC_ACQUIRE) != 0;
    return stream != VS_PARK_NO_STREAM && !captures && waits < WAITS && (waits == 0 || s == waits_on);
}

void vs_moved_wait_begins(CUstream stream)
{
    struct vs_served *s = lacking();
    if (waits != 0)
        read_waits();
    if (s == NULL)
        return;
    wait[waits].from = can_stamp(s, stream) ? vs_park_stamp(s, stream) : NULL;
    under_way = wait[waits].from != NULL;
    waits_on = under_way ? s : waits_on;
    if (!under_way)
        waited_ns = VS_BYTES_UNKNOWN;
}

void vs_moved_wait_ends(CUstream stream)
{
    if (!under_way)
        return;
    under_way = false;
    wait[waits].to = vs_park_stamp(waits_on, stream);
    if (wait[waits].to != NULL) {
        waits++;
        return;
    }
    waits_on->cuda.call.cuEventDestroy_v2(wait[waits].from);
    waited_ns = VS_BYTES_UNKNOWN;
}

void vs_moved_device_ends(const struct vs_served *s)
{
    if (waits_on == s)
        waits = 0; /* the events went with the context */
}

/* ---- blocks ---- */

static void tell(struct vs_served *s, struct vs_arena *arena, uint64_t address, enum vs_away_why why)
{
    vs_provided_moved((int)(s - vs_served), address, vs_arena_block_away(arena, address), why,
                      why == VS_AWAY_SUSPENDED ? VS_BYTES_UNKNOWN : waited_ns);
}

void vs_moved_pieces(const struct vs_pieces *p)
{
    struct vs_arena_block found;
    struct vs_arena_stats stats;
    struct vs_served *s;
    for (size_t i = 0; i < p->blocks; i++) {
        struct vs_arena *arena = vs_served_owner(p->block[i].address, &s, &found);
        if (arena != NULL && found.address == p->block[i].address)
            tell(s, arena, found.address, VS_AWAY_SUSPENDED);
    }
    for (int i = 0; i < VS_SERVED_DEVICES && p->blocks == 0; i++) {
        struct vs_arena *arena = p->arena[i] != NULL ? vs_pieces_arena(p, i) : NULL;
        if (arena == NULL)
            continue;
        vs_arena_stats(arena, &stats);
        vs_provided_moved(i, 0, stats.away != 0 ? stats.allocated : 0, VS_AWAY_SUSPENDED, VS_BYTES_UNKNOWN);
    }
}

/* Two blocks may lie in the last chunk of W; it goes and comes with the later and the earlier of them. */
static bool share_chunk(const struct vs_watched *w, const struct vs_watched *next)
{
    uint64_t chunk = w->s->cuda.chunk;
    return w->arena == next->arena && (w->address + w->size - 1) / chunk == next->address / chunk;
}

void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why)
{
    const struct vs_watched *end = vs_watched + vs_watched_count;
    tell(w->s, w->arena, w->address, why);
    if (w > vs_watched && w[-1].parked && share_chunk(&w[-1], w))
        tell(w->s, w->arena, w[-1].address, why);
    if (w + 1 < end && w[1].parked && share_chunk(w, w + 1))
        tell(w->s, w->arena, w[1].address, why);
}

/* ---- what parking decided: rows of table meta ---- */

static void fact(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fact(const char *key, const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    vs_provided_fact(key, text);
}

void vs_moved_plan(uint64_t idle, uint64_t parked, double ms, double rate)
{
    fact("park", "idle=%llu,ns=%.0f,link=%.0f,parked=%llu", (unsigned long long)idle, ms * 1e6, rate,
         (unsigned long long)parked);
}

void vs_moved_none(const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    vs_log("park: nothing is parked so far: %s", text);
    vs_provided_fact("park_none", text);
}

void vs_moved_unforeseen(uint32_t uses)
{
    fact("park_unforeseen", "%u", uses);
}

void vs_moved_ended(const char *why)
{
    vs_provided_fact("park_ended", why);
}
