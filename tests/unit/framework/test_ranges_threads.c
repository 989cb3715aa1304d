/*
 * test_ranges_threads.c - ranges and threads: whose range a thread without one belongs to, what the end of a
 * thread closes, and more threads and depth than there is room for.
 */
#include "ranges_kit.h"

TEST(a_thread_without_ranges_belongs_to_the_lead, setup)
{
    uint32_t id = vs_range_push("backward", NULL, MARKER);

    assert_int_equal(from_another_thread(), id);
    vs_range_push("detail", NULL, NVTX);
    assert_int_equal(from_another_thread(), id);
    vs_range_pop(NULL, NVTX);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(from_another_thread(), 0);
}

static void *own_range(void *arg)
{
    uint32_t id = vs_range_push("worker", NULL, MARKER);

    seen = vs_range_current() == id;
    vs_range_pop(NULL, MARKER);
    seen &= vs_range_current() == 0; /* it leads now, with nothing open */
    return NULL;
}

TEST(own_ranges_come_before_the_lead_and_the_lead_passes_on, setup)
{
    pthread_t t;
    uint32_t id = vs_range_push("forward", NULL, MARKER);

    pthread_create(&t, NULL, own_range, NULL);
    pthread_join(t, NULL);
    assert_int_equal(seen, 1);
    assert_int_equal(vs_range_current(), id);
    assert_int_equal(from_another_thread(), 0);
    vs_range_lead();
    assert_int_equal(from_another_thread(), id);
    vs_range_pop(NULL, MARKER);
}

static void *leave_open(void *arg)
{
    vs_range_push("left", NULL, MARKER);
    vs_range_push("open", NULL, MARKER);
    return NULL;
}

TEST(a_thread_that_ends_closes_its_ranges, setup)
{
    pthread_t t;

    pthread_create(&t, NULL, leave_open, NULL);
    pthread_join(t, NULL);
    assert_int_equal(logged, 4);
    assert_int_equal(log_[2].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[2].range, log_[1].range);
    assert_int_equal(log_[3].range, log_[0].range);
    assert_int_equal(from_another_thread(), 0);
}

/* ---- more than there is room for ---- */

static void *lead_with_forward(void *go)
{
    vs_range_push("forward", NULL, MARKER);
    pthread_barrier_wait(go);
    pthread_barrier_wait(go);
    vs_range_pop(NULL, MARKER);
    return NULL;
}

TEST(what_is_too_deep_is_lost_and_in_no_phase_of_another_thread, setup)
{
    pthread_barrier_t go;
    pthread_t t;

    for (int i = 0; i < 64; i++)
        vs_range_push("no phase", NULL, NVTX);
    lost_ranges = 0;
    pthread_barrier_init(&go, NULL, 2);
    pthread_create(&t, NULL, lead_with_forward, &go);
    pthread_barrier_wait(&go);
    assert_int_not_equal(vs_range_current(), 0); /* the other one's: nothing of our own says otherwise */
    vs_range_push("logits", NULL, MARKER);
    assert_int_equal(vs_range_current(), 0);
    assert_int_equal(lost_ranges, 1);
    vs_range_pop(NULL, MARKER);
    assert_int_not_equal(vs_range_current(), 0);
    pthread_barrier_wait(&go);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&go);
}

#define CROWD 1100
static uint32_t crowd_current[CROWD];
static pthread_barrier_t crowd_stays;

static void *one_of_many(void *at)
{
    uint32_t id = vs_range_push("worker", NULL, MARKER);

    crowd_current[(uintptr_t)at] = vs_range_current() == id ? id : UINT32_MAX;
    pthread_barrier_wait(&crowd_stays); /* all have theirs open */
    vs_range_pop(NULL, MARKER);
    return NULL;
}

TEST(threads_beyond_the_last_block_lose_their_ranges_and_take_no_other_s, setup)
{
    static pthread_t thread[CROWD];
    pthread_attr_t small;
    unsigned own = 0, none = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&crowd_stays, NULL, CROWD);
    lost_ranges = 0;
    for (uintptr_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&thread[i], &small, one_of_many, (void *)i), 0);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(thread[i], NULL);
        own += crowd_current[i] != 0 && crowd_current[i] != UINT32_MAX;
        none += crowd_current[i] == 0;
    }
    pthread_barrier_destroy(&crowd_stays);
    pthread_attr_destroy(&small);
    assert_int_equal(own + none, CROWD);
    assert_true(own <= 1024 && own > 1000);
    assert_int_equal(lost_ranges, none);
}

static void *hammer(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        vs_range_push("forward", NULL, MARKER);
        vs_range_push("op", "d", NVTX);
        if (vs_range_pop("d", NVTX) != 0 || vs_range_pop(NULL, MARKER) != 0)
            return (void *)1;
    }
    return NULL;
}

TEST(many_threads_stay_balanced, setup)
{
    pthread_t t[8];
    void *bad;

    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, hammer, NULL);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(logged, 8 * 20000 * 4);
}

TEST(blocks_of_ended_threads_are_used_again, setup)
{
    for (int i = 0; i < 3000; i++) {
        pthread_t t;

        pthread_create(&t, NULL, own_range, NULL);
        pthread_join(t, NULL);
        assert_int_equal(seen, 1);
    }
}

int main(void)
{
    vs_ranges_init();
    return run_all_tests(NULL, NULL);
}
