/* build.c - makes an edited program, or says what a recording lacks for it (apply.h). */
#include "apply.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 512u

void build_begin(struct build *b, const struct program *from)
{
    *b = (struct build){.from = from, .to = {.facts = from->facts}};
    b->now = xrealloc(NULL, (from->block_count + 1) * sizeof *b->now);
    memset(b->now, 0xff, (from->block_count + 1) * sizeof *b->now);
}

struct program build_end(struct build *b)
{
    free(b->now);
    return b->to;
}

static void note(struct build *b, struct trace_moment e)
{
    *PUSH(b->to.events, b->to.event_count) = e;
}

uint32_t build_born(struct build *b, const struct edit_block *like, uint64_t size, uint16_t phase,
                    enum edit_kind kind)
{
    if (!size || b->to.event_count >= BLOCK_NEVER - 1)
        return BLOCK_NEVER;
    uint32_t block = (uint32_t)b->to.block_count;
    struct edit_block made = *like;
    made.size = size;
    made.born = (uint32_t)b->to.event_count;
    made.died = BLOCK_NEVER;
    made.kind = (uint8_t)kind;
    made.made = true;
    *PUSH(b->to.blocks, b->to.block_count) = made;
    note(b, (struct trace_moment){.block = block, .phase = phase, .what = MOMENT_BORN});
    return block;
}

void build_died(struct build *b, uint32_t block, uint16_t phase)
{
    if (block == BLOCK_NEVER || b->to.blocks[block].died != BLOCK_NEVER ||
        b->to.event_count >= BLOCK_NEVER - 1)
        return;
    b->to.blocks[block].died = (uint32_t)b->to.event_count;
    note(b, (struct trace_moment){.block = block, .phase = phase, .what = MOMENT_DIED});
}

void build_copy(struct build *b, size_t event)
{
    struct trace_moment e = b->from->events[event];
    if (e.what == MOMENT_BORN) {
        const struct edit_block *was = &b->from->blocks[e.block];
        uint32_t now = build_born(b, was, was->size, e.phase, was->kind);
        if (now != BLOCK_NEVER)
            b->to.blocks[now].made = was->made;
        b->now[e.block] = now;
    } else if (e.what == MOMENT_DIED) {
        build_died(b, b->now[e.block], e.phase);
    } else {
        note(b, e);
    }
}

uint64_t build_round(uint64_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

/* ---- what an edit needs ---- */

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
