/*
 * phases.h - which automatic phases are open on a thread, and where one training step ends.
 *
 * Programs that mark no phases get them from hooks around modules' calls, backward and optimizers
 * (python/vramscope/_torch.py says what each phase is).  What is open is kept here, so that hooks that run in
 * every step need no Python code (calls.c, phase_calls.c); the others come by vramscope_auto_phase.
 *
 *      call of a model ──▶ begin_call ... begin_head ... end_call        forward, logits
 *      backward        ──▶ begin_backward ............ end_backward      closes logits that were left open
 *      optimizer.step  ──▶ begin_optimizer ........... end_optimizer     and ends the step before
 *
 * A thread's state is its own.  What is of the process (steps.c, `vs_phases_all`) is guarded by the GIL.  No
 * allocation, no lock, no call of Python.
 */
#ifndef VS_FRAMEWORK_PHASES_H
#define VS_FRAMEWORK_PHASES_H

#include <stdbool.h>
#include <stdint.h>

enum vs_phase { VS_NO_PHASE, VS_FORWARD, VS_LOGITS, VS_BACKWARD, VS_OPTIMIZER, VS_EVALUATION };

enum { VS_PHASES_DEEP = 64 }; /* of ranges beyond these the names are not kept */

/* Python reads and writes the words before `name` by their order (_torch.py). */
struct vs_phases {
    uint32_t count;           /* automatic ranges that are open */
    uint32_t optimizers;      /* how many of them are an optimizer's */
    uint32_t inside;          /* of an outermost call */
    uint32_t base;            /* `count` when the outermost call began */
    uint32_t linger;          /* logits stay open behind the outermost call */
    uint32_t reopen;          /* logits were open before the outermost call and go on behind it */
    uint32_t in_backward;     /* this thread called backward, which has not returned */
    uint32_t before_backward; /* `count` when backward began */
    uint32_t owing;           /* a training forward came, its backward did not yet */
    uint32_t logits_seen;     /* since the last backward */
    uint32_t classes;         /* of the output layer of the last training forward */
    uint32_t unused;
    uint8_t name[VS_PHASES_DEEP]; /* enum vs_phase, outermost first */
};
extern __thread struct vs_phases vs_phases;

/* When backward asks Python whether an output layer ran without being called. */
enum vs_phases_ask { VS_ASK_NEVER, VS_ASK_WITH_CLASSES, VS_ASK };

struct vs_phases_all {
    bool on;        /* phases are opened and closed */
    bool own_steps; /* the program marks its steps itself */
    uint8_t ask;    /* enum vs_phases_ask */
    int64_t look; /* ns of CLOCK_MONOTONIC from which on an optimizer's step is followed by a look at roles */
};
extern struct vs_phases_all vs_phases_all;

/* A model is called from outside of any other, in phase NAME (forward, logits or evaluation), with or without
 * gradients.  CLASSES: as in struct vs_phases; 0: it has no output layer. */
void vs_phases_begin_call(struct vs_phases *p, enum vs_phase name, bool gradients, uint32_t classes);
void vs_phases_end_call(struct vs_phases *p, bool failed);
/* An output layer is called within such a call. */
void vs_phases_begin_head(struct vs_phases *p, bool gradients);
void vs_phases_begin_backward(struct vs_phases *p);
void vs_phases_end_backward(struct vs_phases *p);
/* OPTIMIZER: the address of the object. */
void vs_phases_begin_optimizer(struct vs_phases *p, uintptr_t optimizer);
/* False: its range was not open any more. */
bool vs_phases_end_optimizer(struct vs_phases *p, uintptr_t optimizer);

/* ---- steps.c ---- */

/* An optimizer was made; has stepped; is gone without having stepped. */
void vs_steps_made(uintptr_t optimizer);
void vs_steps_stepped(uintptr_t optimizer);
void vs_steps_gone(uintptr_t optimizer);
/* Whether a step has ended when a forward begins, and whether one has, at the latest, when OPTIMIZER begins
 * to step. */
bool vs_steps_end_at_forward(void);
bool vs_steps_end_at_optimizer(uintptr_t optimizer);
/* Whether an optimizer has stepped since the last step ended. */
bool vs_steps_due(void);
/* A step was recorded, or this is a fork child, which ends no step of its parent's. */
void vs_steps_forget(void);
/* Optimizers' steps so far. */
uint32_t vs_steps_count(void);

#endif
