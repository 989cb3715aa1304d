/*
 * test_journal.c - what the journal promises: order, exact counts, losses that are counted, survival of a
 * SIGKILL, and no trust in foreign files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "trace/journal/claim.h"
#include "trace/journal/format.h"

extern void (*vs_journal_test_claimed)(uint64_t seq);

static char dir[64], path[96];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs-journal-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/a.vsj", dir);
    return 0;
}

static int drop_dir(void **state)
{
    vs_journal_test_claimed = NULL;
    unlink(path);
    return rmdir(dir);
}

static struct vs_journal *create(uint32_t slots)
{
    struct vs_journal_config c = {.ring_slots = slots, .database = "/tmp/x.db", .start_ns = 7};
    struct vs_journal *j = NULL;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    return j;
}

static uint64_t add(struct vs_journal *j, uint64_t address)
{
    struct vs_event e = {.op = VS_OP_ALLOC, .address = address, .size = address * 2};
    return vs_journal_append(j, &e);
}

static struct vs_event events[4096];
static uint64_t seqs[4096];

static size_t take_all(struct vs_journal *j, bool final)
{
    size_t n = vs_journal_peek(j, events, seqs, 4096, final);
    if (n)
        vs_journal_release(j, seqs[n - 1]);
    return n;
}

static struct vs_journal_stats stats_of(struct vs_journal *j)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s;
}

/* ---- one thread ---- */

static void events_come_back_in_order_and_only_once_released(void **state)
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

static void laps_reuse_the_slots(void **state)
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

static void a_full_ring_waits_a_millisecond_once_then_drops_and_counts_until_half_empty(void **state)
{
    struct vs_journal *j = create(1024);
    for (uint64_t i = 1; i <= 896; i++) /* seven eighths */
        assert_int_equal(add(j, i), i);
    uint64_t before = vs_clock_ns();
    assert_true(add(j, 1) == VS_SEQ_NONE);
    assert_true(vs_clock_ns() - before >= 1000000);
    before = vs_clock_ns();
    for (int i = 0; i < 100; i++)
        assert_true(add(j, 1) == VS_SEQ_NONE);
    assert_true(vs_clock_ns() - before < 50000000); /* 100 waits would be 100 ms */
    vs_journal_release(j, 200);
    assert_true(add(j, 1) == VS_SEQ_NONE); /* not half empty yet */
    vs_journal_release(j, 384);
    assert_int_equal(add(j, 5), 897); /* no sequence was consumed by the drops */
    assert_int_equal(stats_of(j).lost, 102);
    assert_int_equal(stats_of(j).lost_ends, 0);
    assert_int_equal(take_all(j, false), 513);
    vs_journal_close(j);
}

static void slots_not_yet_handed_back_are_not_claimed_though_the_tail_has_passed_them(void **state)
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

static void every_field_of_an_event_comes_through(void **state)
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

static void events_just_recorded_can_be_looked_back_at_and_no_longer_after_a_lap(void **state)
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

static void try_append_never_waits(void **state)
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

/* ---- what a full ring drops ---- */

struct producer {
    struct vs_journal *j;
    uint64_t number, accepted, dropped;
};

static uint64_t offer(struct vs_journal *j, uint8_t op, uint64_t address)
{
    return vs_journal_try_append(j, &(struct vs_event){.op = op, .address = address});
}

static struct vs_journal *create_with(uint8_t op, uint64_t n, uint32_t slots)
{
    struct vs_journal *j = create(slots);
    for (uint64_t i = 1; i <= n; i++)
        assert_int_equal(offer(j, op, i << 9), i);
    return j;
}

