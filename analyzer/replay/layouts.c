/* layouts.c - the recorded requests over other drivers (layouts.h). */
#include "layouts.h"

#include "replay.h"

#define SCATTERED 8
#define OF_RANKS  2
#define ENOUGH    INT64_C(2000000000) /* ns of replays: of long programs each rule is tried once */

static const enum addresses_rule rules[] = {ADDRESSES_LOWEST, ADDRESSES_TIGHTEST, ADDRESSES_HIGHEST,
                                            ADDRESSES_LOOSEST};

/* What else lies in the driver's regions: first what an H200's had, see dry/driver/room.c.  Those of OF_RANKS
 * are large gaps, which two H200s filled from below where NCCL had mapped much beside them. */
static const struct addresses_driver places[] = {
    {.holes = {24, 2}}, {.taken = 5},     {.holes = {8, 24, 6}},     {.holes = {30, 12, 18}, .taken = 3},
    {.taken = 4},       {.holes = {512}}, {.holes = {2048, 512, 24}}};

static bool is_same(const struct replay_result *r, int64_t allocated, int64_t reserved)
{
    return (int64_t)r->blocks_most == allocated && (int64_t)r->reserved == reserved;
}

void layouts_widen(struct layouts *l, const struct replay_result *r)
{
    int64_t allocated = (int64_t)r->blocks_most, reserved = (int64_t)r->reserved;
    l->allocated_least = allocated < l->allocated_least ? allocated : l->allocated_least;
    l->allocated_most = allocated > l->allocated_most ? allocated : l->allocated_most;
    l->reserved_least = reserved < l->reserved_least ? reserved : l->reserved_least;
    l->reserved_most = reserved > l->reserved_most ? reserved : l->reserved_most;
}

bool layouts_follow(const struct trace_tape *tape, int64_t memory, int64_t allocated, int64_t reserved,
                    struct torch_settings *settings)
{
    struct replay_result r;
    if (tape->arena || !replay_settings(tape, settings))
        return false;
    settings->expandable = tape->expandable;
    settings->memory = memory > 0 ? (uint64_t)memory : 0;
    settings->limit = replay_first_limit(tape, memory);
    settings->follow_limits = true;
    replay_torch(tape, settings, true, &r);
    return is_same(&r, allocated, reserved) && !r.retries && r.blocks_same == r.blocks && !r.segments_more;
}

struct trial {
    const struct trace_tape *tape;
    struct torch_settings settings;
    struct layouts *l;
    int64_t allocated, reserved, ns;
};

static void try_one(struct trial *a, const struct addresses_driver *driver)
{
    struct replay_result r;
    replay_torch_at(a->tape, &a->settings, driver, &r);
    a->ns += r.ns;
    a->l->tried++;
    a->l->differ += !is_same(&r, a->allocated, a->reserved);
    layouts_widen(a->l, &r);
}

void layouts_try(const struct trace_tape *tape, int64_t memory, int64_t allocated, int64_t reserved,
                 bool ranks, struct layouts *l)
{
    size_t count = sizeof places / sizeof *places - (ranks ? 0 : OF_RANKS);
    struct trial a = {.tape = tape, .l = l, .allocated = allocated, .reserved = reserved};
    *l = (struct layouts){0, 0, allocated, allocated, reserved, reserved};
    if (tape->expandable || !layouts_follow(tape, memory, allocated, reserved, &a.settings))
        return;
    for (size_t p = 0; p < count && (p == 0 || a.ns < ENOUGH); p++)
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            struct addresses_driver driver = places[p];
            driver.rule = rules[i];
            try_one(&a, &driver);
        }
    for (uint32_t seed = 1; l->differ && seed <= SCATTERED && (seed == 1 || a.ns < 2 * ENOUGH); seed++)
        try_one(&a, &(struct addresses_driver){.rule = ADDRESSES_SCATTERED, .seed = seed});
}
