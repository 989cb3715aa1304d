/*
 * answer.h - an edited program under each allocator: the most that was allocated and reserved, over all and
 * by phase, and what the peak is made of.
 */
#ifndef VS_EDIT_ANSWER_H
#define VS_EDIT_ANSWER_H

#include "edits.h"
#include "replay/replay.h"

struct answer_peak {
    uint64_t allocated, reserved;
    uint16_t phase; /* at the allocated peak */
};

struct answer_policy {
    bool wanted;
    struct answer_peak peak;
    uint64_t *phase_allocated, *phase_reserved; /* by phase, the most while it was the innermost, or when
                                                    it began where it makes and frees nothing */
    bool ran_out;
    uint64_t out_size, out_reserved; /* asked for; held then */
    size_t out_event;
    uint16_t out_phase;
    uint64_t end_allocated, end_reserved; /* after the last event, or when it ran out */
    uint64_t before_reserved;             /* before that event */
    uint64_t end_room; /* the largest request that it would get after the last event; 0 where it ran out, or
                          has no end */
};

struct answer { /* of one program */
    struct answer_policy of[FEED_POLICIES];
    size_t phases;
    enum edit_kind most; /* at the peak of what lives, the kind with the most bytes, and these */
    uint64_t most_bytes;
};

/* The policies of WANTED.  SETTINGS: of PyTorch's; its capacity is every policy's. */
struct answer answer_of(const struct program *p, const struct torch_settings *settings, const bool *wanted);
struct answer answer_copy(const struct answer *a);
void answer_free(struct answer *a);
/* Of A, the answer without an end, whether each policy has enough with the capacity of SETTINGS: ran_out and
 * out_*.  Where it has, what is reserved is what it is then, as caches can have been emptied on the way. */
void answer_fit(struct answer *a, const struct program *p, const struct torch_settings *settings);

/* "saved for backward" */
const char *answer_kind(enum edit_kind kind);

#endif
