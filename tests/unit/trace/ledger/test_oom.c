/*
 * test_oom.c - out-of-memory in the ledger: the live set at that moment, to the byte, and whether the
 * driver's refusal reached the program.
 */
#include "ledger_story.h"

#define REFUSED_STATUS 2 /* CUDA_ERROR_OUT_OF_MEMORY */

/* A framework's segment; and one with a refusal of the driver behind it, of which nobody knows more. */
#define SEGMENT "cached 20M; alloc 0x1000000 20M; block 0x1000000 1M;"
#define REFUSED SEGMENT "alloc 0 64M status=2; ooms 1; oom open_last requested=64M;"
#define REACHED "; flush; oom last requested=64M; decided; driver_out_of_memory_absorbed 0"

static const struct story stories[] = {
    {"set_at_a_direct_allocation_that_later_is_managed_has_it_once",
     "alloc 0x9000000 4M; later 100; alloc 0 7 status=2; later 100; thread 5; cached +4M; "
     "block 0x9000000 1M; finish; oom last direct=4M; lived @alloc 4M"},
    {"host_memory_that_ran_out_is_answered_by_host_memory",
     "device -1; alloc 0x5000 4K in=pinned; alloc 0x8000 8K in=registered; "
     "alloc 0 1024G in=pinned status=2; finish; oom last/-1 pinned=4K registered=8K; lived @alloc 12K"},
    /* ---- absorbed or not ---- */
    {"refusal_that_the_framework_lives_with_is_no_out_of_memory_of_the_programs",
     SEGMENT "cached +20M; alloc 0x4000000 20M; block 0x4000000 1M; unblock 0x4000000 1M; "
             "alloc 0 24M status=2; cached 20M; free 0x4000000; alloc 0 24M status=2; cached 44M; "
             "alloc 0x7000000 24M; block 0x7000000 23M; finish; ooms 0; driver_out_of_memory 2; "
             "driver_out_of_memory_absorbed 2; driver_out_of_memory_reported 0"},
    {"refusal_that_the_framework_reports_is_one_out_of_memory", SEGMENT
     "alloc 0 64M status=2; sample 1000 4 99; alloc 0 64M status=2; sample 1001 4 100; "
     "give_up 63M; finish; ooms 1; "
     "oom last roles=7 op=oom refusals=2 requested=63M asked_driver=64M free_bytes=100 device_used=1001; "
     "driver_out_of_memory_reported 2; samples 0"},
    {"framework_out_of_memory_without_a_refusal_says_that_the_driver_was_not_asked",
     SEGMENT "give_up 63M; finish; oom last refusals=0 asked_driver=0 free_bytes=unknown"},
    /* Whatever the thread does that a caching allocator would not: the program has got the error. */
    {"refusal_reached_the_program_when_its_thread_opens_a_range", REFUSED "push 1 forward 0" REACHED},
    {"refusal_reached_the_program_when_a_step_ends", REFUSED "step 0" REACHED},
    {"refusal_reached_the_program_when_its_thread_gets_a_block", REFUSED "block 0x1200000 1M" REACHED},
    {"refusal_reached_the_program_when_another_size_is_granted", REFUSED "alloc 0x9000000 32M" REACHED},
    {"refusal_reached_the_program_when_another_request_is_refused",
     REFUSED "alloc 0 64M in=pool status=2; push 1 forward 0" REACHED},
    {"refusal_reached_the_program_when_nothing_follows", REFUSED "finish" REACHED},
    {"report_of_more_than_was_refused_is_another_out_of_memory",
     "alloc 0 64M status=2; give_up 65M; oom last requested=65M; oom first requested=64M"},
    /* On the same thread, but no framework carves it; and a framework's, on another thread. */
    {"same_size_granted_to_somebody_else_absorbs_nothing",
     "alloc 0 64M status=2; alloc 0x9000000 64M; thread 2; cached +64M; alloc 0x20000000 64M; "
     "block 0x20000000 1M; finish; driver_out_of_memory_absorbed 0; oom last requested=64M"},
    {"retry_that_is_known_as_managed_late_absorbs_as_well",
     SEGMENT "alloc 0 64M status=2; cached +64M; alloc 0x9000000 64M; later 100; thread 2; "
             "unblock 0x1000000 1M; flush; thread 1; block 0x9000000 63M; finish; ooms 0; "
             "driver_out_of_memory_absorbed 1"},
    {"what_the_driver_refused_and_the_arena_gave_then_is_absorbed",
     "alloc 0 64M status=2; holds 64M; cached +64M; alloc 0x9000000 64M in=arena; block 0x9000000 63M; "
     "finish; ooms 0; driver_out_of_memory_absorbed 1"},
    {"expandable_segments_absorb_too",
     "reserve 0x10000000 512M; create 100 20M in=device status=2; create 101 20M in=device; "
     "map 0x10000000+20M 20M 101; create 102 20M in=device; map 0x10000000+40M 20M 102; cached 40M; "
     "block 0x10000000+20M 39M; finish; ooms 0; driver_out_of_memory_absorbed 1"},
    /* Thread 2's is known to have reached the program before that of thread 1. */
    {"of_equal_requests_the_first_is_the_largest_whoever_tells_first",
     "thread 1; alloc 0 64M status=2; thread 2; alloc 0 64M status=2; alloc 0x9000000 512; finish; "
     "oom first seq=1; oom largest seq=1; oom last seq=2"},
    {"figures_of_the_driver_come_along_with_their_time",
     "sample 700 1; sample 900 3; give_up 1M; finish; "
     "oom last process_used=700 device_used=900 process_used_t=1000 step=1"},
};
TELL(stories)

/* ---- whole sets, and bounds ---- */

