/* ledger_kit.h - events by hand, for tests of the ledger: one function a kind, times 1000 ns apart. */
#ifndef TESTS_UNIT_TRACE_LEDGER_LEDGER_KIT_H
#define TESTS_UNIT_TRACE_LEDGER_LEDGER_KIT_H

#include "unit/test.h"
#include "trace/ledger/ledger.h"

#define MIB (1ull << 20)
#define KIT struct kit *k = *state /* the first line of a test */

struct kit {
    struct vs_ledger *l;
    struct vs_output out;
    uint64_t ring, t, framework, reserved;
    uint64_t address[200]; /* of the events, by their place in the ring */
    uint16_t thread;
    uint32_t range;
    int8_t device;
};

static uint32_t kit_phase(void *context, uint32_t name)
{
    return name; /* names are phase ids here */
}

static bool kit_autograd(void *context, uint16_t thread)
{
    return thread == 9;
}

static inline int kit_setup(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    k->l = vs_ledger_new(&(struct vs_ledger_config){.phase_of = kit_phase, .is_autograd = kit_autograd});
    k->thread = 1;
    *state = k;
    return 0;
}

static inline int kit_teardown(void **state)
{
    struct kit *k = *state;
    vs_ledger_free(k->l);
    vs_output_free(&k->out);
    free(k);
    return 0;
}

static inline uint64_t feed(struct kit *k, struct vs_event e)
{
    e.t_ns = k->t += 1000;
    if (!e.thread)
        e.thread = k->thread;
    if (!e.range)
        e.range = k->range;
    if (!e.device)
        e.device = k->device;
    vs_ledger_feed(k->l, &e, ++k->ring, &k->out);
    return k->ring;
}

static inline uint64_t alloc(struct kit *k, uint64_t address, uint64_t size)
{
    return feed(
        k, (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .address = address, .size = size});
}

static inline uint64_t alloc_in(struct kit *k, uint8_t space, uint64_t address, uint64_t size)
{
    return feed(k, (struct vs_event){.op = VS_OP_ALLOC, .space = space, .address = address, .size = size});
}

static inline uint64_t release(struct kit *k, uint64_t address)
{
    return feed(k, (struct vs_event){.op = VS_OP_FREE, .address = address, .status = VS_STATUS_PENDING});
}

static inline void block(struct kit *k, uint64_t address, uint64_t size)
{
    k->framework += size;
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_ALLOC,
                              .address = address,
                              .size = size,
                              .arg0 = k->framework,
                              .arg1 = k->reserved});
}

static inline void unblock(struct kit *k, uint64_t address, uint64_t size)
{
    k->framework -= size;
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_FREE,
                              .address = address,
                              .size = size,
                              .arg0 = k->framework,
                              .arg1 = k->reserved});
}

static inline void vmm(struct kit *k, uint8_t op, uint64_t address, uint64_t size, uint64_t arg0)
{
    feed(k, (struct vs_event){.op = op, .address = address, .size = size, .arg0 = arg0});
}

static inline void create(struct kit *k, uint64_t handle, uint64_t size)
{
    vmm(k, VS_OP_PHYS_CREATE, handle, size, 1ull << 32);
}

static inline void push(struct kit *k, uint32_t range, uint32_t phase, uint32_t parent)
{
    feed(k, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                              .range = range,
                              .address = phase,
                              .arg0 = parent,
                              .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
}

static inline void pop(struct kit *k, uint32_t range)
{
    feed(k, (struct vs_event){.op = VS_OP_RANGE_POP, .range = range});
}

static inline struct vs_row *last(struct kit *k)
{
    assert_true(k->out.rows.n > 0);
    return &k->out.rows.at[k->out.rows.n - 1];
}

static inline struct vs_row *row_of(struct kit *k, uint8_t op) /* the last one of that kind */
{
    for (size_t i = k->out.rows.n; i-- > 0;)
        if (k->out.rows.at[i].op == op)
            return &k->out.rows.at[i];
    fail_msg("no row of op %d", op);
    return NULL;
}

static inline void end_batch(struct kit *k)
{
    vs_ledger_end_batch(k->l, &k->out);
}

static inline const struct vs_range_peak_row *peak_of(struct kit *k, uint32_t range, int device)
{
    for (size_t i = k->out.range_peaks.n; i-- > 0;)
        if (k->out.range_peaks.at[i].range == range && k->out.range_peaks.at[i].device == device)
            return &k->out.range_peaks.at[i];
    fail_msg("no peak of range %u", range);
    return NULL;
}

static inline const struct vs_range_row *range_of(struct kit *k, uint32_t range)
{
    for (size_t i = k->out.ranges.n; i-- > 0;)
        if (k->out.ranges.at[i].id == range)
            return &k->out.ranges.at[i];
    fail_msg("no row of range %u", range);
    return NULL;
}

static inline const struct vs_phase_row *stat_of(struct kit *k, int device, uint32_t phase)
{
    end_batch(k);
    for (size_t i = k->out.phases.n; i-- > 0;)
        if (k->out.phases.at[i].device == device && k->out.phases.at[i].phase == phase)
            return &k->out.phases.at[i];
    fail_msg("no statistics of phase %u", phase);
    return NULL;
}

static inline uint64_t curve_end(struct kit *k, int device, int curve)
{
    end_batch(k);
    for (size_t i = k->out.peaks.n; i-- > 0;)
        if (k->out.peaks.at[i].device == device && k->out.peaks.at[i].curve == curve)
            return k->out.peaks.at[i].end;
    return 0;
}

static inline uint64_t count_of(struct kit *k, int device, enum vs_count what)
{
    end_batch(k);
    for (size_t i = k->out.counts.n; i-- > 0;)
        if (k->out.counts.at[i].device == device && k->out.counts.at[i].what == what)
            return k->out.counts.at[i].value;
    return 0;
}

static struct vs_oom_row oom_rows[256];

static inline size_t kept(struct kit *k)
{
    return vs_ledger_ooms(k->l, oom_rows, 256);
}

static inline const struct vs_oom_row *with_role(struct kit *k, uint8_t role, int device)
{
    size_t n = kept(k);
    for (size_t i = 0; i < n; i++)
        if (oom_rows[i].roles & role && oom_rows[i].device == device)
            return &oom_rows[i];
    return NULL;
}

#endif