static void the_last_eighth_of_the_ring_takes_ends_only_and_a_lost_end_is_counted_with_its_place(void **state)
{
    static const uint8_t ends[] = {VS_OP_FREE,   VS_OP_FREE_FAILED,     VS_OP_PHYS_RELEASE, VS_OP_UNMAP,
                                   VS_OP_UNBIND, VS_OP_CONTEXT_DESTROY, VS_OP_BLOCK_FREE,   VS_OP_RANGE_POP};
    static const uint8_t others[] = {VS_OP_ALLOC, VS_OP_PHYS_CREATE, VS_OP_BLOCK_ALLOC, VS_OP_RANGE_PUSH,
                                     VS_OP_MAP,   VS_OP_SAMPLE,      VS_OP_MARK,        VS_OP_CONTEXT_CREATE};
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    uint64_t seen = 0, first, last;
    for (int i = 0; i < 8; i++)
        assert_true(offer(j, others[i], 7) == VS_SEQ_NONE);
    assert_int_equal(stats_of(j).lost, 7); /* a push is kept by its caller, and no loss yet */
    assert_false(vs_journal_lost_ends(j, &seen, &first, &last));
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(offer(j, ends[i], i + 100), 57 + i);
    assert_true(offer(j, VS_OP_FREE, 9) == VS_SEQ_NONE);
    assert_true(offer(j, VS_OP_RANGE_POP, 9) == VS_SEQ_NONE); /* kept, like a push ... */
    assert_int_equal(stats_of(j).lost_ends, 1);
    vs_journal_count_lost(j, VS_OP_RANGE_POP); /* ... or not */
    assert_int_equal(stats_of(j).lost_ends, 2);
    assert_true(vs_journal_lost_ends(j, &seen, &first, &last));
    assert_int_equal(first, 65);
    assert_int_equal(last, 65);
    assert_false(vs_journal_lost_ends(j, &seen, &first, &last));
    vs_journal_release(j, 4);
    assert_int_equal(offer(j, VS_OP_FREE, 1), 65);
    assert_true(offer(j, VS_OP_ALLOC, 8) == VS_SEQ_NONE);
    vs_journal_close(j);
}

static void the_free_of_an_allocation_that_was_dropped_takes_no_room_and_is_no_lost_end(void **state)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_true(offer(j, VS_OP_ALLOC, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_BLOCK_ALLOC, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_FREE, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_BLOCK_FREE, i << 20) == VS_SEQ_NONE);
    }
    assert_int_equal(stats_of(j).head, 57);
    assert_int_equal(stats_of(j).lost, 4000);
    assert_int_equal(stats_of(j).lost_ends, 0);
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 9), 57); /* of one that was recorded */
    vs_journal_close(j);
}

static void an_address_is_forgotten_once_it_is_recorded_as_allocated_again(void **state)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    assert_true(offer(j, VS_OP_ALLOC, 1 << 20) == VS_SEQ_NONE); /* its free is not seen */
    vs_journal_release(j, 56);
    assert_int_equal(offer(j, VS_OP_ALLOC, 1 << 20), 57);
    assert_int_equal(offer(j, VS_OP_BLOCK_FREE, 1 << 20), 58); /* another thing at the same address */
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 20), 59);
    vs_journal_close(j);
}

static void a_blocks_tensor_does_not_keep_its_dropped_address(void **state)
{
    struct vs_journal *j = create_with(VS_OP_BLOCK_ALLOC, 56, 64);
    assert_true(offer(j, VS_OP_BLOCK_ALLOC, 1 << 20) == VS_SEQ_NONE); /* its free is not seen */
    vs_journal_release(j, 56);
    struct vs_event block = {.op = VS_OP_BLOCK_ALLOC, .address = 1 << 20, .status = 7}; /* a tensor's id */
    assert_int_equal(vs_journal_try_append(j, &block), 57);
    assert_int_equal(offer(j, VS_OP_BLOCK_FREE, 1 << 20), 58);
    vs_journal_close(j);
}

static void a_refused_allocation_that_was_dropped_leaves_nothing_to_free(void **state)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    struct vs_event refused = {.op = VS_OP_ALLOC, .address = 1 << 20, .status = 2};
    assert_true(vs_journal_try_append(j, &refused) == VS_SEQ_NONE);
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 20), 57);
    vs_journal_close(j);
}