struct set {
    uint64_t n, bytes, hash;
};

static uint64_t mix(const struct vs_alloc *a)
{
    uint64_t x = a->seq * 0x9e3779b97f4a7c15ull ^ a->address * 0xbf58476d1ce4e5b9ull ^ a->size;
    return (x ^ x >> 29) * 0x94d049bb133111ebull;
}

static void add(void *context, const struct vs_alloc *a)
{
    struct set *s = context;
    s->n++;
    s->bytes += a->size;
    s->hash += mix(a);
}

static struct set set_at(struct kit *k, uint64_t seq)
{
    struct set s = {0};
    vs_ledger_each_at_oom(k->l, seq, add, &s);
    return s;
}

struct living {
    struct set set;
    int device;
};

static void add_living(void *context, const struct vs_alloc *a)
{
    struct living *l = context;
    bool counts = a->op == VS_OP_BLOCK_ALLOC || (!a->managed && a->space == VS_SPACE_DEVICE);
    if (a->device == l->device && counts)
        add(&l->set, a);
}

static struct set living(struct kit *k, int device)
{
    struct living l = {.device = device};
    vs_ledger_each_live(k->l, add_living, &l);
    return l.set;
}

static void assert_same(struct set a, struct set b)
{
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.bytes, b.bytes);
    assert_true(a.hash == b.hash);
}

static void refuse(struct kit *k, uint8_t space, uint64_t size)
{
    feed(k, (struct vs_event){
                .op = VS_OP_ALLOC, .space = space, .size = size, .arg1 = 10, .status = REFUSED_STATUS});
}

static void grant(struct kit *k, uint64_t address, uint64_t size)
{
    feed(k, (struct vs_event){
                .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .address = address, .size = size, .arg1 = 10});
}

static void give_up(struct kit *k, uint64_t size)
{
    feed(k,
         (struct vs_event){.op = VS_OP_BLOCK_OOM, .size = size, .arg0 = k->framework, .arg1 = k->reserved});
}

static void segment(struct kit *k, uint64_t address, uint64_t size)
{
    k->reserved += size;
    grant(k, address, size);
}

static void finish(struct kit *k)
{
    vs_ledger_finish(k->l, &k->out);
}

TEST(set_is_what_lived_then_whatever_happens_later, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k, 0x1000000, 4 * MIB);
    block(k, 0x1000000, MIB);
    block(k, 0x1100000, MIB);
    alloc(k, 0x9000000, 12345);
    block(k, 0x1200000, 512); /* the direct one is decided */
    unblock(k, 0x1100000, MIB);
    give_up(k, 64 * MIB);
    struct set then = living(k, 0);
    unblock(k, 0x1000000, MIB);
    release(k, 0x9000000);
    block(k, 0x1000000, MIB);
    unblock(k, 0x1200000, 512);
    finish(k);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, 0);
    assert_non_null(o);
    assert_same(set_at(k, o->seq), then);
    assert_int_equal(then.bytes, MIB + 12345 + 512);
    assert_int_equal(o->framework + o->direct, then.bytes);
    assert_int_equal(o->requested, 64 * MIB);
    assert_int_equal(o->managed, 4 * MIB);
    assert_int_equal(o->reserved, 4 * MIB + 12345);
}

TEST(loop_keeps_the_first_the_last_and_the_largest, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    struct set first = {0}, largest = {0}, final = {0};
    segment(k, 0x1000000, 4096 * MIB);
    for (uint64_t i = 0; i < 5000; i++) {
        block(k, 0x1000000 + i * 512, 512);
        if (i % 3 == 2)
            unblock(k, 0x1000000 + (i - 1) * 512, 512);
        give_up(k, i == 1234 ? 900 * MIB : 100 * MIB + i);
        struct set now = living(k, 0);
        first = i == 0 ? now : first;
        largest = i == 1234 ? now : largest;
        final = now;
    }
    assert_int_equal(kept(k), 3);
    assert_same(set_at(k, with_role(k, VS_OOM_FIRST, 0)->seq), first);
    assert_same(set_at(k, with_role(k, VS_OOM_LARGEST, 0)->seq), largest);
    assert_same(set_at(k, with_role(k, VS_OOM_LAST, 0)->seq), final);
    assert_int_equal(with_role(k, VS_OOM_LARGEST, 0)->requested, 900 * MIB);
    assert_int_equal(count_of(k, 0, VS_COUNT_OOM), 5000);
}

TEST(same_refusal_again_and_again_keeps_its_first_and_its_last, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    for (uint64_t i = 0; i < 5000; i++) {
        alloc_in(k, VS_SPACE_PINNED, 0x1000 * (i + 1), 4096);
        k->thread = 2;
        refuse(k, VS_SPACE_DEVICE, 100 * MIB);
        k->thread = 1;
    }
    assert_true(kept(k) <= 2);
    finish(k);
    assert_int_equal(with_role(k, VS_OOM_FIRST, 0)->refusals, 1);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->refusals, 5000);
    assert_int_equal(with_role(k, VS_OOM_FIRST, 0)->pinned, 4096);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->pinned, 5000 * 4096);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED), 5000);
}

TEST(many_threads_refused_at_once_are_all_counted, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    for (uint16_t i = 0; i < 100; i++) {
        k->thread = (uint16_t)(i + 1);
        refuse(k, VS_SPACE_DEVICE, MIB + i);
    }
    assert_true(kept(k) <= 3 + 8);
    finish(k);
    assert_int_equal(with_role(k, VS_OOM_FIRST, 0)->requested, MIB);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->requested, MIB + 99);
    assert_int_equal(with_role(k, VS_OOM_LARGEST, 0)->requested, MIB + 99);
}
