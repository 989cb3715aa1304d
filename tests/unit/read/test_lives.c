/* test_lives.c - the blocks alive after each event add up to what is allocated then. */

#include "unit/test.h"
#include "unit/trace/store/job_kit.h"
#include "read/lives.h"

#define MIB (UINT64_C(1) << 20)

/* FREE: the event that it is about.  Returns the event's number. */
static uint64_t happens(struct job *job, uint16_t op, uint64_t address, uint64_t size, uint64_t free)
{
    static uint64_t moment;
    struct vs_event e = {.op = op, .space = VS_SPACE_DEVICE, .address = address, .size = size, .arg0 = free};
    e.status = op == VS_OP_FREE_FAILED ? 999 : 0;
    e.t_ns = 500 + ++moment * 1000;
    e.thread = 1;
    return vs_journal_append(job->j, &e);
}

/* The same memory is freed twice in vain, and then in earnest. */
static void record(void)
{
    struct job job;
    job_open(&job, "lives");
    happens(&job, VS_OP_ALLOC, 0x10000000, 2 * MIB, 0);
    happens(&job, VS_OP_ALLOC, 0x20000000, 4 * MIB, 0);
    for (int i = 0; i < 2; i++) {
        uint64_t free = happens(&job, VS_OP_FREE, 0x10000000, 0, 0);
        happens(&job, VS_OP_FREE_FAILED, 0x10000000, 0, free);
    }
    happens(&job, VS_OP_FREE, 0x10000000, 0, 0);
    happens(&job, VS_OP_ALLOC, 0x10000000, MIB, 0);
    drain(&job);
    job_close(&job);
}

static int64_t alive_after(const struct trace_lives *l, size_t change)
{
    int64_t sum = 0;
    for (size_t i = 0; i <= change; i++) {
        const struct trace_change *c = &l->changes[i];
        if (c->what == CHANGE_BORN)
            sum += l->blocks[c->block].size;
        else if (c->what == CHANGE_DIED)
            sum -= l->blocks[c->block].size;
    }
    return sum;
}

TEST(a_block_whose_free_failed_twice_lives_until_it_is_freed, make_dir, drop_dir)
{
    struct trace t;
    struct trace_lives l;
    char path[300];
    size_t alive = 0;
    record();
    snprintf(path, sizeof path, "%s/lives.db", dir);
    assert_int_equal(trace_open(&t, path), 0);
    assert_int_equal(trace_lives(&t, 0, &l), 0);
    assert_int_equal(l.change_count, 8);
    for (size_t i = 0; i < l.change_count; i++)
        assert_int_equal(alive_after(&l, i), l.changes[i].allocated);
    assert_int_equal(l.changes[7].allocated, 5 * MIB);
    for (size_t i = 0; i < l.block_count; i++)
        alive += l.blocks[i].died == UNKNOWN;
    assert_int_equal(alive, 2);
    trace_free_lives(&l);
    trace_close(&t);
}
