/* account.c - see account.h. */
#include "account.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "foreseen.h"
#include "moved.h"
#include "park_copy.h"
#include "provider/provider.h"

/* ---- waiting ---- */

#define WAITS 4u /* whose end the device has not reached */

static struct {
    CUevent from, to;
} pending[WAITS];
static unsigned waits;
static CUevent from; /* of the wait under way; NULL: none is, or it cannot be timed */
static struct vs_served *waits_on;

static void read_waits(void)
{
    unsigned read = 0;
    while (read < waits && vs_park_reached(waits_on, pending[read].to)) {
        float ms = vs_park_between(waits_on, pending[read].from, pending[read].to);
        if (ms < 0)
            vs_moved_waited_ns = VS_BYTES_UNKNOWN;
        else if (vs_moved_waited_ns != VS_BYTES_UNKNOWN)
            vs_moved_waited_ns += (uint64_t)((double)ms * 1e6);
        read++;
    }
    waits -= read;
    memmove(pending, pending + read, waits * sizeof *pending);
}

/* Where some block is not back. */
static struct vs_served *lacking(void)
{
    VS_WATCHED_EACH(w)
    if (w->parked || w->coming)
        return w->s;
    return NULL;
}

void vs_account_wait_begins(CUstream stream)
{
    struct vs_served *s = lacking();
    if (waits != 0)
        read_waits();
    if (s == NULL)
        return;
    from = waits < WAITS && (waits == 0 || s == waits_on) ? vs_park_stamp(s, stream) : NULL;
    if (from == NULL)
        vs_moved_waited_ns = VS_BYTES_UNKNOWN;
    else
        waits_on = s;
}

void vs_account_wait_ends(CUstream stream)
{
    CUevent to = from != NULL ? vs_park_stamp(waits_on, stream) : NULL;
    if (to != NULL) {
        pending[waits].from = from;
        pending[waits++].to = to;
    } else if (from != NULL) {
        waits_on->cuda.call.cuEventDestroy_v2(from);
        vs_moved_waited_ns = VS_BYTES_UNKNOWN;
    }
    from = NULL;
}

void vs_account_device_ends(const struct vs_served *s)
{
    if (waits_on == s)
        waits = 0; /* the events went with the context */
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

void vs_account_plan(uint64_t idle, uint64_t parked, double ms, double rate)
{
    fact("park", "idle=%llu,ns=%.0f,link=%.0f,parked=%llu%s", (unsigned long long)idle, ms * 1e6, rate,
         (unsigned long long)parked, vs_foreseen_ms() > 0 ? ",from" : "");
}

void vs_account_first(uint64_t parked, double ms)
{
    fact("park_first", "parked=%llu,waited=%.0f", (unsigned long long)parked, ms * 1e6);
}

void vs_account_later(double ms)
{
    fact("park_later", "%.0f", ms * 1e6);
}

void vs_account_none(const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    vs_log("park: nothing is parked so far: %s", text);
    vs_provided_fact("park_none", text);
}

void vs_account_unforeseen(uint32_t uses)
{
    fact("park_unforeseen", "%u", uses);
}

void vs_account_ended(const char *why)
{
    vs_provided_fact("park_ended", why);
}
