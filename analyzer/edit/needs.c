/* needs.c - what an edit needs of a recording, and how it is refused where that is not there (apply.h). */
#include <stdarg.h>
#include <stdlib.h>

#include "apply.h"

static struct program refused(struct edit_result *r, bool nothing, const char *format, va_list args)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);
    vfprintf(out, format, args);
    fclose(out);
    free(r->why);
    r->why = text;
    r->nothing = nothing;
    return (struct program){0};
}

struct program refuse(struct edit_result *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct program none = refused(r, false, format, args);
    va_end(args);
    return none;
}

struct program refuse_nothing(struct edit_result *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct program none = refused(r, true, format, args);
    va_end(args);
    return none;
}

/* Whether no forward follows a backward or an optimizer's step: then all events are of one step. */
static bool is_one_pass(const struct program *p)
{
    const struct edit_facts *f = p->facts;
    bool over = false;
    for (size_t i = 0; i < p->event_count; i++) {
        uint16_t phase = p->events[i].phase;
        if (over && program_is_forward(f, phase))
            return false;
        over = over || (phase && (phase == f->backward || phase == f->optimizer));
    }
    return over;
}

/* Without the ends of steps what lives over them is not told from what one of them makes. */
bool needs_steps(const struct program *p, struct edit_result *r)
{
    const struct edit_facts *f = p->facts;
    if (f->forward == EDIT_NO_PHASE && f->backward == EDIT_NO_PHASE && f->optimizer == EDIT_NO_PHASE)
        refuse(r, "it has no phases, which vramscope run records where modules and optimizers of PyTorch are "
                  "called");
    else if (f->steps < 1 && !f->cut && !is_one_pass(p))
        refuse(r, "it has no steps: the step of an optimizer of torch.optim ends one, or vramscope.step()");
    else
        return true;
    return false;
}

bool needs_roles(const struct program *p, struct edit_result *r)
{
    if (p->facts->roles)
        return true;
    refuse(r, "it is not known which blocks are parameters: PyTorch tells under vramscope run");
    return false;
}

bool needs_layers(const struct program *p, struct edit_result *r)
{
    if (p->facts->units >= 2)
        return true;
    refuse(r, p->facts->layers ? "the model has no numbered layers"
                               : "it has no layers: vramscope run records those of PyTorch's programs");
    return false;
}