static void more_dropped_allocations_than_can_be_remembered_cost_room_and_nothing_else(void **state)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    uint64_t n = 100000, recorded = 0;
    for (uint64_t i = 1; i <= n; i++)
        offer(j, VS_OP_ALLOC, i << 21);
    for (uint64_t i = 1; i <= n; i++) {
        recorded += offer(j, VS_OP_FREE, i << 21) != VS_SEQ_NONE;
        take_all(j, false);
    }
    assert_in_range(recorded, n - 65536, n - 60000); /* nearly every place is used */
    assert_int_equal(stats_of(j).lost, 2 * n - recorded);
    assert_int_equal(stats_of(j).lost_ends, 0);
    vs_journal_close(j);
}

#define SPINNERS 4

static void *spin_on_pairs(void *arg)
{
    struct producer *p = arg;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t address = p->number << 40 | i % 50 << 20;
        vs_journal_append(p->j, &(struct vs_event){.op = VS_OP_ALLOC, .address = address, .size = 1});
        vs_journal_append(p->j, &(struct vs_event){.op = VS_OP_FREE, .address = address});
    }
    return NULL;
}

/* What lives after each event: never more than one of each thread, and in the end nothing. */
static void
threads_that_allocate_and_free_against_a_slow_drain_never_seem_to_hold_more_than_they_do(void **state)
{
    struct vs_journal *j = create(256);
    struct producer p[SPINNERS] = {0};
    pthread_t t[SPINNERS];
    int64_t living = 0;
    for (uint64_t i = 0; i < SPINNERS; i++) {
        p[i] = (struct producer){.j = j, .number = i + 1};
        pthread_create(&t[i], NULL, spin_on_pairs, &p[i]);
    }
    int joined = 0;
    for (size_t n = 1; joined < SPINNERS || n;) {
        if (joined < SPINNERS && pthread_tryjoin_np(t[joined], NULL) == 0)
            joined++;
        n = take_all(j, joined == SPINNERS);
        for (size_t i = 0; i < n; i++) {
            living += events[i].op == VS_OP_ALLOC ? 1 : -1;
            assert_in_range(living, 0, SPINNERS);
        }
        usleep(200);
    }
    assert_int_equal(living, 0);
    assert_true(stats_of(j).lost > 1000);
    assert_int_equal(stats_of(j).lost_ends, 0);
    vs_journal_close(j);
}

/* ---- dead slots ---- */

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

static void a_thread_cancelled_between_claim_and_publication_costs_its_own_event_only(void **state)
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

    assert_int_equal(vs_journal_peek(j, events, seqs, 4096, false), 1); /* stops before the hole */
    vs_journal_release(j, seqs[0]);
    uint64_t before = vs_clock_ns();
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

static void a_ring_full_up_to_a_dead_slot_still_moves_on(void **state)
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

static void a_writer_that_comes_back_to_a_killed_slot_is_told_and_counted(void **state)
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

static void a_place_claimed_without_the_journal_is_checked_the_same_way_when_it_was_killed(void **state)
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

static void longjmp_out_of_a_half_written_slot_is_survived(void **state)
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

/* ---- many threads ---- */

#define PRODUCERS  4
#define PER_THREAD 50000

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

static void every_accepted_event_of_every_thread_arrives_once(void **state)
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

static void *intern_names(void *j)
{
    char name[32];
    uint32_t *ids = calloc(3000, sizeof *ids);
    for (int i = 0; i < 3000; i++) {
        int n = snprintf(name, sizeof name, "name-%d", i % 1000);
        ids[i] = vs_journal_string(j, name, (size_t)n);
        uint32_t frame = vs_journal_frame(j, (uint64_t)(i % 1000) + 1, 3);
        vs_journal_stack(j, vs_journal_stack(j, 0, frame), frame);
    }
    return ids;
}

static void threads_interning_the_same_keys_agree_on_the_ids(void **state)
{
    struct vs_journal *j = create(64);
    pthread_t t[PRODUCERS];
    uint32_t *ids[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&t[i], NULL, intern_names, j);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(t[i], (void **)&ids[i]);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        size_t length;
        snprintf(name, sizeof name, "name-%d", i % 1000);
        for (int k = 0; k < PRODUCERS; k++)
            assert_int_equal(ids[k][i], ids[0][i % 1000]);
        assert_string_equal(vs_journal_get_string(j, ids[0][i], &length), name);
        assert_int_equal(length, strlen(name));
    }
    uint32_t frame = vs_journal_frame(j, 7, 3);
    assert_int_equal(vs_journal_get_frame(j, frame)->address, 7);
    uint32_t node = vs_journal_stack(j, vs_journal_stack(j, 0, frame), frame);
    assert_int_equal(vs_journal_get_stack(j, node)->frame, frame);
    assert_int_equal(vs_journal_get_stack(j, vs_journal_get_stack(j, node)->parent)->parent, 0);
    for (int i = 0; i < PRODUCERS; i++)
        free(ids[i]);
    vs_journal_close(j);
}

