/*
 * roles.h - what the blocks of a snapshot are for, as call stacks and lifetimes show.
 *
 * A snapshot names no roles.  Two things tell them: what PyTorch's own code was doing when a block came and
 * when it went, and where in the steps that was.  Where both do not suffice the role is unknown.  The rules
 * are those of enum vs_life_rule, whose words are in schema.sql (view life_role):
 *
 *  - An optimizer's state is born in an optimizer's step and outlives it.
 *  - A gradient is born in backward.  zero_grad frees it, or it outlives the optimizer's step and not the
 *    next backward.  A block that stays for ever may be a workspace, which is born in backward too: it is a
 *    gradient if there are as many optimizer states, or parameters, as such blocks of its size.
 *  - A parameter was there before the first step and stays.  There are as many blocks of its size as
 *    gradients.  Where Module._apply moved a model, all that the same line moved is the same.
 *  - An activation is born in forward and freed inside of backward, when Python is not free to drop anything.
 *  - A temporary is born and freed in one stretch of a phase.
 *  - A block that had no time to end, as memory ran out, is what all of its stack and size were before it.
 *
 * Not told are inputs, logits, and anything of a trace in which nobody trains.
 */
#ifndef VS_IMPORT_ROLES_H
#define VS_IMPORT_ROLES_H

#include "lives.h"

struct roles {
    uint8_t
        *of_entry[SNAPSHOT_DEVICES]; /* enum vs_life_rule of the block that an entry of the trace allocates */
    uint8_t *of_block[SNAPSHOT_DEVICES]; /* of one that was there before the trace */
    bool any;                            /* a role is known */
    uint32_t *ends; /* the entries after which a phase's own are over, ascending, counted as in lives.h */
    size_t end_count;
};

void roles_find(struct roles *r, const struct snapshot *s, const struct rewound *start,
                const struct phases *phases);
void roles_free(struct roles *r);

#endif
