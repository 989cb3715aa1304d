/*
 * test_gate_order.c - the order of the gate's steps, which no run of threads shows for certain: in the place
 * of each barrier something runs that another thread could do at just that moment.
 */
#include "core/barrier.h"

static void at_often(void);
static bool at_seldom(void);
#define vs_barrier_often()  at_often()
#define vs_barrier_seldom() at_seldom()
#include "arena/away/gate.c"

#include "unit/test.h"

static enum { NOTHING, CLOSES, IS_CLOSED } meanwhile;
static bool another_enters, closed;
static int often, seldom;

static void at_often(void)
{
    often++;
    if (meanwhile == CLOSES) {
        meanwhile = NOTHING;
        closed = vs_gate_close(0);
    } else if (meanwhile == IS_CLOSED) {
        set(VS_GATE_CLOSED);
    }
}

static bool at_seldom(void)
{
    seldom++;
    assert_int_equal(vs_gate, VS_GATE_CLOSED);
    if (another_enters)
        atomic_store(&vs_presence_mine->giving, 1);
    return true;
}

static int begin(void **state)
{
    vs_gate_set(VS_GATE_OPEN);
    if (vs_presence_mine == NULL)
        vs_presence_claim();
    atomic_store(&vs_presence_mine->giving, 0);
    meanwhile = NOTHING;
    another_enters = false;
    often = seldom = 0;
    return 0;
}

TEST(a_thread_is_counted_before_its_barrier, begin, NULL)
{
    meanwhile = CLOSES;
    assert_true(vs_gate_enter());
    assert_false(closed);
    assert_int_equal(often, 1);
    vs_gate_leave();
}

TEST(a_thread_looks_behind_its_barrier, begin, NULL)
{
    meanwhile = IS_CLOSED;
    assert_false(vs_gate_enter());
    vs_gate_set(VS_GATE_OPEN);
    assert_int_equal(vs_gate_enter_anyway(), VS_GATE_CLOSED);
    assert_int_equal(often, 2);
    assert_false(vs_gate_decide(false));
}

TEST(who_closes_looks_for_threads_behind_its_barrier, begin, NULL)
{
    another_enters = true;
    assert_false(vs_gate_close(0));
    assert_int_equal(seldom, 1);
    assert_int_equal(vs_gate, VS_GATE_OPEN);
}

/* A signal handler that gives work, between a call's count and its look at the gate. */
TEST(a_call_that_still_looks_lets_no_other_in, begin, NULL)
{
    assert_true(vs_gate_close(0));
    assert_int_equal(vs_gate_enter_anyway(), VS_GATE_CLOSED);
    assert_false(vs_gate_enter());
    assert_false(vs_gate_decide(false));
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
