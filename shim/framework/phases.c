/* phases.c - opens and closes automatic phases, whose ranges have the lowest precedence (ranges.c). */
#include "phases.h"

#include "vramscope.h"
#include "core/hot.h"

VRAMSCOPE_API int vramscope_auto_push(const char *name);
VRAMSCOPE_API int vramscope_auto_pop(void);
VRAMSCOPE_API int vramscope_auto_phase(unsigned op, uint64_t argument);
VRAMSCOPE_API uint32_t *vramscope_auto_phases(void);

__thread struct vs_phases vs_phases;
VS_HOT struct vs_phases_all vs_phases_all = {.ask = VS_ASK};

static const char *const phase_names[] = {"", "forward", "logits", "backward", "optimizer", "evaluation"};

/* ---- opening and closing ---- */

static enum vs_phase phase_at(const struct vs_phases *p, uint32_t at)
{
    return at < VS_PHASES_DEEP ? p->name[at] : VS_NO_PHASE;
}

static enum vs_phase innermost(const struct vs_phases *p)
{
    return p->count ? phase_at(p, p->count - 1) : VS_NO_PHASE;
}

static void open_phase(struct vs_phases *p, enum vs_phase name)
{
    if (p->count < VS_PHASES_DEEP) {
        p->name[p->count] = (uint8_t)name;
        p->optimizers += name == VS_OPTIMIZER;
    }
    p->count++;
    vramscope_auto_push(phase_names[name]);
}

static void close_to(struct vs_phases *p, uint32_t count)
{
    while (p->count > count) {
        p->optimizers -= innermost(p) == VS_OPTIMIZER;
        p->count--;
        vramscope_auto_pop();
    }
}

/* Whether logits were the innermost range; they are not any more. */
static bool close_logits(struct vs_phases *p)
{
    if (innermost(p) != VS_LOGITS)
        return false;
    close_to(p, p->count - 1);
    return true;
}

/* Closes what remained open where a signal handler's exception ended a hook's Python code. */
static void forget_interrupted(struct vs_phases *p)
{
    if (p->inside || p->in_backward)
        return;
    for (uint32_t at = 0; at < p->count && at < VS_PHASES_DEEP; at++) {
        enum vs_phase name = phase_at(p, at);
        if (name != VS_OPTIMIZER && name != VS_LOGITS)
            close_to(p, at);
    }
}

/* Closes the innermost range of an optimizer and all within it; beyond the names that are kept, the innermost
 * range. */
static void close_optimizer(struct vs_phases *p)
{
    uint32_t at = p->count;
    if (at > VS_PHASES_DEEP) {
        close_to(p, at - 1);
        return;
    }
    while (at-- > 0)
        if (phase_at(p, at) == VS_OPTIMIZER) {
            close_to(p, at);
            return;
        }
}

static void step_ends(void)
{
    vs_steps_forget();
    if (!vs_phases_all.own_steps && vs_phases_all.on)
        vramscope_step();
}

/* ---- forward, logits, evaluation ---- */

static void see_logits(struct vs_phases *p, bool gradients)
{
    p->linger = gradients;
    p->logits_seen |= gradients;
}

void vs_phases_begin_call(struct vs_phases *p, enum vs_phase name, bool gradients, uint32_t classes)
{
    forget_interrupted(p);
    if (!p->optimizers && vs_steps_end_at_forward())
        step_ends();
    bool logits = close_logits(p);
    p->reopen = logits && (name == VS_EVALUATION || !gradients);
    p->base = p->count;
    p->linger = 0;
    p->inside = 1;
    open_phase(p, name);
    if (gradients && name != VS_EVALUATION) {
        p->owing = 1;
        p->classes = classes ? classes : p->classes;
    }
    if (name == VS_LOGITS)
        see_logits(p, gradients);
}

void vs_phases_begin_head(struct vs_phases *p, bool gradients)
{
    if (p->count <= p->base || innermost(p) != VS_FORWARD)
        return;
    close_to(p, p->count - 1);
    see_logits(p, gradients);
    open_phase(p, VS_LOGITS);
}

void vs_phases_end_call(struct vs_phases *p, bool failed)
{
    bool linger = p->linger && !failed && p->count > p->base && phase_at(p, p->base) == VS_LOGITS;
    p->inside = 0;
    close_to(p, p->base + linger);
    if (p->reopen) {
        p->reopen = 0;
        open_phase(p, VS_LOGITS);
    }
}

/* ---- backward ---- */

void vs_phases_begin_backward(struct vs_phases *p)
{
    forget_interrupted(p);
    close_logits(p);
    p->before_backward = p->count;
    p->in_backward = 1;
    open_phase(p, VS_BACKWARD);
}

