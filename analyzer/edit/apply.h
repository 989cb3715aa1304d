/* apply.h - the edits, one function each, and what they share. */
#ifndef VS_EDIT_APPLY_H
#define VS_EDIT_APPLY_H

#include "edits.h"

/*
 * Making an edited program, an event at a time:
 *
 *      build_begin(&b, from);
 *      for (size_t i = 0; i < from->event_count; i++)
 *          ... build_copy(&b, i), or instead of it build_born, build_died, or nothing ...
 *      to = build_end(&b);
 */
struct build {
    const struct program *from;
    struct program to;
    uint32_t *now; /* by block of FROM: its number in TO; BLOCK_NEVER: it is not there, or not yet */
};

void build_begin(struct build *b, const struct program *from);
struct program build_end(struct build *b);

/* The event as it was.  The death of a block that is not there is no event. */
void build_copy(struct build *b, size_t event);
/* A block like LIKE, of SIZE bytes (0: none), in PHASE; its number. */
uint32_t build_born(struct build *b, const struct edit_block *like, uint64_t size, uint16_t phase,
                    enum edit_kind kind);
/* Nothing where BLOCK is BLOCK_NEVER, or dead. */
void build_died(struct build *b, uint32_t block, uint16_t phase);
/* What allocators round to. */
uint64_t build_round(uint64_t size);

/* ---- what an edit needs of a recording ---- */

/* R->why; returns a program without events. */
struct program refuse(struct edit_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Likewise, as there is nothing to change. */
struct program refuse_nothing(struct edit_result *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What most edits need; false with R->why. */
bool needs_steps(const struct program *p, struct edit_result *r);
bool needs_roles(const struct program *p, struct edit_result *r);
bool needs_layers(const struct program *p, struct edit_result *r);

/* ---- elements of blocks (elements.c) ---- */

/* Bytes of an element of TYPE; 0: unknown. */
uint64_t element_bytes(uint8_t type);

static inline bool element_is_half(uint8_t type)
{
    return type == ELEMENT_FLOAT16 || type == ELEMENT_BFLOAT16;
}

/* What a change of types makes narrower: floating-point numbers; of an unknown type it is taken for one. */
static inline bool element_is_float(uint8_t type)
{
    return type == ELEMENT_UNKNOWN || type == ELEMENT_FLOAT32 || type == ELEMENT_FLOAT64 ||
           element_is_half(type);
}

enum cast { /* that autocast made, in 16 bits */
            CAST_NONE,
            CAST_WEIGHT, /* of a parameter, for as long as autocast keeps it */
            CAST_DATA    /* perhaps of what a layer is given, or a gradient before it is made wide */
};

/* Of each block, an enum cast; the caller frees it. */
uint8_t *element_casts(const struct program *p);
/* Whether there are such copies of parameters. */
bool elements_are_cast(const struct program *p);

/* ---- blocks that grow with a program's data (scale.c) ---- */

#define SCALE_SURE (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */

/* What the units of the model give to the next ones, N x H: of each the last block that it saves in forward.
 */
struct scale_outputs {
    uint64_t *bytes;      /* by unit */
    struct sizes lengths; /* of sequences, where shapes are known: a pass saves N x length x width */
    struct sizes widths;  /* extents of parameters: what is one of these is no length for sure */
};
/* The caller frees it by scale_free_outputs. */
struct scale_outputs scale_unit_outputs(const struct program *p);
void scale_free_outputs(struct scale_outputs *o);
/* Attention that is not fused makes blocks of the length's square: they are larger than what the unit gives
 * by far, and not of N x width for sure, or their last two extents are lengths, as a mask's. */
bool scale_may_be_square(const struct program *p, const struct edit_block *b, const struct scale_outputs *o);
/* Made by a pass and not gone with it: caches, outputs of which the last ones are kept. */
bool scale_is_kept(const struct program *p, const struct edit_block *b);

/* ---- the edits ---- */

/* A program, or one without events and R->why.  HIGH: the one with the most memory that the edit can mean. */
struct program apply_loss(const struct program *from, const struct edit *e, struct edit_result *r, bool high);
struct program apply_foreach(const struct program *from, const struct edit *e, struct edit_result *r,
                             bool high);
struct program apply_optimizer(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high);
struct program apply_states(const struct program *from, const struct edit *e, struct edit_result *r,
                            bool high);
struct program apply_gradients(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high);
struct program apply_set_to_none(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high);
struct program apply_accumulate(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high);
struct program apply_checkpoint(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high);
struct program apply_batch(const struct program *from, const struct edit *e, struct edit_result *r,
                           bool high);
struct program apply_sequence(const struct program *from, const struct edit *e, struct edit_result *r,
                              bool high);
struct program apply_types(const struct program *from, const struct edit *e, struct edit_result *r,
                           bool high);
struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high);

#endif
