/*
 * test_captures.c - a capture begins inside the gate and never while memory moves, by whichever of the
 * driver's functions: who moves memory looks for captures with the gate closed, and may then wait for the
 * device.
 *
 * The driver is a stand-in; the gate is the real one, but for its wait, in whose place the moving ends.
 */
#define _GNU_SOURCE
#include "arena/away/gate.h"
#include "arena/cuda/serving.h"
#include "core/presence.h"
#include "unit/test.h"

_Atomic(void *)
    vs_call_table[VS_CALL_END]; /* cuStreamGetCtx is not there: the current context is asked for */

static struct {
    CUresult answer;
    int begun, waits;
    enum vs_gate_state after_wait;
} now;

/* The driver's: the capture is known, and nobody can begin to move memory. */
static CUresult called(void)
{
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 1);
    assert_int_not_equal(atomic_load(&vs_gate), VS_GATE_CLOSED);
    assert_int_equal(vs_served_captures, 1);
    now.begun++;
    return now.answer;
}

#define VS_API(number, symbol, base, version, kind, shape, arguments, n, signature)                          \
    static CUresult real_##symbol(VS_PARAMS_##n signature)                                                   \
    {                                                                                                        \
        return called();                                                                                     \
    }
#include "trace/driver.def"
#undef VS_API

void *vs_real_under(enum vs_api api)
{
    static void *const real[VS_API_END] = {
#define VS_API(number, symbol, ...) [VS_API_##symbol] = (void *)real_##symbol,
#include "trace/driver.def"
#undef VS_API
    };
    return real[api];
}

void __wrap_vs_gate_wait(enum vs_gate_state state);
void __wrap_vs_gate_wait(enum vs_gate_state state)
{
    assert_int_equal(state, VS_GATE_CLOSED);
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    assert_int_equal(vs_served_captures, 0); /* else who moves memory would wait for it */
    now.waits++;
    vs_gate_set(now.after_wait);
}

#define STREAM ((CUstream)0x5000)

static CUresult call(enum vs_api api, void *begin)
{
#define AS(symbol) ((__typeof__(&real_##symbol))begin)
    switch (api) {
    case VS_API_cuStreamBeginCapture:
    case VS_API_cuStreamBeginCapture_ptsz:
        return AS(cuStreamBeginCapture)(STREAM);
    case VS_API_cuStreamBeginCapture_v2:
    case VS_API_cuStreamBeginCapture_v2_ptsz:
        return AS(cuStreamBeginCapture_v2)(STREAM, CU_STREAM_CAPTURE_MODE_GLOBAL);
    case VS_API_cuStreamBeginCaptureToGraph:
    case VS_API_cuStreamBeginCaptureToGraph_ptsz:
        return AS(cuStreamBeginCaptureToGraph)(STREAM, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
    default:
        return AS(cuStreamBeginRecaptureToGraph)(STREAM, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, NULL);
    }
}

/* Begins one by the function of ROW, and ends it. */
static void begin_by(const struct vs_stand_in *row, CUresult answer)
{
    now.answer = answer;
    now.begun = now.waits = 0;
    assert_int_equal(call(row->api, row->function), answer);
    assert_int_equal(now.begun, 1);
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    assert_int_equal(vs_served_captures, answer == CUDA_SUCCESS);
    vs_capture_ended(STREAM);
}

#define EACH_BEGIN(row)                                                                                      \
    for (const struct vs_stand_in *row = vs_stand_ins_captures; row->function != NULL; row++)                \
        if (row->api != VS_API_cuStreamEndCapture && row->api != VS_API_cuStreamEndCapture_ptsz)

static int claimed(void **state)
{
    vs_presence_claim();
    return 0;
}

TEST(none_begins_while_memory_moves, claimed, NULL)
{
    int functions = 0;
    EACH_BEGIN(row)
    {
        functions++;
        now.after_wait = functions % 2 ? VS_GATE_OPEN : VS_GATE_CHECKED;
        vs_gate_set(VS_GATE_CLOSED);
        begin_by(row, CUDA_SUCCESS);
        assert_int_equal(now.waits, 1);
    }
    assert_int_equal(functions, 8);
}

TEST(one_begins_at_once_where_memory_is_away_and_rests, claimed, NULL)
{
    EACH_BEGIN(row)
    {
        vs_gate_set(VS_GATE_CHECKED);
        begin_by(row, CUDA_SUCCESS);
        assert_int_equal(now.waits, 0);
    }
}

TEST(one_that_the_driver_refuses_is_none, claimed, NULL)
{
    EACH_BEGIN(row)
    {
        vs_gate_set(VS_GATE_OPEN);
        begin_by(row, CUDA_ERROR_ILLEGAL_STATE);
    }
}
