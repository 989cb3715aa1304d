/*
 * causes.h - the causes of a device's peak: the figures behind the sentences on the first screen of a report.
 *
 *      logits        born in logits and alive at the peak, if that would be lower without them (savings.h)
 *      temporaries   alive at a peak in optimizer, and both made and freed by that optimizer step; by call
 *                    stack, as PyTorch's foreach implementations are known by their names
 *      left          alive at a peak outside of optimizer, and made by backward before the peak's step:
 *                    gradients, if the program keeps them while it computes the next loss
 *
 * All are measured bytes.  A figure below a twentieth of the peak did not cause it, and is 0.  What grows
 * from step to step (growth.h) is not counted as left.
 */
#ifndef VS_ANALYSIS_CAUSES_H
#define VS_ANALYSIS_CAUSES_H

#include "growth.h"
#include "savings.h"
#include "read/living.h"
#include "read/stacks.h"
#include "read/steps.h"

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
