/*
 * test_journal_access.c - journal/uses.c: a row is one block's at a time, and none is lost, whoever takes
 * and gives.
 */
#include <pthread.h>
#include <unistd.h>

#include "unit/test.h"
#include "trace/journal/journal.h"

#define ROWS 500

static struct vs_journal *journal(uint32_t accesses)
{
    char path[64];
    struct vs_journal *j;
    struct vs_journal_config c = {.ring_slots = 64, .accesses = accesses, .database = "/nowhere.db"};
    snprintf(path, sizeof path, "/tmp/vs-access-%d.vsj", (int)getpid());
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    unlink(path);
    return j;
}

TEST(without_a_table_there_is_no_row)
{
    struct vs_journal *j = journal(0);
    assert_int_equal(vs_journal_access_take(j), 0);
    assert_null(vs_journal_access(j, 0));
    assert_null(vs_journal_access(j, 1));
    vs_journal_access_give(j, 1);
    assert_int_equal(vs_journal_access_take(j), 0);
    vs_journal_close(j);
}

TEST(every_row_is_handed_out_once_and_again_when_it_is_back)
{
    struct vs_journal *j = journal(ROWS);
    static uint8_t taken[ROWS];
    for (int round = 0; round < 3; round++) {
        uint32_t id, n = 0;
        for (int i = 0; i < ROWS; i++)
            taken[i] = 0;
        while ((id = vs_journal_access_take(j)) != 0) {
            assert_true(id < ROWS && !taken[id]++);
            n++;
        }
        assert_int_equal(n, ROWS - 1); /* row 0 is no row */
        assert_int_equal(vs_journal_access_rows(j), ROWS);
        for (uint32_t i = 1; i < ROWS; i++)
            vs_journal_access_give(j, i);
    }
    vs_journal_close(j);
}

TEST(a_row_that_is_back_is_nobodys)
{
    struct vs_journal *j = journal(ROWS);
    uint32_t id = vs_journal_access_take(j);
    *vs_journal_access(j, id) = (struct vs_access_row){.address = 4096, .end = 8192};
    vs_journal_access_give(j, id);
    assert_int_equal(vs_journal_access(j, id)->address, 0);
    assert_int_equal(vs_journal_access(j, id)->end, 0);
    vs_journal_close(j);
}

#define THREADS 4

static struct vs_journal *shared;
static _Atomic uint32_t owner[ROWS];

static void *work(void *own)
{
    for (int i = 0; i < 200000; i++) {
        uint32_t id = vs_journal_access_take(shared), nobody = 0;
        if (id == 0)
            continue;
        if (!atomic_compare_exchange_strong(&owner[id], &nobody, (uint32_t)(uintptr_t)own))
            return own; /* two had it */
        atomic_store(&owner[id], 0);
        vs_journal_access_give(shared, id);
    }
    return NULL;
}

TEST(threads_never_have_the_same_row)
{
    pthread_t thread[THREADS];
    void *bad;
    uint32_t n = 0;
    shared = journal(6); /* few, so that they meet */
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
    while (vs_journal_access_take(shared) != 0)
        n++;
    assert_int_equal(n, 5);
    vs_journal_close(shared);
}
