/*
 * phases.h - which phase of a training step an allocation belongs to, as the frames of its call stack show.
 *
 * The optimizer's frames are looked for first, then backward's, since both may call modules (a checkpointed
 * forward runs inside of backward). Evaluation cannot be told from forward, nor the output layer from others.
 * What the program's own code allocates between forward and backward, the loss for instance, stays forward's;
 * after backward and the optimizer it is in no phase.
 *
 * With Python's frames alone autograd's own threads have no frames: where other stacks show modules and
 * backward, an allocation without any frame is backward's.
 *
 * From 2.5 on PyTorch marks a step of its optimizers by name and time (external_annotations). In it
 * everything is the optimizer's unless a stack says another phase.  Without marks a phase goes on until a
 * stack shows another one; its range in the recording ends with its last own entry (convert.h).
 */
#ifndef VS_IMPORT_PHASES_H
#define VS_IMPORT_PHASES_H

#include "snapshot.h"

enum import_phase { /* in the order in which they are believed */
                    IMPORT_NONE,
                    IMPORT_OUTSIDE, /* the program's own code, called by none of the others */
                    IMPORT_FORWARD,
                    IMPORT_BACKWARD,
                    IMPORT_OPTIMIZER,
                    IMPORT_PHASES
};

struct phases {
    uint8_t *of_stack;                 /* by stack - 1 */
    enum import_phase without_a_stack; /* BACKWARD, or NONE where nothing speaks for it */
    bool marked;                       /* there are marks of steps */
};

/* Marks the ranges of S that are steps of an optimizer, too. */
void phases_read(struct phases *p, struct snapshot *s);
void phases_free(struct phases *p);

static inline enum import_phase phase_of(const struct phases *p, uint32_t stack)
{
    return stack ? (enum import_phase)p->of_stack[stack - 1] : p->without_a_stack;
}

/* What an entry with this stack shows, IN_STEP: in a marked step. */
static inline enum import_phase phases_shown(const struct phases *p, uint32_t stack, bool in_step)
{
    enum import_phase said = phase_of(p, stack);
    return in_step && said <= IMPORT_OUTSIDE ? IMPORT_OPTIMIZER : said;
}

/* Whether R is to be passed before an entry at TIME: of one microsecond what begins comes first, what ends
 * last. */
static inline bool phases_precedes(const struct snapshot_range *r, int64_t time_ns)
{
    return r->time_ns < time_ns || (r->time_ns == time_ns && r->begins);
}

/* What one frame says alone. */
enum import_phase phases_of_frame(const struct snapshot_frame *f);

/* The phase that is open after an allocation whose stack says SAID, where OPEN was: what no stack speaks for
 * stays in it. */
enum import_phase phases_then(enum import_phase open, enum import_phase said);

/* The autograd node that frame F runs, "MmBackward0": its length and where it begins; 0 none. */
size_t phases_node(const struct snapshot_frame *f, const char **name);
/* Likewise of a frame as `vramscope export` writes a node, which knows no C++ name of it ("backward:
 * MmBackward0" in "autograd"): its callers are the frames of the forward. */
size_t phases_exported_node(const struct snapshot_frame *f, const char **name);
/* Whether F is native code; else it is Python's. */
bool phases_native(const struct snapshot_frame *f);
/* Whether F is native code that nobody found a name for: a place in a library or the interpreter alone. */
bool phases_nameless(const struct snapshot_frame *f);
/* The line of source that F is at; 0: none is known, since of machine code PyTorch gives the place in it. */
uint32_t phases_line(const struct snapshot_frame *f);
/* Whether F is how the allocator took the stack, which says nothing about who asked. */
bool phases_recorder(const struct snapshot_frame *f);

#endif
