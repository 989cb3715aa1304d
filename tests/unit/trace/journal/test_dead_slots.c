/*
 * test_dead_slots.c - slots that were claimed and never published: a thread that was cancelled, comes back
 * late, or left by longjmp.
 *
 * The ring calls vs_journal_test_claimed between claim and publication, in the copy of ring.c that is
 * compiled for this test.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "trace/journal/claim.h"
#include "trace/journal/format.h"

#include "journal_kit.h"

extern void (*vs_journal_test_claimed)(uint64_t seq);

static int forget_hook(void **state)
{
    vs_journal_test_claimed = NULL;
    return drop_dir(state);
}

static pthread_barrier_t claimed;

static void hang_after_claim(uint64_t seq)
{
    pthread_barrier_wait(&claimed);
    for (;;)
        pause(); /* a cancellation point: the thread dies between claim and publication */
}

static void *claim_and_die(void *j)
{
    add(j, 99);
    return NULL;
}

TEST(a_thread_cancelled_between_claim_and_publication_costs_its_own_event_only, make_dir, forget_hook)
{
    struct vs_journal *j = create(64);
    pthread_t t;
    pthread_barrier_init(&claimed, NULL, 2);
    add(j, 1);
    vs_journal_test_claimed = hang_after_claim;
    pthread_create(&t, NULL, claim_and_die, j);
    pthread_barrier_wait(&claimed);
    pthread_cancel(t);
    pthread_join(t, NULL);
    vs_journal_test_claimed = NULL;
    add(j, 3);

    uint64_t before = vs_clock_ns();
    assert_int_equal(vs_journal_peek(j, events, seqs, 4096, false), 1); /* stops before the hole */
    vs_journal_release(j, seqs[0]);
    size_t n;
    while ((n = vs_journal_peek(j, events, seqs, 4096, false)) == 0)
        usleep(5000);
    assert_true(vs_clock_ns() - before >= 95000000);
    assert_int_equal(n, 1);
    assert_int_equal(seqs[0], 3);
    vs_journal_release(j, 3);
    assert_int_equal(stats_of(j).dead, 1);

    /* the slot stays dead: 20 laps of 63 live slots */
    uint64_t got = 0;
    for (uint64_t i = 0; i < 1260; i++) {
        assert_true(add(j, i) != VS_SEQ_NONE);
        if (i % 21 == 20)
            got += take_all(j, false);
    }
    assert_int_equal(got, 1260);
    assert_int_equal(stats_of(j).dead, 1);
    assert_int_equal(stats_of(j).lost, 0);
    assert_int_equal(stats_of(j).head, stats_of(j).tail);
    vs_journal_close(j);
}

TEST(a_ring_full_up_to_a_dead_slot_still_moves_on, make_dir, forget_hook)
{
    struct vs_journal *j = create(64);
    for (int lap = 0; lap < 5; lap++) {
        int n = 0;
        while (n < 64 && vs_journal_try_append(j, &(struct vs_event){.op = VS_OP_FREE}) != VS_SEQ_NONE)
            n++;
        if (lap == 0) { /* as if its writer had died before publication, and the consumer had seen it */
            atomic_store(&j->slot[10].state, VS_STATE_DEAD);
            atomic_store(&j->header->dead, 1);
            atomic_store(&j->header->doubt, VS_DOUBT_DEAD);
        }
        assert_int_equal(n, lap == 0 ? 64 : 63);
        assert_int_equal(take_all(j, false), 63);
        while (atomic_load(&j->header->dropping))
            if (vs_journal_try_append(j, &(struct vs_event){.op = VS_OP_FREE}) != VS_SEQ_NONE)
                take_all(j, false);
    }
    vs_journal_close(j);
}

static _Atomic int late_step;

static void wait_until_killed(uint64_t seq)
{
    late_step = 1;
    while (late_step != 2)
        usleep(1000);
}

static void *late_writer(void *j)
{
    return (void *)(uintptr_t)(add(j, 99) == VS_SEQ_NONE);
}

TEST(a_writer_that_comes_back_to_a_killed_slot_is_told_and_counted, make_dir, forget_hook)
{
    struct vs_journal *j = create(64);
    pthread_t t;
    void *told;
    late_step = 0;
    vs_journal_test_claimed = wait_until_killed;
    pthread_create(&t, NULL, late_writer, j);
    while (late_step != 1)
        usleep(1000);
    assert_int_equal(take_all(j, true), 0); /* final: kills at once */
    late_step = 2;
    pthread_join(t, &told);
    vs_journal_test_claimed = NULL;
    assert_non_null(told);
    assert_int_equal(stats_of(j).dead, 1);
    assert_int_equal(stats_of(j).late, 1);
    add(j, 5);
    assert_int_equal(take_all(j, false), 1);
    assert_int_equal(events[0].address, 5);
    vs_journal_close(j);
}

TEST(a_place_claimed_without_the_journal_is_checked_the_same_way_when_it_was_killed, make_dir, forget_hook)
{
    struct vs_journal *j = create(64);
    struct vs_ring r = vs_journal_ring(j);
    uint64_t seq = 0;
    assert_true(vs_ring_claim(&r, &seq));
    assert_true(vs_ring_publish(&r, seq));
    assert_int_equal(take_all(j, false), 1);
    assert_true(vs_ring_claim(&r, &seq));
    assert_int_equal(take_all(j, true), 0); /* final: kills at once */
    assert_false(vs_ring_publish(&r, seq));
    assert_false(vs_ring_publish_doubtful(&r, seq));
    assert_int_equal(stats_of(j).late, 1);
    assert_false(vs_ring_claim(&r, &seq)); /* from now on each place has to be looked at */
    add(j, 5);
    assert_int_equal(take_all(j, false), 1);
    vs_journal_close(j);
}

static sigjmp_buf out_of_handler;
static struct vs_journal *handler_journal;

static void jump_out(uint64_t seq)
{
    vs_journal_test_claimed = NULL;
    siglongjmp(out_of_handler, 1);
}

TEST(longjmp_out_of_a_half_written_slot_is_survived, make_dir, forget_hook)
{
    struct vs_journal *j = create(64);
    vs_journal_test_claimed = jump_out;
    handler_journal = j;
    if (sigsetjmp(out_of_handler, 1) == 0)
        add(j, 1);
    add(handler_journal, 2);
    assert_int_equal(take_all(handler_journal, true), 1);
    assert_int_equal(events[0].address, 2);
    vs_journal_close(handler_journal);
}
