/* loss_code.h - what is known of code that calls a loss, by the names in its call stack (loss_code.c). */
#ifndef VS_EDIT_LOSS_CODE_H
#define VS_EDIT_LOSS_CODE_H

#include "read/trace.h"
#include "read/stacks.h"

enum loss_giving {
    GIVES_ON,       /* what it was given: PyTorch's own code */
    GIVES_AS_IT_IS, /* what the model made */
    GIVES_UNKNOWN
};

/* Whether code of this name takes a copy of its input in fp32 for a loss. */
bool loss_code_upcasts(const char *function);
/* Whether the frame is one of PyTorch's losses, or a node of one in backward. */
bool loss_code_is_loss(const struct trace_frame *frame);
enum loss_giving loss_code_gives(const struct trace_frame *frame);

#endif