/* ---- tables ---- */

static void rows_are_kept_and_keys_interned(void **state)
{
    struct vs_journal *j = create(64);
    uint16_t a = vs_journal_thread(j, 11, VS_THREAD_AUTOGRAD, "pt_autograd_0");
    uint16_t b = vs_journal_thread(j, 12, 0, "a name much longer than its field");
    assert_int_equal(vs_journal_get_thread(j, a)->tid, 11);
    assert_string_equal(vs_journal_get_thread(j, a)->name, "pt_autograd_0");
    assert_int_equal(strlen(vs_journal_get_thread(j, b)->name), 23);
    assert_int_equal(vs_journal_context(j, 0xabc, 1), vs_journal_context(j, 0xabc, 1));
    assert_int_not_equal(vs_journal_context(j, 0xabc, 1), vs_journal_context(j, 0xabd, 1));
    struct vs_device_row d = {.ordinal = 3, .total_bytes = 5, .name = "dev"};
    vs_journal_device(j, &d);
    vs_journal_device(j, &d);
    assert_int_equal(vs_journal_get_device(j, 1)->ordinal, 3);
    assert_string_equal(vs_journal_get_device(j, 1)->name, "dev");
    assert_null(vs_journal_get_device(j, 2));
    struct vs_module_row m = {.base = 1, .start = 2, .end = 3, .path = 4, .build_id = 5};
    assert_int_equal(vs_journal_get_module(j, vs_journal_module(j, &m))->build_id, 5);
    assert_int_equal(vs_journal_next_range(j), 1);
    assert_int_equal(vs_journal_next_range(j), 2);
    assert_null(vs_journal_get_string(j, 0, NULL));
    assert_null(vs_journal_get_stack(j, 0));
    assert_null(vs_journal_get_stack(j, UINT32_MAX));
    uint32_t empty = vs_journal_string(j, "", 0);
    assert_string_equal(vs_journal_get_string(j, empty, NULL), "");
    vs_journal_close(j);
}

static uint32_t tensor(struct vs_journal *j, uint8_t type, uint64_t request, uint32_t dims,
                       const int64_t *size)
{
    return vs_journal_tensor(j, vs_tensor_what(VS_TENSOR_WHOLE, type, dims), request, size);
}

static void what_blocks_were_asked_for_as_is_kept_once_and_exactly(void **state)
{
    struct vs_journal *j = create(64);
    const int64_t a[] = {4, 2048, 8192}, b[] = {4, 2048, 8193}, long_one[] = {INT64_MAX};
    uint32_t id = tensor(j, 15, 134217728, 3, a);
    assert_int_not_equal(id, 0);
    assert_int_equal(tensor(j, 15, 134217728, 3, (int64_t[]){4, 2048, 8192}), id);
    assert_int_not_equal(tensor(j, 15, 134217728, 3, b), id);
    assert_int_not_equal(tensor(j, 5, 134217728, 3, a), id);
    assert_int_not_equal(tensor(j, 15, 134217730, 3, a), id);
    assert_int_not_equal(tensor(j, 15, 134217728, 2, a), id);
    uint32_t scalar = tensor(j, 6, 4, 0, a), large = tensor(j, 0, INT64_MAX, 1, long_one);
    uint32_t raw =
        vs_journal_tensor(j, vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE), 0, NULL);
    struct vs_tensor t;
    assert_true(vs_journal_get_tensor(j, id, &t));
    assert_int_equal(t.row.request, 134217728);
    assert_int_equal(vs_tensor_kind_of(&t.row), VS_TENSOR_WHOLE);
    assert_int_equal(vs_tensor_type_of(&t.row), 15);
    assert_int_equal(vs_tensor_dims_of(&t.row), 3);
    assert_memory_equal(t.size, a, sizeof a);
    assert_true(vs_journal_get_tensor(j, scalar, &t) && vs_tensor_dims_of(&t.row) == 0);
    assert_true(vs_journal_get_tensor(j, large, &t) && t.size[0] == INT64_MAX);
    assert_true(vs_journal_get_tensor(j, raw, &t) && vs_tensor_kind_of(&t.row) == VS_TENSOR_RAW);
    assert_false(vs_journal_get_tensor(j, 0, &t));
    assert_false(vs_journal_get_tensor(j, UINT32_MAX, &t));
    vs_journal_close(j);
}

