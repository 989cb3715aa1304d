/*
 * sampler.h - what hooks may ask about the driver's own figure of used memory.
 *
 * What the creation of a context or the load of a module costs is no argument of any call: it is the
 * difference of the driver's figure before and after.  NVML knows that figure without a CUDA context and
 * without touching a stream capture, but only the sampler's own thread talks to NVML.  So these functions
 * hand the question to that thread and wait for its answer, VS_QUERY_MS at most: no lock of NVML's, of the
 * loader's or of ours is ever waited for on a thread of the host.
 *
 *      struct vs_used before, after;
 *      vs_used_now(device, &before);   real call;   vs_used_now(device, &after);
 *      event.size = vs_used_cost(&before, &after);
 *
 * Asked of a thread that vramscope itself runs on (vs_record_enabled() is false there) the answer is no.
 */
#ifndef VS_SAMPLE_SAMPLER_H
#define VS_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"

#define VS_QUERY_MS 20
/* About a device's first context, which takes some 200 ms to make: where several processes begin at once NVML
 * answers slowly, and a figure that is not had then is never known. */
#define VS_QUERY_FIRST_MS 200

/* Two figures of one moment. */
struct vs_used {
    uint64_t process; /* NVML's of this pid; VS_BYTES_UNKNOWN: it does not list us */
    uint64_t device;  /* NVML's of the whole device; VS_BYTES_UNKNOWN: it can't say, or was not asked, as the
                         other one is known */
    bool answered;    /* NVML answered; where it did not list us then, we had no context on the device, or
                     pids are hidden from us (containers) */
};

/* What NVML says now of CUDA device DEVICE (an ordinal within the process; found by its UUID, so that
 * CUDA_VISIBLE_DEVICES does not matter).  False, with everything unknown: NVML is not there or not
 * initialised yet, the device has no row in the journal yet, the recording is not on, or no answer came in
 * time.  Keeps errno; async-signal-safe. */
bool vs_used_now(int device, struct vs_used *used);

/* The same of a device's first context, whose own cost it is: not counted as below. */
bool vs_used_first(int device, struct vs_used *used);

/* How long the host's threads may be held up by questions, all together: VS_QUERY_FREE_MS, or where that is
 * more a thousandth of the time since the first one.  True: it is used up, or the next question would. */
bool vs_query_time_spent(void);
#define VS_QUERY_FREE_MS 50
/* A question that was asked in another way took NS nanoseconds from BEGIN on. */
void vs_query_took(uint64_t begin, uint64_t ns);

/* Whether a change of DEVICE's own figure is this process's: NVML's last look, no more than VS_ALONE_MS ago,
 * saw no other process there.  Also true where NVML does not list processes: there, all figures contain what
 * others do. */
bool vs_used_alone(int device);
#define VS_ALONE_MS 500

/* The sampler's thread has just been started and is about to find out whether there is NVML: asking again in
 * a moment may be answered. */
bool vs_used_undecided(void);

/* By how many bytes a call between the two moved the process's figure.  Of the whole device's figure only
 * where NVML never lists us, and then other processes may have a part in it.  VS_BYTES_UNKNOWN where no two
 * figures can be compared.  A figure that fell gives the two's complement, as LIMIT has it. */
uint64_t vs_used_cost(const struct vs_used *before, const struct vs_used *after);

/* One figure and its source: this process's where NVML lists it, else the whole device's. */
bool vs_nvml_used_bytes(int device, uint64_t *bytes, enum vs_sample_source *source);

/* Asks the sampler for a sample of every device, soon (an out-of-memory, a context gone); does not wait. */
void vs_sample_soon(void);

/* True once each time the sampler wants the driver asked from one of the host's own threads: the hook then
 * calls cuMemGetInfo for its current device and vs_record()s a SAMPLE (source VS_SAMPLE_MEMINFO; arg1, the
 * host RSS, may stay 0: vs_record fills it).  One relaxed load when nothing is wanted. */
bool vs_sample_take_request(void);

#endif
