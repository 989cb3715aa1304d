/*
 * losses.c - see losses.h.
 *
 *      logits L | log-softmax S, saved | backward G, gradient of S;  H, gradient of what was given
 *
 * Given 16 bits, all are in 16 bits (sums are fp32 inside of a kernel).  Given a copy in fp32, S, G and H are
 * fp32, and H is copied back to 16 bits.  Hugging Face's functions for losses say which, and so do its models
 * that call PyTorch's loss themselves.  What else calls it, as a program's own line does, may have copied or
 * not.
 *
 * Under autocast PyTorch's losses take a copy in fp32 themselves, inside of the call; one that was made
 * before is the program's, and stays when autocast goes.
 */
#include "losses.h"

#include <stdlib.h>

#include "elements.h"

#define SURE    (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */
#define MATTERS 100 /* logits of one part in so many of the peak are one in fifty between the two answers */

static uint64_t elements_of(const struct edit_block *b)
{
    uint64_t bytes = element_bytes(b->type);
    return b->size / (bytes ? bytes : 4);
}

static bool is_outside(const struct program *p, const struct edit_block *b, uint16_t head)
{
    const struct edit_stack *s = program_stack(p, b);
    return s->unit == EDIT_NO_UNIT && s->layer != head;
}

/* A copy of the output layer's 16 bits to fp32, made where the loss is called or before it. */
static bool is_copy(const struct program *p, const struct edit_block *b, const struct losses *l)
{
    return b->kind == KIND_LOGITS && b->type == ELEMENT_FLOAT32 && elements_of(b) == l->elements &&
           is_outside(p, b, l->head);
}

/* What the code says that made most of the loss's bytes. */
static enum loss_type type_of_code(const struct program *p)
{
    const struct edit_block *most[3] = {NULL};
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        const struct edit_stack *s = program_stack(p, b);
        bool wide = s->upcast && !s->norm && b->kind == KIND_LOGITS;
        if (!s->loss && !wide)
            continue;
        enum loss_type type = wide || s->upcast ? LOSS_FP32 : s->as_given ? LOSS_HALF : LOSS_UNKNOWN;
        if (!most[type] || b->size > most[type]->size)
            most[type] = b;
    }
    enum loss_type type = LOSS_UNKNOWN;
    for (int k = LOSS_FP32; k <= LOSS_HALF; k++)
        if (most[k] && (!most[type] || most[k]->size > most[type]->size))
            type = (enum loss_type)k;
    return type;
}

/* Of a program whose output layer gives 16 bits already, under autocast. */
static enum loss_type type_under_autocast(const struct program *p, const struct losses *l)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (is_copy(p, &p->blocks[i], l) && !program_stack(p, &p->blocks[i])->loss)
            return LOSS_FP32;
    return LOSS_HALF;
}

static const struct edit_block *find_logits(const struct program *p)
{
    const struct edit_block *largest = NULL;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_LOGITS && (!largest || p->blocks[i].size > largest->size))
            largest = &p->blocks[i];
    return largest;
}

/* The output layer: the one that makes the first block of the largest one's elements. */
static const struct edit_block *find_head(const struct program *p)
{
    const struct edit_block *largest = find_logits(p);
    for (size_t i = 0; largest && i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_LOGITS && elements_of(&p->blocks[i]) == elements_of(largest))
            return &p->blocks[i];
    return largest;
}

static enum loss_part part_of(const struct program *p, const struct edit_block *b, const struct losses *l,
                              bool narrow)
{
    const struct edit_stack *s = program_stack(p, b);
    bool pass = b->kind == KIND_LOGITS || b->kind == KIND_SAVED || b->kind == KIND_FORWARD ||
                b->kind == KIND_BACKWARD;
    if (!pass || !element_is_float(b->type) || element_is_half(b->type))
        return LOSS_NONE;
    if (narrow && s->loss && is_copy(p, b, l) && !s->upcast)
        return LOSS_COPY;
    if (s->loss || (s->upcast && !s->norm))
        return LOSS_OWN;
    if (!l->elements || !is_outside(p, b, l->head) || s->norm)
        return LOSS_NONE;
    if (b->kind == KIND_LOGITS && b->size > SURE)
        return LOSS_NEAR;
    return b->kind == KIND_BACKWARD && elements_of(b) >= l->elements / 8 * 7 ? LOSS_NEAR : LOSS_NONE;
}

struct losses losses_read(const struct program *p, enum loss_type said)
{
    struct losses l = {.of = xrealloc(NULL, p->block_count + 1)};
    const struct edit_block *head = find_head(p);
    bool narrow = head && element_is_half(head->type);
    if (head) {
        l.head = program_stack(p, head)->layer;
        l.elements = head->size >= SURE ? elements_of(head) : 0;
    }
    l.type = type_of_code(p);
    if (l.type == LOSS_UNKNOWN && narrow)
        l.type = type_under_autocast(p, &l);
    l.head_wide = head && !narrow;
    l.copied = narrow && type_under_autocast(p, &l) == LOSS_FP32;
    if (said != LOSS_UNKNOWN) {
        l.said = true;
        l.type = said;
    }
    bool first = true;
    for (size_t i = 0; i < p->block_count; i++) {
        l.of[i] = (uint8_t)part_of(p, &p->blocks[i], &l, narrow);
        if (l.of[i] == LOSS_COPY) { /* the log-softmax, which is as large, comes behind it */
            l.of[i] = first ? LOSS_COPY : LOSS_OWN;
            first = !first;
        }
    }
    return l;
}

void losses_free(struct losses *l)
{
    free(l->of);
    *l = (struct losses){0};
}

static uint64_t most_alive(const struct program *p)
{
    uint64_t now = 0, most = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_BORN)
            now += p->blocks[e->block].size;
        else if (e->what == MOMENT_DIED)
            now -= p->blocks[e->block].size;
        most = now > most ? now : most;
    }
    return most;
}

bool losses_are_open(const struct program *p)
{
    struct losses l = losses_read(p, LOSS_UNKNOWN);
    bool open = l.type == LOSS_UNKNOWN && l.elements * 4 > most_alive(p) / MATTERS;
    losses_free(&l);
    return open;
}
