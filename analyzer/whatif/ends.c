/* ends.c - see ends.h. */
#include "ends.h"

/* The ends of an interval, which an edited order may turn round, and one part of so many beyond each. */
static void order_two(uint64_t *a, uint64_t *b, int part)
{
    uint64_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = part ? low - low / (uint64_t)part : low;
    *b = part ? high + high / (uint64_t)part : high;
}

static void widen_two(uint64_t *low, uint64_t *high, uint64_t more)
{
    order_two(low, high, 0);
    *low = more < *low ? more : *low;
    *high = more > *high ? more : *high;
}

/* No allocator reserves less than is allocated. */
static void hold_reserved(const uint64_t *allocated, uint64_t *reserved)
{
    *reserved = *reserved < *allocated ? *allocated : *reserved;
}

void ends_about(struct answer *low, struct answer *high, int part)
{
    for (int p = 0; p < FEED_POLICIES; p++) {
        struct answer_policy *a = &low->of[p], *b = &high->of[p];
        if (!a->wanted)
            continue;
        order_two(&a->peak.allocated, &b->peak.allocated, part ? 100 : 0);
        order_two(&a->peak.reserved, &b->peak.reserved, part && p == FEED_LIVE ? 100 : part);
        hold_reserved(&a->peak.allocated, &a->peak.reserved);
        for (size_t i = 0; i < low->phases; i++) {
            order_two(&a->phase_allocated[i], &b->phase_allocated[i], part ? 100 : 0);
            order_two(&a->phase_reserved[i], &b->phase_reserved[i], part && p == FEED_LIVE ? 100 : part);
            hold_reserved(&a->phase_allocated[i], &a->phase_reserved[i]);
        }
    }
}

void ends_widen(struct answer *low, struct answer *high, const struct answer *more)
{
    for (int p = 0; p < FEED_POLICIES; p++) {
        struct answer_policy *a = &low->of[p], *b = &high->of[p];
        const struct answer_policy *m = &more->of[p];
        if (!a->wanted)
            continue;
        widen_two(&a->peak.allocated, &b->peak.allocated, m->peak.allocated);
        widen_two(&a->peak.reserved, &b->peak.reserved, m->peak.reserved);
        for (size_t i = 0; i < low->phases; i++) {
            widen_two(&a->phase_allocated[i], &b->phase_allocated[i], m->phase_allocated[i]);
            widen_two(&a->phase_reserved[i], &b->phase_reserved[i], m->phase_reserved[i]);
        }
        if (m->ran_out && !b->ran_out) {
            b->ran_out = true;
            b->out_size = m->out_size;
            b->out_reserved = m->out_reserved;
            b->out_event = m->out_event;
            b->out_phase = m->out_phase;
        }
    }
}
