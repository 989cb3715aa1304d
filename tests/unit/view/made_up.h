/* made_up.h - random recordings: blocks that are born and die, with totals as a ledger would have them. */
#ifndef TESTS_UNIT_VIEW_MADE_UP_H
#define TESTS_UNIT_VIEW_MADE_UP_H

#include <stdlib.h>
#include <string.h>

#include "read/lives.h"

struct made_up {
    struct trace_lives lives;
    int64_t last;
    uint64_t random;
};

static inline uint64_t draw(struct made_up *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return m->random >> 33;
}

/* N events, of which many are close together, some at the same moment, and some far apart; HELD bytes were
 * there before. */
static inline struct made_up make_up(uint64_t seed, size_t n, int64_t held)
{
    struct made_up m = {.random = seed * 77 + 1};
    struct trace_lives *l = &m.lives;
    int64_t allocated = held, reserved = 0;
    size_t living = 0;
    uint32_t *alive = xrealloc(NULL, (n + 1) * sizeof *alive);
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = draw(&m) % 100;
        m.last += kind < 5 ? 0 : kind < 90 ? (int64_t)(draw(&m) % 50) : (int64_t)(draw(&m) % 20000);
        bool dies = living && draw(&m) % 100 < (living > 60 ? 70 : 45);
        uint32_t block = UINT32_MAX;
        if (draw(&m) % 40 == 0)
            reserved = (int64_t)(draw(&m) % 1000) << 21;
        if (dies) {
            size_t which = draw(&m) % living;
            block = alive[which];
            alive[which] = alive[--living];
            l->blocks[block].died = m.last;
            allocated -= l->blocks[block].size;
        } else {
            block = (uint32_t)l->block_count;
            struct trace_block b = {.seq = (int64_t)i + 1,
                                    .born = m.last,
                                    .died = UNKNOWN,
                                    .size = (int64_t)(draw(&m) % 4000 + 1) * (draw(&m) % 3 ? 512 : 100),
                                    .stack = (uint32_t)(draw(&m) % 40),
                                    .phase = (uint16_t)(draw(&m) % 5),
                                    .role = (uint8_t)(draw(&m) % 3),
                                    .framework = 1};
            *PUSH(l->blocks, l->block_count) = b;
            alive[living++] = block;
            allocated += b.size;
        }
        *PUSH(l->changes, l->change_count) =
            (struct trace_change){m.last, allocated, reserved, block, dies ? CHANGE_DIED : CHANGE_BORN};
    }
    for (int i = 0; i < 3; i++)
        *PUSH(l->roles, l->role_count) = (const char *const[]){"not followed", "activation", "gradient"}[i];
    free(alive);
    return m;
}

#endif
