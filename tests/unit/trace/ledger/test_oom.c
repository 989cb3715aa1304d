/*
 * test_oom.c - out-of-memory in the ledger: the live set at that moment, to the byte, and whether the
 * driver's refusal reached the program.
 */
#include "ledger_kit.h"

#define REFUSED 2 /* CUDA_ERROR_OUT_OF_MEMORY */

static void refuse(struct kit *k, uint8_t space, uint64_t size)
{
    feed(k,
         (struct vs_event){.op = VS_OP_ALLOC, .space = space, .size = size, .arg1 = 10, .status = REFUSED});
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

static struct vs_oom_row rows[256];

static const struct vs_oom_row *with_role(struct kit *k, uint8_t role, int device)
{
    size_t n = vs_ledger_ooms(k->l, rows, 256);
    for (size_t i = 0; i < n; i++)
        if (rows[i].roles & role && rows[i].device == device)
            return &rows[i];
    return NULL;
}

static size_t kept(struct kit *k)
{
    return vs_ledger_ooms(k->l, rows, 256);
}

/* ---- the live set ---- */

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

TEST(set_at_a_direct_allocation_that_later_is_managed_has_it_once, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x9000000, 4 * MIB);
    k->t += 100000000; /* long enough to be held for direct */
    refuse(k, VS_SPACE_DEVICE, 7);
    k->t += 100000000;
    k->thread = 5;
    k->reserved += 4 * MIB;
    block(k, 0x9000000, MIB); /* a block in it: reclassified */
    finish(k);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, 0);
    assert_int_equal(o->direct, 4 * MIB);
    assert_int_equal(set_at(k, o->seq).bytes, 4 * MIB);
    assert_int_equal(set_at(k, o->seq).n, 1);
}

TEST(host_memory_that_ran_out_is_answered_by_host_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    k->device = -1;
    alloc_in(k, VS_SPACE_PINNED, 0x5000, 4096);
    uint64_t ring = alloc_in(k, VS_SPACE_REGISTERED, 0x8000, 8192);
    assert_true(ring);
    refuse(k, VS_SPACE_PINNED, 1ull << 40);
    finish(k);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, -1);
    assert_non_null(o);
    assert_int_equal(o->pinned, 4096);
    assert_int_equal(o->registered, 8192);
    assert_int_equal(set_at(k, o->seq).bytes, 12288);
}

/* ---- absorbed or not ---- */

TEST(refusal_that_the_framework_lives_with_is_no_out_of_memory_of_the_programs, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k, 0x1000000, 20 * MIB);
    block(k, 0x1000000, MIB);
    segment(k, 0x4000000, 20 * MIB);
    block(k, 0x4000000, MIB);
    unblock(k, 0x4000000, MIB);
    refuse(k, VS_SPACE_DEVICE, 24 * MIB);
    k->reserved -= 20 * MIB;
    release(k, 0x4000000); /* its cache */
    refuse(k, VS_SPACE_DEVICE, 24 * MIB);
    segment(k, 0x7000000, 24 * MIB);
    block(k, 0x7000000, 23 * MIB);
    finish(k);
    assert_int_equal(kept(k), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED), 2);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 2);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_REPORTED), 0);
}

TEST(refusal_that_the_framework_reports_is_one_out_of_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k, 0x1000000, 20 * MIB);
    block(k, 0x1000000, MIB);
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    feed(k, (struct vs_event){.op = VS_OP_SAMPLE, .address = 99, .size = 1000, .arg0 = VS_SAMPLE_OOM});
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    feed(k, (struct vs_event){.op = VS_OP_SAMPLE, .address = 100, .size = 1001, .arg0 = VS_SAMPLE_OOM});
    give_up(k, 63 * MIB);
    finish(k);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, 0);
    assert_int_equal(kept(k), 1);
    assert_int_equal(o->roles, VS_OOM_FIRST | VS_OOM_LAST | VS_OOM_LARGEST);
    assert_int_equal(o->op, VS_OP_BLOCK_OOM);
    assert_int_equal(o->refusals, 2);
    assert_int_equal(o->requested, 63 * MIB);
    assert_int_equal(o->asked_driver, 64 * MIB);
    assert_int_equal(o->free_bytes, 100);
    assert_int_equal(o->device_used, 1001);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_REPORTED), 2);
    assert_int_equal(k->out.samples.n, 0); /* no point of the curve */
}

TEST(framework_out_of_memory_without_a_refusal_says_that_the_driver_was_not_asked, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k, 0x1000000, 20 * MIB);
    block(k, 0x1000000, MIB);
    give_up(k, 63 * MIB);
    finish(k);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->refusals, 0);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->asked_driver, 0);
    assert_true(with_role(k, VS_OOM_LAST, 0)->free_bytes == VS_BYTES_UNKNOWN);
}

/* Whatever the thread does that a caching allocator would not: the program has got the error. */
static void refusal_reached_the_program_when(struct kit *k, void (*then)(struct kit *))
{
    segment(k, 0x1000000, 20 * MIB);
    block(k, 0x1000000, MIB);
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    assert_true(kept(k) == 1 && with_role(k, VS_OOM_OPEN_LAST, 0));
    then(k);
    vs_ledger_flush(k->l, &k->out);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, 0);
    assert_non_null(o);
    assert_int_equal(o->requested, 64 * MIB);
    assert_null(with_role(k, VS_OOM_OPEN_LAST, 0));
}

