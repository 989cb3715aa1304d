/* test_lives.c - the blocks alive after each event add up to what is allocated then. */

#include "unit/test.h"
#include "unit/trace/store/job_kit.h"
#include "read/lives.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t moment;

/* Returns the event's number. */
static uint64_t happens(struct job *job, struct vs_event e)
{
    e.space = VS_SPACE_DEVICE;
    e.t_ns = 500 + ++moment * 1000;
    e.thread = 1;
    return vs_journal_append(job->j, &e);
}

static void fails(struct job *job, uint64_t free, uint64_t address)
{
    happens(job, (struct vs_event){.op = VS_OP_FREE_FAILED, .address = address, .arg0 = free, .status = 999});
}

/* Freed twice in vain, and then in earnest. */
static void frees(struct job *job, struct vs_event free)
{
    for (int i = 0; i < 2; i++)
        fails(job, happens(job, free), free.address);
    happens(job, free);
}

static void one_allocation(struct job *job)
{
    happens(job, (struct vs_event){.op = VS_OP_ALLOC, .address = 0x10000000, .size = 2 * MIB});
    happens(job, (struct vs_event){.op = VS_OP_ALLOC, .address = 0x20000000, .size = 4 * MIB});
    frees(job, (struct vs_event){.op = VS_OP_FREE, .address = 0x10000000});
    happens(job, (struct vs_event){.op = VS_OP_ALLOC, .address = 0x10000000, .size = MIB});
}

/* One call ends three, which were released while they were mapped. */
static void three_mapped(struct job *job)
{
    for (uint64_t i = 0; i < 3; i++) {
        happens(job,
                (struct vs_event){.op = VS_OP_PHYS_CREATE, .address = 0x70 + i, .size = (2 + 2 * i) * MIB});
        happens(job, (struct vs_event){.op = VS_OP_MAP,
                                       .address = 0x10000000 + i * 8 * MIB,
                                       .size = (2 + 2 * i) * MIB,
                                       .arg0 = 0x70 + i});
        happens(job, (struct vs_event){.op = VS_OP_PHYS_RELEASE, .address = 0x70 + i});
    }
    frees(job, (struct vs_event){.op = VS_OP_UNMAP, .address = 0x10000000, .size = 24 * MIB});
    happens(job, (struct vs_event){.op = VS_OP_ALLOC, .address = 0x20000000, .size = 4 * MIB});
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

/* After each event of WHAT the blocks add up to what is allocated; of BLOCKS, where one that was brought back
 * is a block of its own, COUNT live at the end. */
static void add_up(void (*what)(struct job *job), size_t blocks, size_t count, int64_t allocated)
{
    struct job job;
    struct trace t;
    struct trace_lives l;
    size_t alive = 0;
    moment = 0;
    job_open(&job, "lives");
    what(&job);
    drain(&job);
    job_close(&job);
    assert_int_equal(trace_open(&t, job.db), 0);
    assert_int_equal(trace_lives(&t, 0, &l), 0);
    for (size_t i = 0; i < l.change_count; i++)
        assert_int_equal(alive_after(&l, i), l.changes[i].allocated);
    assert_int_equal(l.changes[l.change_count - 1].allocated, allocated);
    assert_int_equal(l.block_count, blocks);
    for (size_t i = 0; i < l.block_count; i++)
        alive += l.blocks[i].died == UNKNOWN;
    assert_int_equal(alive, count);
    trace_free_lives(&l);
    trace_close(&t);
}

TEST(a_block_whose_free_failed_twice_lives_until_it_is_freed, make_dir, drop_dir)
{
    add_up(one_allocation, 5, 2, 5 * MIB);
}

TEST(all_that_a_failed_unmap_would_have_ended_lives_on, make_dir, drop_dir)
{
    add_up(three_mapped, 10, 1, 4 * MIB);
}
