/*
 * roles.h - what the blocks of a snapshot are for, as call stacks and lifetimes show.
 *
 * A snapshot names no roles.  What PyTorch's own code was doing when a block came and when it went says a
 * lot, and where in the steps that was says the rest; where the two do not suffice the role is unknown.  The
 * rules are those of enum vs_life_rule, whose words are in schema.sql (view life_role):
 *
 *  - an optimizer's state is born in an optimizer's step and outlives it;
 *  - a gradient is born in backward and freed by zero_grad, or outlives the optimizer's step and not the next
 *    backward.  One that stays for ever looks like a workspace, which is born in backward too: it needs
 *    optimizer states, or parameters, that are as many as such blocks of its size;
 *  - a parameter was there before the first step and stays: as many blocks of its size as there are
 * gradients. Where Module._apply moved a model, all that the same line moved is the same;
 *  - an activation is born in forward and freed inside of backward, when Python is not free to drop anything;
 *  - a temporary is born and freed in one stretch of a phase;
 *  - what had no time to end (memory ran out) is what all of the same stack and size were before it.
 *
 * What is not shown: inputs, logits, and anything of a trace in which nobody trains.
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
