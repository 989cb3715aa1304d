/*
 * work.h - the sampler as the second thread of a recording (suppliers.h).
 */
#ifndef VS_SAMPLE_WORK_H
#define VS_SAMPLE_WORK_H

#include "record/recording.h"
#include "sampler.h"

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

#endif
