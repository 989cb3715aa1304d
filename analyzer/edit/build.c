/* build.c - makes an edited program (apply.h). */
#include "apply.h"

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