void vs_phases_end_backward(struct vs_phases *p)
{
    p->in_backward = 0;
    if (!p->inside)
        p->owing = p->logits_seen = p->classes = 0;
    close_to(p, p->before_backward);
}

/* ---- optimizers ---- */

void vs_phases_begin_optimizer(struct vs_phases *p, uintptr_t optimizer)
{
    forget_interrupted(p);
    if (vs_steps_end_at_optimizer(optimizer))
        step_ends();
    close_logits(p);
    p->owing = 0;
    open_phase(p, VS_OPTIMIZER);
}

bool vs_phases_end_optimizer(struct vs_phases *p, uintptr_t optimizer)
{
    if (!p->optimizers)
        return false;
    close_optimizer(p);
    vs_steps_stepped(optimizer);
    return true;
}

/* A gradient scaler skipped the step of an optimizer. */
static void skip_optimizer(struct vs_phases *p, uintptr_t optimizer)
{
    p->owing = 0;
    if (vs_steps_end_at_optimizer(optimizer))
        step_ends();
    vs_steps_stepped(optimizer);
}

/* ---- for the Python hook ---- */

enum op {
    SWITCH,          /* 0: nothing is opened any more; else it is */
    CLOSE,           /* all that is open on this thread */
    BEGIN_CALL,      /* phase | gradients << 8 | classes << 32 */
    END_CALL,        /* whether it failed */
    BEGIN_HEAD,      /* whether there are gradients */
    BEGIN_BACKWARD,  /* - */
    END_BACKWARD,    /* - */
    BEGIN_OPTIMIZER, /* its address */
    END_OPTIMIZER,   /* its address; answers whether its range was open */
    SUSPEND,         /* the range of an optimizer, for its closure; answers what RESUME is told, or -1 */
    RESUME,          /* the answer of SUSPEND */
    KEEP_OPTIMIZERS, /* closes ranges of optimizers beyond so many, from the innermost */
    OPTIMIZER_MADE,  /* an optimizer's address */
    OPTIMIZER_GONE,  /* an optimizer's address */
    SKIPPED,         /* an optimizer's address */
    STEPS,           /* answers how often optimizers have stepped */
    OWN_STEPS,       /* the program marks its steps itself */
    ASK,             /* enum vs_phases_ask */
    LOOK,            /* vs_phases_all.look */
    EXIT,            /* the process ends */
    CHILD            /* this is a fork child */
};

/* Does one of enum op for the calling thread; 0, or what stands there. */
int vramscope_auto_phase(unsigned op, uint64_t argument)
{
    struct vs_phases *p = &vs_phases;

    switch ((enum op)op) {
    case SWITCH:
        vs_phases_all.on = argument != 0;
        break;
    case CLOSE:
        close_to(p, 0);
        break;
    case BEGIN_CALL:
        vs_phases_begin_call(p, argument & 0xff, argument >> 8 & 1, (uint32_t)(argument >> 32));
        break;
    case END_CALL:
        vs_phases_end_call(p, argument != 0);
        break;
    case BEGIN_HEAD:
        vs_phases_begin_head(p, argument != 0);
        break;
    case BEGIN_BACKWARD:
        vs_phases_begin_backward(p);
        break;
    case END_BACKWARD:
        vs_phases_end_backward(p);
        break;
    case BEGIN_OPTIMIZER:
        vs_phases_begin_optimizer(p, (uintptr_t)argument);
        break;
    case END_OPTIMIZER:
        return vs_phases_end_optimizer(p, (uintptr_t)argument);
    case SUSPEND:
        if (innermost(p) != VS_OPTIMIZER)
            return -1;
        close_to(p, p->count - 1);
        return (int)p->count;
    case RESUME:
        close_to(p, (uint32_t)argument);
        open_phase(p, VS_OPTIMIZER);
        break;
    case KEEP_OPTIMIZERS:
        while (p->optimizers > argument)
            close_optimizer(p);
        break;
    case OPTIMIZER_MADE:
        vs_steps_made((uintptr_t)argument);
        break;
    case OPTIMIZER_GONE:
        vs_steps_gone((uintptr_t)argument);
        break;
    case SKIPPED:
        skip_optimizer(p, (uintptr_t)argument);
        break;
    case STEPS:
        return (int)vs_steps_count();
    case OWN_STEPS:
        vs_phases_all.own_steps = true;
        break;
    case ASK:
        vs_phases_all.ask = (uint8_t)argument;
        break;
    case LOOK:
        vs_phases_all.look = (int64_t)argument;
        break;
    case EXIT:
        if (vs_steps_due())
            step_ends();
        break;
    case CHILD:
        vs_steps_forget();
        break;
    }
    return 0;
}

/* The calling thread's words, valid as long as the thread lives. */
uint32_t *vramscope_auto_phases(void)
{
    return &vs_phases.count;
}
