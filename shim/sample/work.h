/*
 * work.h - what the sampler does for a recording, as the second thread of suppliers.h.
 */
#ifndef VS_SAMPLE_WORK_H
#define VS_SAMPLE_WORK_H

#include "record/recording.h"
#include "sampler.h"

/* How the driver itself is asked; both as hooks/meminfo.h has them. */
struct vs_sampler_driver {
    uint64_t (*current)(void);
    bool (*used_bytes)(uint64_t context, int *device, uint64_t *bytes);
};

/* While the library is loaded. */
void vs_sampler_init(struct vs_sampler_driver driver);

/* Takes samples and answers questions until R->look says that it is the end. */
void vs_sampler_run(struct vs_recording *r);

/* Has it take the last samples and stop, and waits for that a moment.  While the driver and NVML still work:
 * at the begin of the end of the process. */
void vs_sampler_last_look(struct vs_recording *r);

/* Answers the questions that wait, by LOOK (query.c). */
void vs_sampler_answer(struct vs_recording *r, struct vs_used (*look)(int device));

#endif
