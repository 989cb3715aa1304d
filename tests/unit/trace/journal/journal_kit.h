/*
 * journal_kit.h - a journal in a directory of its own for each test.
 *
 * T(test) runs a test between make_dir and drop_dir. take_all() fills `events` and `seqs` and hands the slots
 * back, as the drain does.
 */
#ifndef TESTS_UNIT_TRACE_JOURNAL_JOURNAL_KIT_H
#define TESTS_UNIT_TRACE_JOURNAL_JOURNAL_KIT_H

#include <unistd.h>

#include "unit/test.h"
#include "trace/journal/journal.h"

static char dir[64], path[96];

static inline int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs-journal-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/a.vsj", dir);
    return 0;
}

static inline int drop_dir(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static inline struct vs_journal *create(uint32_t slots)
{
    struct vs_journal_config c = {.ring_slots = slots, .database = "/tmp/x.db", .start_ns = 7};
    struct vs_journal *j = NULL;
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    return j;
}

static inline uint64_t add(struct vs_journal *j, uint64_t address)
{
    struct vs_event e = {.op = VS_OP_ALLOC, .address = address, .size = address * 2};
    return vs_journal_append(j, &e);
}

static struct vs_event events[4096];
static uint64_t seqs[4096];

static inline size_t take_all(struct vs_journal *j, bool final)
{
    size_t n = vs_journal_peek(j, events, seqs, 4096, final);
    if (n)
        vs_journal_release(j, seqs[n - 1]);
    return n;
}

static inline struct vs_journal_stats stats_of(struct vs_journal *j)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s;
}

#endif
