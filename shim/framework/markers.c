/*
 * markers.c - the functions of vramscope.h, and those that the Python hook calls (vramscope_auto_*,
 * vramscope_pool_use), which are in no public header.
 *
 * Ranges of the hook have the lowest precedence, so that a program's own markers win.  Names are copied
 * before the call returns; errno stays as it was.
 */
#include "vramscope.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "ranges.h"
#include "core/contracts.h"
#include "core/options.h"
#include "record/record.h"

VRAMSCOPE_API int vramscope_auto_push(const char *name);
VRAMSCOPE_API int vramscope_auto_pop(void);
VRAMSCOPE_API int vramscope_auto_mark(const char *name);
VRAMSCOPE_API int vramscope_auto_roles(const uint64_t *addresses, unsigned count, unsigned role);
VRAMSCOPE_API int vramscope_auto_takes(void);
VRAMSCOPE_API int vramscope_auto_contract(const char *name, int proven, const char *detail);
VRAMSCOPE_API void vramscope_auto_limit(uint64_t count, void (*reached)(void));
VRAMSCOPE_API void vramscope_auto_finish(void);
VRAMSCOPE_API int vramscope_pool_use(const char *pool, int device, uint64_t used, uint64_t peak,
                                     uint64_t held);

static int push(const char *name, enum vs_range_source source)
{
    int saved = errno, depth;
    struct vs_range_names names = {.text = name ? name : ""};

    names.length = strlen(names.text);
    names.name = vs_name_intern(names.text, names.length);
    uint32_t id = vs_range_open(&names, source, &depth);

    errno = saved;
    return id ? depth : -1;
}

static int pop(enum vs_range_source source)
{
    int saved = errno, depth = vs_range_close(NULL, source);

    errno = saved;
    return depth;
}

int vramscope_range_push(const char *name)
{
    return push(name, VS_SOURCE_MARKER);
}

int vramscope_range_pop(void)
{
    return pop(VS_SOURCE_MARKER);
}

int vramscope_auto_push(const char *name)
{
    return push(name, VS_SOURCE_AUTO);
}

int vramscope_auto_pop(void)
{
    return pop(VS_SOURCE_AUTO);
}

void vramscope_mark(const char *name)
{
    int saved = errno;

    vs_range_mark(name ? name : "", strlen(name ? name : ""), NULL, VS_SOURCE_MARKER);
    errno = saved;
}

/* 0, or -1 while nothing is recorded: the caller may try again later. */
int vramscope_auto_mark(const char *name)
{
    int saved = errno;
    bool recorded = vs_range_mark(name, strlen(name), NULL, VS_SOURCE_AUTO);

    errno = saved;
    return recorded ? 0 : -1;
}

/* Steps are numbered by their order in the ring, so that threads which step at the same time cannot be
 * numbered in one order and recorded in another.  The event has the number of calls before it that have no
 * event, because nothing was recorded then.  So the number counts every call in the process: it is the
 * program's own iteration number. */
static struct {
    uint64_t unrecorded; /* atomic: calls since the last one that was recorded */
    uint64_t recorded;   /* atomic: in the recording of `generation` */
    uint32_t generation; /* atomic: of the process (vs_fork_number) that counted them */
} steps;