static void a_damaged_row_of_tensors_is_not_read_beyond_its_table(void **state)
{
    struct vs_journal_config c = {.ring_slots = 64, .tensor_bytes = 80};
    struct vs_journal *j;
    struct vs_tensor t;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    uint32_t id = tensor(j, 6, 16, 2, (int64_t[]){2, 2});
    assert_int_not_equal(id, 0);
    assert_int_equal(tensor(j, 6, 16, 6, (int64_t[]){2, 2, 1, 1, 1, 1}), 0); /* no room, and said */
    assert_true(stats_of(j).tensors_full);
    assert_int_equal(stats_of(j).table_full, 0);
    uint32_t *what = (uint32_t *)vs_journal_row(j, VS_SEC_TENSORS, 8, id);
    for (uint32_t dims = 0; dims < 256; dims++) {
        *what = vs_tensor_what(VS_TENSOR_WHOLE, 6, dims);
        bool fits = dims <= 7 || dims == VS_TENSOR_NO_SHAPE; /* of 10 units: row 0, two of the row itself */
        assert_int_equal(vs_journal_get_tensor(j, id, &t), fits);
    }
    vs_journal_close(j);
}

static void a_full_table_of_tensors_keeps_bytes_and_types_a_while_longer(void **state)
{
    struct vs_journal_config c = {.ring_slots = 64, .tensor_bytes = 800}; /* 88 of 100 units take shapes */
    struct vs_journal *j;
    struct vs_tensor t;
    uint32_t raw = vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE);
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    for (int64_t i = 1; i <= 21; i++) { /* 4 units each, from unit 1 on */
        uint32_t id = tensor(j, 6, (uint64_t)i, 2, (int64_t[]){i, 1});
        assert_true(vs_journal_get_tensor(j, id, &t) && vs_tensor_dims_of(&t.row) == 2);
        assert_false(stats_of(j).tensors_full);
    }
    uint32_t id = tensor(j, 6, 512, 2, (int64_t[]){128, 1});
    assert_true(vs_journal_get_tensor(j, id, &t));
    assert_int_equal(vs_tensor_dims_of(&t.row), VS_TENSOR_NO_SHAPE);
    assert_int_equal(vs_tensor_kind_of(&t.row), VS_TENSOR_WHOLE);
    assert_int_equal(vs_tensor_type_of(&t.row), 6);
    assert_int_equal(t.row.request, 512);
    assert_int_equal(tensor(j, 6, 512, 3, (int64_t[]){2, 64, 1}), id);
    assert_int_not_equal(vs_journal_tensor(j, raw, 0, NULL), 0);
    for (uint64_t i = 1; i <= 100; i++)
        tensor(j, 6, i << 10, 1, (int64_t[]){7});
    assert_int_equal(tensor(j, 6, 4, 1, (int64_t[]){9}), 0);
    assert_int_equal(tensor(j, 6, 512, 2, (int64_t[]){128, 1}), id);
    assert_true(vs_journal_get_tensor(j, tensor(j, 6, 1, 2, (int64_t[]){1, 1}), &t) &&
                vs_tensor_dims_of(&t.row) == 2);
    assert_true(stats_of(j).tensors_full);
    assert_int_equal(stats_of(j).table_full, 0);
    vs_journal_close(j);
}

