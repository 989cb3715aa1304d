/*
 * losses.h - what a loss computes in, when its program is in 16 bits (losses.c).
 *
 * PyTorch's losses compute in what they are given.  Whether that is fp32 the code around them decides, and in
 * a recording in fp32 a copy to fp32 is none.
 */
#ifndef VS_EDIT_LOSSES_H
#define VS_EDIT_LOSSES_H

#include "program.h"

enum loss_type {
    LOSS_UNKNOWN, /* the code is not known to do the one or the other */
    LOSS_FP32,    /* of a copy in fp32 */
    LOSS_HALF     /* of what the model gave */
};

enum loss_part {
    LOSS_NONE,
    LOSS_OWN,  /* of the loss's arithmetic */
    LOSS_NEAR, /* as large as the logits, between the output layer and the loss */
    LOSS_COPY  /* what autocast makes for the loss: in a program without it there is none */
};

struct losses {
    enum loss_type type;
    bool said;         /* by the user: no library's function holds a copy */
    bool copied;       /* the copy in fp32 is recorded, as under autocast */
    uint8_t *of;       /* by block, an enum loss_part */
    uint16_t head;     /* the output layer */
    bool head_wide;    /* whose logits are wider than 16 bits */
    uint64_t elements; /* of its logits, the most; 0: it made none to speak of */
};

/* SAID: what the user says of it; LOSS_UNKNOWN: nothing. */
struct losses losses_read(const struct program *p, enum loss_type said);
void losses_free(struct losses *l);
/* Whether it is not known, and more than the width of an answer. */
bool losses_are_open(const struct program *p);

#endif
