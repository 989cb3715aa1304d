/*
 * sampler.h - the driver's own figure of used memory: for hooks, and the thread that samples it.
 *
 * NVML gives that figure without a CUDA context and without disturbing a stream capture, but only the
 * sampler's own thread calls NVML.  So these functions pass the query to that thread and wait for its answer,
 * VS_QUERY_MS at most; a thread of the host never waits for a lock of NVML's, of the loader's or of ours.
 * Where vs_record_enabled() is false, as on threads of our own such as the drain's, they return false.
 *
 *      struct vs_used before, after;
 *      vs_used_now(device, &before);   real call;   vs_used_now(device, &after);
 *      event.size = vs_used_cost(&before, &after);
 */
#ifndef VS_SAMPLE_SAMPLER_H
#define VS_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"

#define VS_QUERY_MS 20
/* The limit for a device's first context, which takes some 200 ms to create.  NVML answers slowly if several
 * processes begin at once, and without an answer that cost is never known. */
#define VS_QUERY_FIRST_MS 200

/* Two figures of one moment. */
struct vs_used {
    uint64_t process; /* NVML's of this pid; VS_BYTES_UNKNOWN: it does not list us */
    uint64_t device;  /* NVML's of the whole device; VS_BYTES_UNKNOWN: no figure, or not queried because the
                         other one is known */
    bool answered;    /* NVML answered; if it did not list us, we had no context on the device, or our pid is
                         hidden (containers) */
};

/* NVML's present figures of CUDA device DEVICE (an ordinal within the process; found by its UUID, so that
 * CUDA_VISIBLE_DEVICES does not matter).  False, with everything unknown: NVML is missing or not initialised
 * yet, the device has no row in the journal yet, the recording is not on, or no answer came in time.  Keeps
 * errno; async-signal-safe. */
bool vs_used_now(int device, struct vs_used *used);

/* Likewise for a device's first context; its time is not counted in vs_query_time_spent. */
bool vs_used_first(int device, struct vs_used *used);

/* Whether queries have used up, or the next one would use up, the time for which they may delay the host's
 * threads in all: VS_QUERY_FREE_MS or, if that is more, a thousandth of the time since the first one. */
bool vs_query_time_spent(void);
#define VS_QUERY_FREE_MS 50
/* Counts a query that was made in another way and took NS nanoseconds from BEGIN on. */
void vs_query_took(uint64_t begin, uint64_t ns);

/* Whether a change of DEVICE's own figure is due to this process: NVML saw no other process there, at most
 * VS_ALONE_MS ago.  Also true if NVML does not list processes; then all figures include other processes. */
bool vs_used_alone(int device);
#define VS_ALONE_MS 500

/* Whether the sampler's thread is still finding out if there is NVML, so that a query may be answered a
 * moment later. */
bool vs_used_undecided(void);

/* The number of bytes by which a call between the two changed the process's figure.  If NVML never lists us
 * it is the change of the whole device's figure, in which other processes may have a part.  VS_BYTES_UNKNOWN:
 * no two figures can be compared.  A decrease is the two's complement, as in LIMIT. */
uint64_t vs_used_cost(const struct vs_used *before, const struct vs_used *after);

/* Requests a sample of every device soon (after an out-of-memory, or the end of a context); does not wait. */
void vs_sample_soon(void);

/* True once for each request by the sampler that one of the host's own threads query the driver: the hook
 * then calls cuMemGetInfo for its current device and vs_record()s a SAMPLE (source VS_SAMPLE_MEMINFO; arg1,
 * the host RSS, may stay 0: vs_record fills it).  One relaxed load if there is no request. */
bool vs_sample_take_request(void);

/* ---- the sampler as the second thread of a recording (record.h) ---- */

struct vs_recording;

/* Queries of the driver itself, with the signatures of hooks/meminfo.h. */
struct vs_sampler_driver {
    uint64_t (*current)(void);
    bool (*used_bytes)(uint64_t context, int *device, uint64_t *bytes);
};

/* Called while the library is being loaded. */
void vs_sampler_init(struct vs_sampler_driver driver);

/* Takes samples and answers queries until R->look is VS_LOOK_END. */
void vs_sampler_run(struct vs_recording *r);

/* Makes it take the last samples and stop, and waits for that a moment.  Called when the process begins to
 * end, while the driver and NVML still work. */
void vs_sampler_last_look(struct vs_recording *r);

/* Answers the waiting queries, by LOOK (query.c). */
void vs_sampler_answer(struct vs_recording *r, struct vs_used (*look)(int device));

/* ---- NVML (nvml.c): one thread at a time is inside, the sampler's or, under a limit, one of the host's
 * (limit/figure.c) ---- */

typedef void *vs_nvml_device;

struct vs_nvml_memory { /* nvmlMemory_v2_t; its version says how long it is */
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define VS_NVML_MEMORY_VERSION (sizeof(struct vs_nvml_memory) | 2u << 24)

/* Loads and initialises NVML; false: it is not usable. */
bool vs_nvml_load(void);

/* The handle of the device, or of the MIG instance, with this UUID; NULL: there is none. */
vs_nvml_device vs_nvml_find(const uint8_t uuid[16]);

/* The used memory of DEVICE (NULL: unknown).  *LISTED, which the caller keeps for the device, is whether
 * NVML has ever listed this process there: if it has, and does not any more, the process's last context has
 * ended, and it uses 0 bytes. */
struct vs_used vs_nvml_used(vs_nvml_device device, bool *listed);

/* Whether NVML lists another process on DEVICE, or perhaps does not list all. */
bool vs_nvml_others(vs_nvml_device device);

#endif
