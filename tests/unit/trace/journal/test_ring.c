/*
 * test_ring.c - the ring hands events back in their order, each once, whole, and again until they are
 * released.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "trace/journal/format.h"

#include "journal_kit.h"

TEST(events_come_back_in_order_and_only_once_released, make_dir, drop_dir)
{
    struct vs_journal *j = create(1024);
    for (uint64_t i = 1; i <= 700; i++)
        assert_int_equal(add(j, i), i);
    assert_int_equal(vs_journal_peek(j, events, seqs, 100, false), 100);
    assert_int_equal(vs_journal_peek(j, events, seqs, 4096, false), 700);
    for (uint64_t i = 0; i < 700; i++) {
        assert_int_equal(seqs[i], i + 1);
        assert_int_equal(events[i].address, i + 1);
        assert_int_equal(events[i].size, 2 * (i + 1));
    }
    vs_journal_release(j, 300);
    assert_int_equal(vs_journal_peek(j, events, seqs, 4096, false), 400);
    assert_int_equal(seqs[0], 301);
    vs_journal_close(j);
}

TEST(laps_reuse_the_slots, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    for (uint64_t i = 1; i <= 10000; i++) {
        assert_int_equal(add(j, i), i);
        if (i % 50 == 0) {
            assert_int_equal(take_all(j, false), 50);
            assert_int_equal(events[49].address, i);
        }
    }
    assert_int_equal(stats_of(j).lost, 0);
    vs_journal_close(j);
}

TEST(slots_not_yet_handed_back_are_not_claimed_though_the_tail_has_passed_them, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    struct vs_event e = {.op = VS_OP_FREE};
    for (uint64_t i = 1; i <= 64; i++)
        assert_int_equal(vs_journal_append(j, &e), i);
    atomic_store(&j->header->tail, 33); /* a release that was killed half way */
    assert_true(vs_journal_try_append(j, &e) == VS_SEQ_NONE);
    atomic_store(&j->header->tail, 1);
    vs_journal_release(j, 1);
    assert_int_equal(vs_journal_try_append(j, &e), 65);
    assert_true(vs_journal_try_append(j, &e) == VS_SEQ_NONE);
    vs_journal_close(j);
}

TEST(every_field_of_an_event_comes_through, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    unsigned char bytes[sizeof(struct vs_event)];
    struct vs_event e;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i + 1);
    memcpy(&e, bytes, sizeof e);
    assert_int_equal(vs_journal_append(j, &e), 1);
    assert_int_equal(take_all(j, false), 1);
    e.state = events[0].state;
    assert_memory_equal(&events[0], &e, sizeof e);
    vs_journal_close(j);
}

static bool is_a_sample(uint8_t op, uint8_t space)
{
    return op == VS_OP_SAMPLE && space == VS_SPACE_POOL;
}

TEST(events_just_recorded_can_be_looked_back_at_and_no_longer_after_a_lap, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    struct vs_event other = {.op = VS_OP_FREE}, sample = {.op = VS_OP_SAMPLE, .space = VS_SPACE_POOL};
    for (int i = 0; i < 10; i++)
        assert_int_equal(vs_journal_append(j, i == 5 ? &sample : &other), i + 1);
    assert_false(vs_journal_any(j, 1, 6, is_a_sample));
    assert_true(vs_journal_any(j, 1, 7, is_a_sample));
    assert_false(vs_journal_any(j, 7, 11, is_a_sample));
    assert_true(vs_journal_any(j, 7, 12, is_a_sample)); /* 11 is not there yet */
    assert_int_equal(take_all(j, false), 10);           /* handed back: still to be read */
    assert_true(vs_journal_any(j, 1, 7, is_a_sample));
    assert_false(vs_journal_any(j, 7, 11, is_a_sample));
    for (int i = 0; i < 64; i++)
        vs_journal_append(j, &other);
    assert_true(vs_journal_any(j, 7, 11, is_a_sample)); /* overwritten: nobody can say */
    vs_journal_close(j);
}

TEST(try_append_never_waits, make_dir, drop_dir)
{
    struct vs_journal *j = create(1024);
    struct vs_event e = {.op = VS_OP_SAMPLE};
    for (int i = 0; i < 896; i++)
        assert_true(vs_journal_try_append(j, &e) != VS_SEQ_NONE);
    uint64_t before = vs_clock_ns();
    for (int i = 0; i < 50; i++)
        assert_true(vs_journal_try_append(j, &e) == VS_SEQ_NONE);
    assert_true(vs_clock_ns() - before < 20000000);
    assert_int_equal(stats_of(j).lost, 50);
    assert_int_equal(take_all(j, false), 896);
    assert_true(vs_journal_try_append(j, &e) != VS_SEQ_NONE);
    vs_journal_close(j);
}

/* ---- many threads ---- */

#define PRODUCERS  4
#define PER_THREAD 50000

struct producer {
    struct vs_journal *j;
    uint64_t number, accepted, dropped;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (uint64_t i = 1; i <= PER_THREAD; i++) {
        if (add(p->j, p->number << 32 | i) == VS_SEQ_NONE)
            p->dropped++;
        else
            p->accepted++;
    }
    return NULL;
}

static void consume(struct vs_journal *j, uint64_t *last, uint64_t *got, uint64_t *last_seq)
{
    size_t n = vs_journal_peek(j, events, seqs, 1000, false);
    for (size_t i = 0; i < n; i++) {
        uint64_t who = events[i].address >> 32, number = events[i].address & UINT32_MAX;
        assert_true(who < PRODUCERS && number > last[who]); /* each thread's own order is kept */
        assert_int_equal(events[i].size, events[i].address * 2);
        assert_true(seqs[i] > *last_seq);
        last[who] = number;
        *last_seq = seqs[i];
        got[who]++;
    }
    if (n)
        vs_journal_release(j, seqs[n - 1]);
}

TEST(every_accepted_event_of_every_thread_arrives_once, make_dir, drop_dir)
{
    struct vs_journal *j = create(4096);
    struct producer p[PRODUCERS] = {0};
    pthread_t t[PRODUCERS];
    uint64_t last[PRODUCERS] = {0}, got[PRODUCERS] = {0}, last_seq = 0, dropped = 0;
    for (uint64_t i = 0; i < PRODUCERS; i++) {
        p[i].j = j;
        p[i].number = i;
        pthread_create(&t[i], NULL, produce, &p[i]);
    }
    for (int i = 0; i < 2000; i++)
        consume(j, last, got, &last_seq);
    for (int i = 0; i < PRODUCERS; i++) {
        while (pthread_tryjoin_np(t[i], NULL) != 0)
            consume(j, last, got, &last_seq);
    }
    while (stats_of(j).head != stats_of(j).tail)
        consume(j, last, got, &last_seq);
    for (int i = 0; i < PRODUCERS; i++) {
        assert_int_equal(got[i], p[i].accepted);
        dropped += p[i].dropped;
    }
    assert_int_equal(stats_of(j).lost + stats_of(j).late, dropped);
    vs_journal_close(j);
}
