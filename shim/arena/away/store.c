/*
 * store.c - see store.h: a bit for each unit of the host's memory, the lowest free one is taken.
 *
 * So what is in use lies at the beginning, and the end can be given back.  A unit that is dropped may still
 * be read by a copy that the device has not made yet; who takes it next is copied there behind that, on the
 * same stream.  What is given back has been dropped long ago.
 */
#include "store.h"

#include <stdio.h>
#include <sys/mman.h>

#include "arena/device/served.h"
#include "core/clock.h"
#include "core/fork.h"
#include "core/log.h"
#include "host.h"
#include "watched.h"

#define LONG_NS 30000000000ull

static struct store {
    struct vs_host_store host; /* base NULL: there is none */
    uint64_t *taken;           /* bits */
    uint32_t units;            /* that there are addresses for */
    uint32_t first;            /* no word below has a free one */
    uint32_t top, peak;        /* units up to the last one that is taken; the most since `since` */
    uint64_t since;
    bool gives; /* some of it back, without the lock */
} stores[VS_SERVED_DEVICES];
static uint64_t limit = UINT64_MAX, locked, ns; /* of all */

void vs_store_limit(uint64_t bytes)
{
    limit = bytes;
}

uint64_t vs_store_ns(void)
{
    return ns;
}

static struct store *store_of(const struct vs_served *s)
{
    return &stores[s - vs_served];
}

static size_t words(const struct store *t)
{
    return t->units / 64 + 1; /* the last bit is never taken */
}

static void end(struct store *t)
{
    vs_host_end(&t->host);
    if (t->taken != NULL)
        munmap(t->taken, words(t) * sizeof *t->taken);
    *t = (struct store){.taken = NULL};
}

static bool begin(struct store *t)
{
    if (t->host.base != NULL)
        return true;
    uint64_t room = vs_host_room(), bytes = (limit < room ? limit : room) / VS_STORE_UNIT * VS_STORE_UNIT;
    *t = (struct store){.units = (uint32_t)(bytes / VS_STORE_UNIT), .since = vs_clock_ns()};
    t->taken = vs_map(words(t) * sizeof *t->taken);
    if (bytes == 0 || t->taken == NULL || !vs_host_reserve(&t->host, bytes))
        end(t);
    return t->host.base != NULL;
}

static void say_full(void)
{
    static bool said;
    char bytes[32];
    vs_host_amount(bytes, (double)locked);
    if (!said)
        vs_log("no more than %s go to the host: what --spill says, 3/4 of what was left to this process, or "
               "what the driver locks",
               bytes);
    said = true;
}

static bool lock_more(struct store *t)
{
    uint64_t before = t->host.locked, since = vs_clock_ns();
    if (t->gives)
        return false;
    bool more = begin(t) && locked < limit && vs_host_lock(&t->host, limit - locked);
    locked += t->host.locked - before;
    ns += vs_clock_ns() - since;
    if (!more)
        say_full();
    return more;
}

const char *vs_store_grow(struct vs_served *s, uint64_t bytes, char *why, size_t room)
{
    struct store *t = store_of(s);
    uint64_t from = t->host.locked, left = vs_host_room();
    while (t->host.locked < t->top * VS_STORE_UNIT + bytes)
        if (bytes > left || !lock_more(t)) {
            snprintf(why, room, "%.2f GiB are needed on the host, and %.2f GiB are to be had (%s)",
                     (double)bytes / 0x1p30, (double)(left < bytes ? left : t->host.locked - from) / 0x1p30,
                     left < bytes ? "3/4 of what is left to this process" : "the driver locks no more");
            return why;
        }
    return NULL;
}

char *vs_store_at(struct vs_served *s, uint64_t address)
{
    const uint32_t *kept = vs_watched_kept(address);
    return kept != NULL && *kept != 0 ? store_of(s)->host.base + (*kept - 1) * VS_STORE_UNIT : NULL;
}

uint64_t vs_store_together(struct vs_served *s, uint64_t address, uint64_t end)
{
    uint64_t bytes = VS_STORE_UNIT;
    const char *at = vs_store_at(s, address);
    while (address + bytes < end && vs_store_at(s, address + bytes) == at + bytes)
        bytes += VS_STORE_UNIT;
    return vs_host_together((uint64_t)(at - store_of(s)->host.base), bytes);
}

/* The first that is free; those behind the end are not locked yet. */
static uint32_t find(struct store *t)
{
    while (t->taken[t->first] == UINT64_MAX)
        t->first++;
    return t->first * 64 + (uint32_t)__builtin_ctzll(~t->taken[t->first]);
}

char *vs_store_have(struct vs_served *s, uint64_t address)
{
    struct store *t = store_of(s);
    uint32_t *kept = vs_watched_kept(address);
    if (kept == NULL || *kept != 0 || !begin(t))
        return vs_store_at(s, address);
    uint32_t unit = find(t);
    if (unit >= t->units)
        say_full();
    if (unit >= t->units || ((unit + 1ull) * VS_STORE_UNIT > t->host.locked && !lock_more(t)))
        return NULL;
    t->taken[unit / 64] |= 1ull << unit % 64;
    t->top = unit >= t->top ? unit + 1 : t->top;
    t->peak = t->top > t->peak ? t->top : t->peak;
    *kept = unit + 1;
    return vs_store_at(s, address);
}

void vs_store_drop(struct vs_served *s, uint64_t address)
{
    struct store *t = store_of(s);
    uint32_t *kept = vs_watched_kept(address);
    if (kept == NULL || *kept == 0)
        return;
    uint32_t unit = *kept - 1;
    t->taken[unit / 64] &= ~(1ull << unit % 64);
    t->first = unit / 64 < t->first ? unit / 64 : t->first;
    while (t->top != 0 && (t->taken[(t->top - 1) / 64] >> (t->top - 1) % 64 & 1) == 0)
        t->top--;
    *kept = 0;
}

bool vs_store_look(struct vs_served *s, struct vs_host_store *part)
{
    struct store *t = store_of(s);
    uint64_t now = t->host.locked != 0 && !t->gives ? vs_clock_ns() : 0;
    if (now < t->since + LONG_NS)
        return false;
    t->gives = vs_host_part(&t->host, t->peak * VS_STORE_UNIT, part);
    t->peak = t->top;
    t->since = now;
    return t->gives;
}

void vs_store_gave(struct vs_served *s, uint64_t bytes)
{
    locked -= bytes;
    store_of(s)->gives = false;
}

bool vs_store_gives(const struct vs_served *s)
{
    return store_of(s)->gives;
}

char *vs_store_base(const struct vs_served *s)
{
    return store_of(s)->host.locked != 0 ? store_of(s)->host.base : NULL;
}

void vs_store_end(struct vs_served *s)
{
    struct store *t = store_of(s);
    locked -= t->host.locked;
    end(t);
}
