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
 * The step is the peak's.  Static memory was allocated before it and is not freed in it; in the last step,
 * which ends with the program, what is freed after its last allocation counts as staying.  No change of one
 * step's work lowers the peak below it.  What the optimizer made before the peak and left (the states, in
 * the first step) stays as well, and is counted beside it.
 */
#ifndef VS_ANALYSIS_SAVINGS_H
#define VS_ANALYSIS_SAVINGS_H

#include "read/trace.h"
#include "read/steps.h"
#include "growth.h"
#include "read/living.h"
#include "read/stacks.h"

/* Nothing is known, with a reason, without steps, for a peak outside of steps, where events are missing, or
 * if a step frees nothing (a pool that reports nothing hides its use). */
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

/* The floor is the peak of a replay without the phase's own memory.  Of logits that is everything made in the
 * phase that does not stay, the previous step's logits included if the program still holds them, and what
 * backward both makes and frees, as the gradient of the logits is made there; this applies to a peak in
 * logits, or in backward of a step with that phase.  Of any other phase it is what it both makes and frees.
 * A change of that phase alone cannot lower the peak below the floor.  There is none if an output layer ran
 * where no hook sees it (torch.compile, F.linear, a fused loss) and the step has no logits: their memory is
 * then part of forward or backward.
 *
 * PHASE: the one at the peak.  NAMES: by phase id, N of them.  UNCALLED: trace.uncalled_classes. */
struct savings savings_of(const struct trace_step_memory *m, int64_t peak, const char *phase,
                          const char *const *names, size_t n, int64_t uncalled);

/* ---- causes ---- */

/* The causes of a device's peak: the figures behind the sentences on the first screen of a report.
 *
 *      logits        born in logits and alive at the peak, if that would be lower without them
 *      temporaries   alive at a peak in optimizer, and both made and freed by that optimizer step; by call
 *                    stack, as PyTorch's foreach implementations are known by their names
 *      left          alive at a peak outside of optimizer, and made by backward before the peak's step:
 *                    gradients, if the program keeps them while it computes the next loss
 *
 * All are measured bytes.  A figure below a twentieth of the peak did not cause it, and is 0.  What grows
 * from step to step (growth.h) is not counted as left. */
struct cause_stack {
    int64_t stack, bytes; /* 0: no call stack */
};

struct causes {
    int64_t logits, temporaries, left; /* bytes at the peak; 0: not a cause of it */
    const char *logits_line;           /* the line that made most of the logits; NULL: unknown */
    struct cause_stack *stacks;        /* of the temporaries, the most bytes first */
    size_t stack_count;
    int64_t foreach_bytes; /* of the temporaries, PyTorch's foreach implementations made; set by */
    char *foreach_frame;   /* whoever reads call stacks, with the first such frame; owned */
};

struct peak_facts { /* of a device */
    int64_t seq, bytes;
    const char *phase;             /* then; NULL unknown */
    const struct trace_live *live; /* what lived at the peak */
    size_t live_count;
    int64_t left; /* of it, born in backward before the peak's step; UNKNOWN: no steps */
};

/* NAMES: by phase id, N of them. */
struct causes causes_of(const struct peak_facts *peak, const struct trace_step_memory *m,
                        const struct savings *s, const struct growth *g, const char *const *names, size_t n);
/* The index of the first of N frames that is one of PyTorch's foreach implementations of an optimizer; -1:
 * none. */
int causes_foreach(const struct trace_frame *frames, size_t n);
void causes_free(struct causes *c);

#endif
