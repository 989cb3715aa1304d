/*
 * edits.h - changes of a training program, each an edit of its recorded blocks.
 *
 *      loss=fused            the loss in chunks: no logits, no gradient of them
 *      foreach=no            the optimizer takes one parameter after the other
 *      optimizer=fused       it needs no temporaries
 *      states=bf16|8bit|host the optimizer's states, smaller or not on the device
 *      gradients=in-backward each parameter is updated, and its gradient freed, as soon as that is there
 *      set_to_none=yes       zero_grad() frees gradients
 *      accumulate=N          N times forward and backward for a step of the optimizer
 *      checkpoint=K[:PATH]   every K-th unit keeps its input alone and is computed again in backward; of the
 *                            units whose path is PATH, with * for a part of a name
 *      batch=X, sequence=X   X times the samples, X times the length
 *      types=bf16            parameters, gradients, states and activations in 16 bits; with ",loss=fp32" or
 *                            ",loss=bf16" behind it for what the loss computes in
 *      zero=S:N              ZeRO stage S over N ranks
 *
 * An edit has a low and a high answer: the programs that are meant to take the least and the most memory that
 * the change can mean (a figure that an edited order turns round is sorted in whatif/answers.h).  Where both
 * are the same there is one program.  An edit that the recording cannot answer is refused with a sentence
 * that says what is missing.
 */
#ifndef VS_EDIT_EDITS_H
#define VS_EDIT_EDITS_H

#include "program.h"

enum edit_what {
    EDIT_LOSS,
    EDIT_FOREACH,
    EDIT_OPTIMIZER,
    EDIT_STATES,
    EDIT_GRADIENTS,
    EDIT_SET_TO_NONE,
    EDIT_ACCUMULATE,
    EDIT_CHECKPOINT,
    EDIT_BATCH,
    EDIT_SEQUENCE,
    EDIT_TYPES,
    EDIT_ZERO,
    EDIT_KINDS
};

enum edit_states { STATES_BF16 = 2, STATES_8BIT = 1, STATES_HOST = 0 };
/* What the loss computes in then; EITHER: both are in the interval. */
enum edit_loss { LOSS_EITHER = 0, LOSS_BF16, LOSS_FP32 };

struct edit {
    enum edit_what what;
    const char *text; /* "states=8bit", static or the command line's */
    double factor;    /* of batch and sequence */
    const char *path; /* of checkpoint's units; in text, NULL: as unit_names.c finds them */
    int64_t n; /* accumulate, checkpoint, ranks of zero; of states, of types an enum edit_states, edit_loss */
    int64_t stage;
};

/* Of "NAME=VALUE"; false with *WHY, which the caller frees. */
bool edit_parse(const char *text, struct edit *e, char **why);

/* Of N edits that one program can't have: a sentence, which the caller frees; NULL: it can have all. */
char *edit_contradiction(const struct edit *edits, size_t n);

struct edit_result {
    struct program low, high; /* high is empty where both are the same */
    char *why;                /* refused: a sentence, owned; then there is no program */
    char *assumes;            /* what the answer takes for granted; owned, NULL: nothing */
    const char *cost;         /* of one change, what it costs where that is known; NULL */
    char *costs;              /* of several, likewise; owned */
    bool about;   /* kernels or lifetimes that nobody recorded: a figure is one of an interval, not exact */
    bool moves;   /* what is recorded is made at other times, so other pieces of memory are free */
    bool nothing; /* it is refused since the program does so already, or has nothing to change */
};

/* What an allocator reserves of it may be off by one part of so many; 0: of its blocks it is exact.  A 40th
 * where kernels are not the recorded ones, a 20th where they also run at other times, so that other holes are
 * free when they ask (docs/measurements/predictions.md). */
static inline int edit_reserved_part(const struct edit_result *r)
{
    return !r->about ? 0 : r->moves ? 20 : 40;
}

/* Likewise of what is allocated, by the RESERVED part: what autocast keeps of weights is not known to go with
 * the layers that are called again. */
static inline int edit_allocated_part(int reserved)
{
    return !reserved ? 0 : reserved == 20 ? 40 : 100;
}

/* FROM is left as it is. */
struct edit_result edit_apply(const struct program *from, const struct edit *e);
/* N of them, each of what those before it made. */
struct edit_result edit_apply_all(const struct program *from, const struct edit *const *edits, size_t n);
void edit_free_result(struct edit_result *r);

/* Whether a run could be told to do so where it stands.  It could not be told to compute something else, or
 * with fewer digits (whether its elements have 4 bytes is not recorded), or on another number of devices. */
bool edit_is_advice(const struct edit *e);

/* What a change costs, in two or three words; static. */
const char *edit_brief_cost(const struct edit *e);

/* Those that `whatif` tries by itself, and of them the one whose text is NAME; NULL: none. */
const struct edit *edit_all(size_t *n);
const struct edit *edit_named(const char *name);

#endif