static void full_tables_answer_none_and_are_counted(void **state)
{
    struct vs_journal_config c = {
        .ring_slots = 64, .string_bytes = 64, .threads = 3, .contexts = 3, .stacks = 2};
    struct vs_journal *j;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    assert_int_equal(vs_journal_thread(j, 1, 0, ""), 1);
    assert_int_equal(vs_journal_thread(j, 2, 0, ""), 2);
    assert_int_equal(vs_journal_thread(j, 3, 0, ""), VS_THREAD_UNKNOWN);
    assert_int_equal(vs_journal_context(j, 1, 0), 1);
    assert_int_equal(vs_journal_context(j, 2, 0), 2);
    assert_int_equal(vs_journal_context(j, 3, 0), VS_CONTEXT_UNKNOWN);
    assert_int_equal(vs_journal_context(j, 2, 0), 2);
    assert_int_equal(vs_journal_stack(j, 0, 1), 1);
    assert_int_equal(vs_journal_stack(j, 1, 1), 0);
    assert_int_not_equal(vs_journal_string(j, "0123456789012345678901234567890", 31), 0);
    assert_int_equal(vs_journal_string(j, "abcdefghijabcdefghijabcdefghijx", 31), 0);
    assert_int_equal(stats_of(j).table_full, 4);
    vs_journal_close(j);
}

static void facts_can_be_set_changed_and_read_after_reopening(void **state)
{
    struct vs_journal *j = create(64), *r;
    vs_journal_set_fact(j, "host", "a");
    vs_journal_set_fact(j, "rank", "3");
    vs_journal_set_fact(j, "host", "b");
    assert_int_equal(vs_journal_open(&r, path, false), 0);
    assert_string_equal(vs_journal_fact(r, "host"), "b");
    assert_string_equal(vs_journal_fact(r, "rank"), "3");
    assert_null(vs_journal_fact(r, "none"));
    vs_journal_close(r);
    vs_journal_close(j);
}

/* ---- files ---- */

static void nothing_is_overwritten_and_a_full_disk_is_an_error_not_a_signal(void **state)
{
    struct vs_journal *j = create(64), *k;
    struct vs_journal_config c = {.ring_slots = 64};
    assert_int_equal(vs_journal_create(&k, path, &c), -EEXIST);
    vs_journal_close(j);
    unlink(path);
    assert_int_equal(vs_journal_create(&k, "/dev/full/x.vsj", &c), -ENOTDIR);
    assert_int_equal(vs_journal_create(&k, "/nonexistent/x.vsj", &c), -ENOENT);
    struct stat st;
    create(64);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, vs_journal_bytes(&c));
    assert_true(st.st_blocks * 512 >= st.st_size); /* every page has its space */
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_limit_on_file_sizes_is_an_error_not_a_signal(void **state)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        struct rlimit limit = {65536, 65536};
        struct vs_journal_config c = {.ring_slots = 1024};
        struct vs_journal *j;
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(vs_journal_create(&j, path, &c) != -EFBIG || access(path, F_OK) == 0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void a_killed_process_leaves_every_event_that_it_was_told_of(void **state)
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct vs_journal *j = create(1u << 16);
        for (uint64_t i = 1; i <= 30000; i++) {
            add(j, i);
            if (write(told[1], &i, sizeof i) < 0)
                _exit(1);
        }
        pause();
    }
    close(told[1]);
    uint64_t count = 0, last = 0;
    while (count < 20000 && read(told[0], &last, sizeof last) == sizeof last)
        count++;
    struct vs_journal *j;
    assert_int_equal(vs_journal_open(&j, path, true), 0);
    assert_true(vs_journal_owner_alive(j));
    kill(pid, SIGKILL);
    while (read(told[0], &last, sizeof last) == sizeof last)
        count++;
    usleep(20000);
    assert_false(vs_journal_owner_alive(j)); /* dead, though nobody has waited for it yet */
    waitpid(pid, NULL, 0);
    assert_false(vs_journal_owner_alive(j));
    vs_journal_close(j);

    assert_int_equal(vs_journal_open(&j, path, true), 0);
    uint64_t got = 0, highest = 0;
    size_t n;
    while ((n = take_all(j, true)) != 0) {
        got += n;
        highest = events[n - 1].address;
    }
    assert_int_equal(got, highest);
    assert_true(got == count || got == count + 1); /* + 1: recorded, killed before it could say so */
    assert_int_equal(stats_of(j).head, stats_of(j).tail);
    vs_journal_close(j);
    close(told[0]);
}