static void range_follows(struct kit *k)
{
    push(k, 1, VS_PHASE_FORWARD, 0);
}
static void step_follows(struct kit *k)
{
    feed(k, (struct vs_event){.op = VS_OP_STEP});
}
static void block_follows(struct kit *k)
{
    block(k, 0x1200000, MIB);
}
static void other_size_follows(struct kit *k)
{
    grant(k, 0x9000000, 32 * MIB);
}
static void other_refusal_follows(struct kit *k)
{
    refuse(k, VS_SPACE_POOL, 64 * MIB);
    push(k, 1, VS_PHASE_FORWARD, 0);
}
static void report_of_more_follows(struct kit *k)
{
    give_up(k, 65 * MIB);
    assert_int_equal(with_role(k, VS_OOM_LAST, 0)->requested, 65 * MIB);
    assert_int_equal(with_role(k, VS_OOM_FIRST, 0)->requested, 64 * MIB);
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
}
static void nothing_follows(struct kit *k)
{
    finish(k);
}

TEST(refusal_reached_the_program_when_its_thread_goes_on_otherwise)
{
    void (*const then[])(struct kit *) = {range_follows,      step_follows,          block_follows,
                                          other_size_follows, other_refusal_follows, nothing_follows};
    for (size_t i = 0; i < sizeof then / sizeof *then; i++) {
        struct kit *k;
        kit_setup((void **)&k);
        refusal_reached_the_program_when(k, then[i]);
        assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 0);
        kit_teardown((void **)&k);
    }
}

TEST(report_of_more_than_was_refused_is_another_out_of_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    report_of_more_follows(k);
}

TEST(same_size_granted_to_somebody_else_absorbs_nothing, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    grant(k, 0x9000000, 64 * MIB); /* on the same thread: but no framework carves it */
    k->thread = 2;
    segment(k, 0x20000000, 64 * MIB); /* a framework's, on another thread */
    block(k, 0x20000000, MIB);
    finish(k);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 0);
    assert_non_null(with_role(k, VS_OOM_LAST, 0));
}

TEST(retry_that_is_known_as_managed_late_absorbs_as_well, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k, 0x1000000, 20 * MIB);
    block(k, 0x1000000, MIB);
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    segment(k, 0x9000000, 64 * MIB);
    k->t += 100000000;
    k->thread = 2;
    unblock(k, 0x1000000, MIB); /* time passes: held for direct */
    vs_ledger_flush(k->l, &k->out);
    k->thread = 1;
    block(k, 0x9000000, 63 * MIB);
    finish(k);
    assert_int_equal(kept(k), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 1);
}

TEST(what_the_driver_refused_and_the_arena_gave_then_is_absorbed, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    feed(k, (struct vs_event){.op = VS_OP_ARENA_RESERVED, .space = VS_SPACE_ARENA, .size = 64 * MIB});
    k->reserved += 64 * MIB;
    feed(k,
         (struct vs_event){
             .op = VS_OP_ALLOC, .space = VS_SPACE_ARENA, .address = 0x9000000, .size = 64 * MIB, .arg1 = 10});
    block(k, 0x9000000, 63 * MIB);
    finish(k);
    assert_int_equal(kept(k), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 1);
}

TEST(expandable_segments_absorb_too, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    vmm(k, VS_OP_VA_RESERVE, 0x10000000, 512 * MIB, 0);
    for (int i = 0; i < 3; i++) {
        feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE,
                                  .space = VS_SPACE_DEVICE,
                                  .address = (uint64_t)(100 + i),
                                  .size = 20 * MIB,
                                  .arg0 = 1ull << 32,
                                  .arg1 = 42,
                                  .status = i == 0 ? REFUSED : 0});
        if (i)
            vmm(k, VS_OP_MAP, 0x10000000 + (uint64_t)i * 20 * MIB, 20 * MIB, (uint64_t)(100 + i));
    }
    k->reserved = 40 * MIB;
    block(k, 0x10000000 + 20 * MIB, 39 * MIB);
    finish(k);
    assert_int_equal(kept(k), 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_REFUSED_ABSORBED), 1);
}

/* ---- bounds ---- */

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

TEST(of_equal_requests_the_first_is_the_largest_whoever_tells_first, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    for (uint16_t thread = 1; thread <= 2; thread++) {
        k->thread = thread;
        refuse(k, VS_SPACE_DEVICE, 64 * MIB);
    }
    alloc(
        k, 0x9000000,
        512); /* thread 2 goes on: its refusal is known to have reached the program before that of thread 1 */
    finish(k);
    assert_int_equal(with_role(k, VS_OOM_LARGEST, 0)->seq, with_role(k, VS_OOM_FIRST, 0)->seq);
    assert_true(with_role(k, VS_OOM_LARGEST, 0)->seq < with_role(k, VS_OOM_LAST, 0)->seq);
}

TEST(figures_of_the_driver_come_along_with_their_time, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    feed(k, (struct vs_event){.op = VS_OP_SAMPLE, .size = 700, .arg0 = VS_SAMPLE_NVML_PROCESS});
    feed(k, (struct vs_event){.op = VS_OP_SAMPLE, .size = 900, .arg0 = VS_SAMPLE_NVML_DEVICE});
    give_up(k, MIB);
    finish(k);
    const struct vs_oom_row *o = with_role(k, VS_OOM_LAST, 0);
    assert_int_equal(o->process_used, 700);
    assert_int_equal(o->device_used, 900);
    assert_int_equal(o->process_used_t, 1000);
    assert_int_equal(o->step, 1);
}