/* A fork child's recording does not count its parent's steps. */
static void count_anew(uint32_t generation)
{
    uint32_t seen = __atomic_load_n(&steps.generation, __ATOMIC_RELAXED);

    if (seen != generation && __atomic_compare_exchange_n(&steps.generation, &seen, generation, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        __atomic_fetch_add(&steps.unrecorded, __atomic_exchange_n(&steps.recorded, 0, __ATOMIC_RELAXED),
                           __ATOMIC_RELAXED);
}

/* A dry run ends after so many steps.  It is set before the first, by Python; steps may end in any thread. */
static struct {
    uint64_t left;
    void (*reached)(void); /* NULL: no limit */
} limit;

/* REACHED is called by the COUNTth vramscope_step from now on; NULL: it is not. */
void vramscope_auto_limit(uint64_t count, void (*reached)(void))
{
    limit.left = count;
    limit.reached = reached;
}

/* Completes the recording of a process that ends without its exit handlers. */
void vramscope_auto_finish(void)
{
    vs_record_complete();
}

void vramscope_step(void)
{
    int saved = errno;
    struct vs_event event = {.op = VS_OP_STEP, .device = VS_DEVICE_UNKNOWN};

    count_anew(vs_range_lead());
    /* All are relaxed: each count is taken by one thread and guards no other memory. */
    event.arg0 = __atomic_exchange_n(&steps.unrecorded, 0, __ATOMIC_RELAXED);
    if (vs_record_enabled() && vs_record_journal() && vs_record(&event) != VS_SEQ_NONE)
        __atomic_fetch_add(&steps.recorded, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&steps.unrecorded, event.arg0 + 1, __ATOMIC_RELAXED);
    if (limit.reached && __atomic_sub_fetch(&limit.left, 1, __ATOMIC_RELAXED) == 0)
        limit.reached();
    errno = saved;
}

void (*vs_pool_seen)(const char *pool);
void (*vs_roles_told)(const uint64_t *addresses, size_t count, unsigned role);

/* The first figure that is not 0 says that the library is there. */
static void see_pool(const char *pool, uint64_t used, uint32_t id)
{
    static _Atomic uint32_t
        seen[2]; /* string ids, of as many pools as are asked; relaxed: they guard nothing */

    if (used == 0 || !vs_pool_seen || seen[0] == id || seen[1] == id)
        return;
    seen[seen[0] != 0] = id;
    vs_pool_seen(pool);
}

/* Records the figures of a library's pool, which the Python hook queries
 * (framework/python/vramscope/_pools.py).  PEAK and HELD are UINT64_MAX where the library does not report
 * them.  Returns 1 if a recording has begun, which shows that the driver is in use; before that the hook
 * queries no library.  POOL NULL: only returns that. */
int vramscope_pool_use(const char *pool, int device, uint64_t used, uint64_t peak, uint64_t held)
{
    int saved = errno;
    struct vs_journal *j = vs_record_enabled() ? vs_record_journal() : NULL;
    struct vs_event event = {
        .op = VS_OP_POOL_USE, .device = (int8_t)device, .size = used, .arg0 = peak, .arg1 = held};

    if (j && pool && device >= 0 && device <= INT8_MAX) {
        event.address = vs_journal_string(j, pool, strlen(pool));
        see_pool(pool, used, (uint32_t)event.address);
        vs_record(&event);
    }
    errno = saved;
    return j != NULL;
}

/* Whether the ring takes COUNT events more and stays half empty: what blocks are for is not worth an event
 * that says what they are. */
static bool has_room(const struct vs_journal *j, uint64_t count)
{
    struct vs_journal_stats now;

    vs_journal_stats(j, &now);
    return now.head - now.tail + count < (uint64_t)vs_options.ring_events / 2;
}

/* COUNT storages that begin at ADDRESSES are of ROLE, an enum vs_role: the Python hook reads them
 * (framework/python/vramscope/_roles.py).  1 where they were recorded, or would have been: ADDRESSES may be
 * NULL; 0 where nothing is recorded, or the drain has much to do: the caller may try again later. */
int vramscope_auto_roles(const uint64_t *addresses, unsigned count, unsigned role)
{
    int saved = errno;
    struct vs_journal *j = vs_record_enabled() ? vs_record_journal() : NULL;
    bool room = j && has_room(j, count / 3 + 1);

    for (unsigned i = 0; room && addresses && i < count; i += 3) {
        struct vs_event event = {.op = VS_OP_FRAMEWORK_ROLE,
                                 .device = VS_DEVICE_UNKNOWN,
                                 .address = addresses[i],
                                 .size = i + 1 < count ? addresses[i + 1] : 0,
                                 .arg0 = i + 2 < count ? addresses[i + 2] : 0,
                                 .arg1 = role};
        vs_record(&event);
    }
    if (vs_roles_told != NULL && addresses != NULL)
        vs_roles_told(addresses, count, role);
    errno = saved;
    return room;
}

void vramscope_record_start(void)
{
    int saved = errno;

    vs_record_window(true);
    errno = saved;
}

void vramscope_record_stop(void)
{
    int saved = errno;

    vs_record_window(false);
    errno = saved;
}

/* Whether an allocation would be recorded now: vramscope_active, and the record window is open. */
int vramscope_auto_takes(void)
{
    return vs_record_takes();
}

/* The contract with NAME holds, or does not, as DETAIL says (python/vramscope/_contracts.py).  1, or 0 where
 * there is none with that name. */
int vramscope_auto_contract(const char *name, int proven, const char *detail)
{
    unsigned c = 0;
    while (c < VS_CONTRACTS && strcmp(vs_contract_rows[c].name, name))
        c++;
    if (c == VS_CONTRACTS)
        return 0;
    if (proven)
        vs_contract_proven(c, "%s", detail);
    else
        vs_contract_broken(c, "%s", detail);
    return 1;
}

int vramscope_active(void)
{
    return vs_record_enabled();
}