static void read_only_peek_changes_nothing(void **state)
{
    struct vs_journal *j = create(64), *r;
    add(j, 1);
    assert_int_equal(vs_journal_open(&r, path, false), 0);
    assert_int_equal(vs_journal_peek(r, events, seqs, 10, true), 1);
    vs_journal_release(r, 1);
    assert_int_equal(vs_journal_peek(r, events, seqs, 10, true), 1);
    assert_int_equal(vs_journal_string(r, "x", 1), 0);
    vs_journal_close(r);
    vs_journal_close(j);
}

static void use_everything(struct vs_journal *j)
{
    size_t n;
    int rounds = 0;
    while ((n = take_all(j, true)) != 0 && rounds++ < 100)
        ;
    for (uint32_t id = 0; id < 20000; id += 7) {
        size_t length;
        const char *s = vs_journal_get_string(j, id, &length);
        assert_true(!s || strlen(s) <= length);
        vs_journal_get_thread(j, id);
        vs_journal_get_context(j, id);
        vs_journal_get_device(j, id);
        vs_journal_get_module(j, id);
        vs_journal_get_frame(j, id);
        vs_journal_get_stack(j, id);
    }
    vs_journal_fact(j, "host");
    vs_journal_owner_alive(j);
}

static void foreign_and_truncated_files_are_refused(void **state)
{
    struct vs_journal *j;
    assert_int_equal(vs_journal_open(&j, "/nonexistent", false), -ENOENT);
    assert_int_equal(vs_journal_open(&j, "/tmp", false), -EINVAL);
    assert_int_equal(vs_journal_open(&j, "/dev/null", false), -EINVAL);
    assert_int_equal(vs_journal_open(&j, "/proc/self/exe", false), -EINVAL);
    j = create(64);
    off_t full = (off_t)j->file_bytes;
    vs_journal_close(j);
    for (off_t size = 0; size < full; size += full / 50 + 1) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(vs_journal_open(&j, path, true), -EINVAL);
        unlink(path);
        vs_journal_close(create(64));
    }
    int fd = open(path, O_RDWR);
    uint32_t newer = VS_JOURNAL_FORMAT + 1;
    assert_int_equal(pwrite(fd, &newer, 4, offsetof(struct vs_journal_header, format)), 4);
    close(fd);
    assert_int_equal(vs_journal_open(&j, path, true), -EPROTO);
    fd = open(path, O_RDWR);
    uint32_t older = VS_JOURNAL_FORMAT - 1;
    assert_int_equal(pwrite(fd, &older, 4, offsetof(struct vs_journal_header, format)), 4);
    close(fd);
    assert_int_equal(vs_journal_open(&j, path, true), -ENOTSUP);
}

static void a_named_frame_is_told_from_an_address_and_from_its_other_lines(void **state)
{
    struct vs_journal *j = create(64);
    uint32_t function = vs_journal_string(j, "f", 1), file = vs_journal_string(j, "/m.py", 5);
    uint32_t frame = vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 12);
    /* an address whose bits are the same */
    uint32_t address = vs_journal_frame(j, (uint64_t)file << 32 | function, 12);
    assert_int_not_equal(frame, 0);
    assert_int_not_equal(frame, address);
    assert_int_not_equal(frame, vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 13));
    assert_int_equal(frame, vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, 12));
    assert_int_equal(vs_journal_named_frame(j, VS_FRAME_PYTHON, 0, file, 12), 0);
    vs_journal_close(j);
    assert_int_equal(vs_journal_open(&j, path, false), 0);
    const struct vs_frame_row *row = vs_journal_get_frame(j, frame);
    assert_int_equal(row->kind, VS_FRAME_PYTHON);
    assert_int_equal(row->line, 12);
    assert_string_equal(vs_journal_get_string(j, row->function, NULL), "f");
    assert_string_equal(vs_journal_get_string(j, row->file, NULL), "/m.py");
    assert_int_equal(vs_journal_get_frame(j, address)->kind, VS_FRAME_ADDRESS);
    vs_journal_close(j);
}

