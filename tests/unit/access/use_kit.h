/*
 * use_kit.h - a recording whose ring holds 64 events, blocks in it, and uses of them.
 *
 * begin() makes it before each test.  born() and died() make and free a block, which a test finds the row of
 * in what died() returns; take() takes the ring's events out, as the writer does.
 */
#ifndef TESTS_UNIT_ACCESS_USE_KIT_H
#define TESTS_UNIT_ACCESS_USE_KIT_H

#include <unistd.h>

#include "unit/says.h"
#include "access/kernels.h"
#include "record/block.h"
#include "record/record.h"
#include "trace/uses/uses.h"

#define BASE UINT64_C(0x7f3300000000)

static struct vs_journal *j;
static struct vs_uses *uses;
static uint64_t taken; /* the last event's sequence */
static uint32_t row_of_free;
static uint32_t range;
static bool autograd;

/* stand in for the recording */
uint32_t vs_record_range(void)
{
    return range;
}
bool vs_record_thread_is_autograd(void)
{
    return autograd;
}

void vs_record_uses_nudge(void) {}

/* Takes the ring's events, as the writer does. */
static inline void take(void)
{
    struct vs_event e[64];
    uint64_t seq[64];
    struct vs_journal_stats stats;
    size_t n = vs_journal_peek(j, e, seq, 64, false);
    vs_journal_stats(j, &stats);
    vs_uses_missing(uses, stats.head);
    for (size_t i = 0; i < n; i++) {
        vs_uses_apply(uses, &e[i], seq[i]);
        if (e[i].op == VS_OP_FREE || e[i].op == VS_OP_BLOCK_FREE)
            row_of_free = e[i].stack;
        taken = seq[i];
    }
    vs_journal_release(j, taken);
}

static inline int begin(void **state)
{
    char path[64];
    struct vs_journal_config c = {.ring_slots = 64, .accesses = 100, .database = "/nowhere.db"};
    vs_uses_free(uses);
    if (j != NULL)
        vs_journal_close(j);
    snprintf(path, sizeof path, "/tmp/vs-use-%d.vsj", (int)getpid());
    if (vs_journal_create(&j, path, &c) != 0)
        return -1;
    unlink(path);
    range = 0;
    autograd = false;
    vs_access_begin(j);
    vs_kernels_reset();
    return vs_uses_open(&uses, j, 0);
}

static uint64_t now = 1000;

static inline void put(struct vs_event e)
{
    e.t_ns = now++;
    vs_access_before(&e);
    vs_access_after(&e, vs_journal_append(j, &e));
}

static inline void record(struct vs_event e)
{
    put(e);
    take();
}

static inline void born(uint8_t op, uint64_t address, uint64_t size)
{
    record((struct vs_event){
        .op = op, .space = op == VS_OP_ALLOC ? VS_SPACE_DEVICE : 0, .address = address, .size = size});
}

/* The row that the free of the block names. */
static inline const struct vs_access_row *died(uint8_t op, uint64_t address)
{
    take();
    record((struct vs_event){.op = op, .address = address});
    return vs_journal_access(j, row_of_free);
}

static inline void push(uint32_t id, const char *phase)
{
    record((struct vs_event){.op = VS_OP_RANGE_PUSH,
                             .range = id,
                             .address = vs_journal_string(j, phase, strlen(phase)),
                             .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
    range = id;
}

static inline void use(uint64_t word, uint64_t at, uint32_t name)
{
    struct vs_use u = vs_use_begin(name, VS_ACCESS_KERNEL);
    u.now = at;
    vs_use_word(&u, word, true);
}

#endif
