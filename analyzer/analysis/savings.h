/*
 * savings.h - what would lower a device's peak, and by how much at most: bounds, from the recording alone.
 *
 *      peak        |        ____
 *                  |   ____|    |      own: what the phase at the peak holds for itself
 *      floor       |--|- - - - -|--
 *                  |  |         |  |   what the rest of the step holds
 *      static      |__|_________|__|__ what was there before the step and still is after it
 *                     <-- step -->
 *
 * The step is the one that the peak lies in.  Static are the allocations made before it and not freed in it:
 * weights, optimizer states, whatever stays.  Nothing that one step makes can lower the peak below them.
 *
 * Own is taken away in thought, and the step replayed: the floor is the peak that is left.
 *   - The phase logits: everything made in it that does not stay, also the step before's that the program
 *     still held.  Its gradient is made in backward, so what backward makes and frees itself goes with it.
 *     Both where the peak is in logits, or in backward of a step that has the phase.
 *   - Any other phase: what it makes and frees itself.
 * A change of that phase alone leaves the rest where it is, so the peak cannot fall below the floor.
 *
 * No floor is known where an output layer ran where no hook sees it (torch.compile, F.linear, a fused loss)
 * and the step has no logits: then what they take lies in forward or backward, and is no phase's own.
 *
 * Not known, and then it is said why, where no steps are known, where the peak lies outside of them, where
 * events are missing, and where a step gives nothing back (a pool that nobody reports hides what it is used
 * for).
 */
#ifndef VS_ANALYSIS_SAVINGS_H
#define VS_ANALYSIS_SAVINGS_H

#include "read/trace.h"

struct savings {
    bool known;
    const char *why; /* not known: why; NULL: there is nothing to say anything about */
    int64_t step, peak, static_bytes;
    const char *phases[2]; /* whose own memory was taken away; [0] NULL: the phase is not known */
    int64_t left_bytes;    /* of static_bytes: left by earlier steps, each more (analysis/growth.h) */
    int64_t floor;         /* the peak without it; UNKNOWN */
    const char *floor_phase;
    int64_t uncalled_classes; /* of that output layer; UNKNOWN: it was called, or there is none */
};

/* PHASE: the one at the peak.  NAMES: by phase id, N of them.  UNCALLED: trace.uncalled_classes. */
struct savings savings_of(const struct trace_step_memory *m, int64_t peak, const char *phase,
                          const char *const *names, size_t n, int64_t uncalled);

#endif
