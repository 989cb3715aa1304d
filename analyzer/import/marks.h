/*
 * marks.h - what the frames of a call stack say of the blocks that were made, or freed, below them.
 */
#ifndef VS_IMPORT_MARKS_H
#define VS_IMPORT_MARKS_H

#include "phases.h"

enum mark {
    MARK_OPTIMIZER = 1, /* inside of an optimizer's step */
    MARK_STATE =
        2, /* in _init_group, where PyTorch's optimizers make their states and nothing else that stays */
    MARK_ZEROED = 4,     /* PyTorch's zero_grad itself runs, and nothing that it calls */
    MARK_MODULE = 8,     /* a module's call is under way */
    MARK_BACKWARD = 16,  /* backward is */
    MARK_MOVED = 32,     /* Module._apply is: to(), cuda(), half() */
    MARK_BUILT = 64,     /* a constructor of torch.nn's own modules asked for it */
    MARK_WORKSPACE = 128 /* a library's handle got its workspace (native frames alone say so) */
};

struct stack_marks {
    uint8_t bits;   /* a sum of enum mark */
    uint64_t place; /* of MOVED and BUILT: equal where the same line of PyTorch's code asked */
    uint32_t line;  /* of MOVED: that line of _apply */
};

/* By stack - 1; the caller frees it. */
struct stack_marks *marks_read(const struct snapshot *s);

#endif
