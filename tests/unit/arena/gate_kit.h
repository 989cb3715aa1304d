/*
 * gate_kit.h - what test_gate_calls.c has in place of the driver's functions, the access ledger and who moves
 * memory.  The gate is the real one, but for its wait, in whose place something happens to the gate.
 */
#ifndef TESTS_UNIT_ARENA_GATE_KIT_H
#define TESTS_UNIT_ARENA_GATE_KIT_H

#include <errno.h>

#include "access/kernels.h"
#include "arena/away/away.h"
#include "arena/away/gate.h"
#include "arena/away/operands.h"
#include "core/presence.h"
#include "gate_rows.h"
#include "unit/test.h"

/* ---- the driver: a function for each row, which counts its calls ---- */

#define ANSWER ((CUresult)4711)
static int calls[VS_API_END];

static CUresult called(enum vs_api api)
{
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 1); /* it is inside */
    assert_int_equal(errno, 77);
    calls[api]++;
    return ANSWER;
}

#define VS_API(number, symbol, base, version, kind, shape, arguments, n, signature)                          \
    static CUresult real_##symbol(VS_PARAMS_##n signature)                                                   \
    {                                                                                                        \
        return called(VS_API_##symbol);                                                                      \
    }
#include "trace/driver.def"
#undef VS_API

static void *const real[VS_API_END] = {
#define VS_API(number, symbol, ...) [VS_API_##symbol] = (void *)real_##symbol,
#include "trace/driver.def"
#undef VS_API
};

void *vs_real_under(enum vs_api api)
{
    return real[api];
}

/* ---- who moves memory ---- */

static struct {
    bool away;           /* whatever is asked about */
    uint64_t away_block; /* or what begins here */
    bool nothing;        /* can be away */
    bool lost;           /* what is away does not come back */
    bool lacks;          /* the device has no memory for what comes back */
    bool closing;        /* somebody begins to close the gate while operands are looked at */
    int asked, stored;
    uint64_t address[16], size[16];
    int needed, waits;
    enum vs_gate_state after_wait;
    enum vs_api under_way;
} mover;

void vs_away_on(CUstream stream) {}

bool vs_away_work(CUstream stream)
{
    return !mover.nothing;
}

bool vs_away_unknown(void)
{
    return true;
}

bool vs_away_lacks(void)
{
    return mover.lacks;
}

bool vs_away_touches(uint64_t address, uint64_t size)
{
    if (mover.asked < 16) {
        mover.address[mover.asked] = address;
        mover.size[mover.asked] = size;
    }
    mover.asked++;
    if (mover.under_way != VS_API_NONE) /* it is inside: what it learns stays true */
        assert_int_equal(atomic_load(&vs_presence_mine->giving), 1);
    if (mover.closing)
        vs_gate_set(VS_GATE_CLOSED);
    errno = 1;
    return mover.away || (mover.away_block != 0 && address == mover.away_block);
}

bool vs_away_stores(uint64_t address)
{
    if (address < ADDRESS) /* no block lies there */
        return false;
    mover.stored++;
    return vs_away_touches(address, 0);
}

/* Nobody is inside, and nothing was given yet. */
static void assert_outside(void)
{
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    assert_int_equal(calls[mover.under_way], 0);
    errno = 2;
}

bool vs_away_needed(void)
{
    assert_outside();
    mover.needed++;
    vs_gate_set(mover.lost ? VS_GATE_CHECKED : VS_GATE_OPEN);
    return !mover.lost;
}

void __wrap_vs_gate_wait(enum vs_gate_state state);
void __wrap_vs_gate_wait(enum vs_gate_state state)
{
    assert_outside();
    assert_int_equal(state, VS_GATE_CLOSED);
    mover.waits++;
    vs_gate_set(mover.after_wait);
}

/* ---- the access ledger ---- */

static struct {
    bool captured, unknown, reaches, unseen;
    uint64_t word;
} ledger;
static struct vs_kernel kernel;

bool vs_given_captured(CUstream stream)
{
    return ledger.captured;
}

const struct vs_kernel *vs_given_kernel(CUfunction f)
{
    kernel.known = !ledger.unknown;
    kernel.reaches = ledger.reaches;
    return &kernel;
}

const void *vs_given_buffer(void **extra, size_t *size)
{
    *size = 0;
    return NULL;
}

void vs_kernel_each(const struct vs_kernel *k, struct vs_grid grid, void *const *params, const void *buffer,
                    size_t size, void (*see)(void *context, uint64_t word, bool map, bool sure),
                    void *context)
{
    see(context, ledger.word, false, true);
}

static uint64_t stored[4]; /* what is copied from the host */

bool vs_use_is_drivers(uint64_t address)
{
    return address == 5 * ADDRESS;
}

bool vs_given_graph_each(CUgraphExec exec, void (*visit)(void *context, uint64_t word),
                         void (*source)(void *context, uint64_t from, uint64_t size), void *context)
{
    visit(context, ledger.word);
    source(context, (uintptr_t)stored, sizeof stored);
    return !ledger.unseen;
}

#endif
