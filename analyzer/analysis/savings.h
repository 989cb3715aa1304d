/*
 * savings.h - bounds on how far a device's peak could be lowered, computed from the recording alone.
 *
 *      peak        |        ____
 *                  |   ____|    |      own: what the phase at the peak holds for itself
 *      floor       |--|- - - - -|--
 *                  |  |         |  |   what the rest of the step holds
 *      static      |__|_________|__|__ what was there before the step and still is after it
 *                     <-- step -->
 *
 * The step is the one that the peak lies in.  Static memory is what was allocated before the step and is not
 * freed in it: weights, optimizer states and other memory that stays.  No change of one step's work can
 * lower the peak below it.
 *
 * What the optimizer made in the step before the peak, and left, stays as well: the states of the first step.
 * It is no memory of loss and activations either, and is counted beside static memory.
 *
 * The last step of a run ends with the program, and so holds what is freed then: what was there before it and
 * is freed after its last allocation counts as staying.
 *
 * The step is replayed without the phase's own memory.  The peak of the replay is the floor.  A phase's own
 * memory is:
 *   - Of logits: everything that is made in the phase and does not stay, including the previous step's logits
 *     if the program still holds them.  The gradient of the logits is made in backward, so what backward both
 *     makes and frees is left out too.  This applies if the peak is in logits, or in backward of a step with
 *     that phase.
 *   - Of any other phase: what it both makes and frees.
 *
 * A change of that phase alone leaves the rest where it is, so the peak cannot fall below the floor.
 *
 * There is no floor if an output layer ran where no hook sees it (torch.compile, F.linear, a fused loss) and
 * the step has no logits: their memory is then part of forward or backward.
 *
 * Nothing is known, and the reason is given, if there are no steps, if the peak lies outside of steps, if
 * events are missing, or if a step frees nothing (a pool that reports nothing hides what its memory is used
 * for).
 */
#ifndef VS_ANALYSIS_SAVINGS_H
#define VS_ANALYSIS_SAVINGS_H

#include "read/trace.h"
#include "read/steps.h"

struct savings {
    bool known;
    const char *why; /* if nothing is known: the reason; NULL: there is no memory to speak of */
    int64_t step, peak, static_bytes;
    int64_t
        states_bytes; /* beside static_bytes: made by the optimizer in the step, before the peak, and left */
    const char *phases[2]; /* whose own memory was left out; [0] NULL: the phase is unknown */
    int64_t left_bytes;    /* of static_bytes: memory that grows from step to step (analysis/growth.h) */
    int64_t floor;         /* the peak without it; UNKNOWN */
    const char *floor_phase;
    int64_t uncalled_classes; /* vocabulary of an output layer that was not seen; UNKNOWN: it was seen, or
                                 there is none */
};

/* PHASE: the one at the peak.  NAMES: by phase id, N of them.  UNCALLED: trace.uncalled_classes. */
struct savings savings_of(const struct trace_step_memory *m, int64_t peak, const char *phase,
                          const char *const *names, size_t n, int64_t uncalled);

#endif