static void damaged_headers_and_tables_never_crash_a_reader(void **state)
{
    struct vs_journal *j = create(64);
    for (uint64_t i = 0; i < 40; i++)
        add(j, i);
    vs_journal_string(j, "hello", 5);
    vs_journal_set_fact(j, "host", "here");
    size_t bytes = j->file_bytes;
    unsigned char *copy = malloc(bytes);
    memcpy(copy, j->header, bytes);
    vs_journal_close(j);
    srand(1);
    int opened = 0;
    for (int round = 0; round < 1500; round++) {
        int fd = open(path, O_RDWR);
        assert_int_equal(pwrite(fd, copy, sizeof(struct vs_journal_header), 0),
                         sizeof(struct vs_journal_header));
        size_t limit = round % 3 ? sizeof(struct vs_journal_header) : bytes;
        for (int k = 0; k < 3; k++) {
            uint64_t junk = (uint64_t)rand() << (rand() % 40);
            size_t at = (size_t)rand() % (limit - 8);
            assert_int_equal(pwrite(fd, &junk, 1 + (size_t)rand() % 8, (off_t)at) > 0, 1);
        }
        close(fd);
        if (vs_journal_open(&j, path, true) == 0) {
            opened++;
            use_everything(j);
            vs_journal_close(j);
        }
    }
    assert_true(opened > 100);
    free(copy);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(events_come_back_in_order_and_only_once_released),
        T(laps_reuse_the_slots),
        T(a_full_ring_waits_a_millisecond_once_then_drops_and_counts_until_half_empty),
        T(events_just_recorded_can_be_looked_back_at_and_no_longer_after_a_lap),
        T(try_append_never_waits),
        T(the_last_eighth_of_the_ring_takes_ends_only_and_a_lost_end_is_counted_with_its_place),
        T(the_free_of_an_allocation_that_was_dropped_takes_no_room_and_is_no_lost_end),
        T(an_address_is_forgotten_once_it_is_recorded_as_allocated_again),
        T(a_blocks_tensor_does_not_keep_its_dropped_address),
        T(a_refused_allocation_that_was_dropped_leaves_nothing_to_free),
        T(more_dropped_allocations_than_can_be_remembered_cost_room_and_nothing_else),
        T(threads_that_allocate_and_free_against_a_slow_drain_never_seem_to_hold_more_than_they_do),
        T(slots_not_yet_handed_back_are_not_claimed_though_the_tail_has_passed_them),
        T(every_field_of_an_event_comes_through),
        T(a_thread_cancelled_between_claim_and_publication_costs_its_own_event_only),
        T(a_ring_full_up_to_a_dead_slot_still_moves_on),
        T(a_writer_that_comes_back_to_a_killed_slot_is_told_and_counted),
        T(a_place_claimed_without_the_journal_is_checked_the_same_way_when_it_was_killed),
        T(longjmp_out_of_a_half_written_slot_is_survived),
        T(every_accepted_event_of_every_thread_arrives_once),
        T(threads_interning_the_same_keys_agree_on_the_ids),
        T(a_named_frame_is_told_from_an_address_and_from_its_other_lines),
        T(rows_are_kept_and_keys_interned),
        T(what_blocks_were_asked_for_as_is_kept_once_and_exactly),
        T(a_damaged_row_of_tensors_is_not_read_beyond_its_table),
        T(a_full_table_of_tensors_keeps_bytes_and_types_a_while_longer),
        T(full_tables_answer_none_and_are_counted),
        T(facts_can_be_set_changed_and_read_after_reopening),
        T(nothing_is_overwritten_and_a_full_disk_is_an_error_not_a_signal),
        T(a_limit_on_file_sizes_is_an_error_not_a_signal),
        T(a_killed_process_leaves_every_event_that_it_was_told_of),
        T(read_only_peek_changes_nothing),
        T(foreign_and_truncated_files_are_refused),
        T(damaged_headers_and_tables_never_crash_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
