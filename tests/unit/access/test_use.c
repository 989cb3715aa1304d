/* test_use.c - use.c and trace/uses: what a use leaves in its block's row, by way of the ring. */
#include <sys/mman.h>

#include "use_kit.h"

TEST(the_row_has_first_last_longest_pause_steps_and_phases, begin)
{
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    push(1, "forward");
    use(BASE + 100, 2000, 11);
    use(BASE, 2500, 12);
    record((struct vs_event){.op = VS_OP_STEP});
    push(2, "backward");
    use(BASE + 4095, 9000, 13);
    use(BASE + 4096, 9500, 14); /* behind it */
    record((struct vs_event){.op = VS_OP_STEP, .arg0 = 2});
    push(3, "mine");
    use(BASE, 9100, 15);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    SAYS(r, .uses = 4, .first_ns = 2000, .first_name = 11, .first_step = 1, .last_ns = 9100, .last_name = 15,
         .last_step = 5, .end_step = 5, .steps = 3, .gap_ns = 6500, .gap_end_ns = 9000,
         .phases = VS_ACCESS_IN_FORWARD | VS_ACCESS_IN_BACKWARD | VS_ACCESS_IN_OTHER);
    assert_string_equal(vs_journal_get_string(j, r->first_phase, NULL), "forward");
    assert_string_equal(vs_journal_get_string(j, r->last_phase, NULL), "mine");
}

TEST(two_words_of_one_launch_are_one_use, begin)
{
    uint64_t words[3] = {BASE, BASE + 512, BASE + 8};
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    struct vs_use_batch batch;
    vs_use_batch_begin(&batch);
    vs_use_words(&u, &batch, words, 3, true);
    vs_use_flush(&u, &batch);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
}

/* Two pages 128 GiB apart share a bit, so the second block finds it set. */
TEST(a_block_on_a_page_that_shares_its_bit_is_seen, begin)
{
    const uint64_t shares = BASE + (UINT64_C(128) << 30);
    uint64_t words[3] = {shares, 7, UINT64_MAX >> 1};
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    born(VS_OP_BLOCK_ALLOC, shares - (UINT64_C(2) << 30), 4096);
    record((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = shares, .size = 4096});
    vs_pages_reset();
    vs_pages_block(BASE, 4096);
    vs_pages_block(shares - (UINT64_C(2) << 30), 4096);
    vs_pages_block(shares, 4096);
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    struct vs_use_batch batch;
    vs_use_batch_begin(&batch);
    vs_use_words(&u, &batch, words, 3, true);
    assert_int_equal(batch.n, 1);
    vs_use_flush(&u, &batch);
    assert_int_equal(died(VS_OP_BLOCK_FREE, shares)->uses, 1);
}

TEST(a_block_inside_an_allocation_is_meant_before_it, begin)
{
    born(VS_OP_ALLOC, BASE, 1 << 20);
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    use(BASE + 10, 2000, 1);
    use(BASE + 8192, 2001, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
    assert_int_equal(died(VS_OP_FREE, BASE)->uses, 1);
}

TEST(a_thread_of_autograd_without_a_range_is_backward, begin)
{
    autograd = true;
    born(VS_OP_BLOCK_ALLOC, BASE, 4096);
    use(BASE, 2000, 1);
    const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, BASE);
    assert_int_equal(r->phases, VS_ACCESS_IN_BACKWARD);
    assert_string_equal(vs_journal_get_string(j, r->first_phase, NULL), "backward");
}

TEST(more_blocks_than_rows_are_not_followed_and_do_no_harm, begin)
{
    for (uint64_t i = 0; i < 150; i++)
        born(VS_OP_BLOCK_ALLOC, BASE + i * 512, 512);
    use(BASE + 140 * 512, 2000, 1);
    assert_null(died(VS_OP_BLOCK_FREE, BASE + 140 * 512));
    assert_non_null(died(VS_OP_BLOCK_FREE, BASE + 40 * 512));
}

/* Nothing is said to be idle that may have been used by what was lost. */
TEST(blocks_of_uses_that_a_full_ring_loses_are_not_said_to_be_followed, begin)
{
    struct vs_journal_stats stats;
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    for (uint64_t i = 0; i < 60; i++)
        use(BASE, 2000 + i, 1);
    vs_journal_stats(j, &stats);
    assert_int_equal(stats.lost, 0); /* no event was */
    put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + 512, .size = 512});
    put((struct vs_event){.op = VS_OP_BLOCK_FREE, .address = BASE});
    put((struct vs_event){.op = VS_OP_BLOCK_ALLOC, .address = BASE + 1024, .size = 512});
    take();
    assert_true(vs_journal_access(j, row_of_free)->uses < 60);
    assert_true(vs_journal_access(j, row_of_free)->kinds & VS_ACCESS_PARTIAL);
    born(VS_OP_BLOCK_ALLOC, BASE + 1536, 512);
    use(BASE + 1536, 9000, 1);
    assert_true(died(VS_OP_BLOCK_FREE, BASE + 512)->kinds & VS_ACCESS_PARTIAL);
    assert_true(died(VS_OP_BLOCK_FREE, BASE + 1024)->kinds & VS_ACCESS_PARTIAL);
    const struct vs_access_row *later = died(VS_OP_BLOCK_FREE, BASE + 1536);
    SAYS(later, .uses = 1, .kinds = VS_ACCESS_KERNEL);
}

TEST(words_on_pages_without_blocks_are_not_put_into_the_ring, begin)
{
    struct vs_journal_stats before, after;
    born(VS_OP_BLOCK_ALLOC, BASE, 3 << 21);
    vs_journal_stats(j, &before);
    use(BASE + (3 << 21), 2000, 1);
    use(BASE - 1, 2000, 1);
    use(17, 2000, 1);
    use(UINT64_MAX, 2000, 1);
    vs_journal_stats(j, &after);
    assert_int_equal(after.head, before.head);
    use(BASE + (3 << 21) - 1, 2000, 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->uses, 1);
}

TEST(addresses_that_the_host_copies_are_stored_and_bad_memory_is_not_read, begin)
{
    static uint64_t table[2000];
    void *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    born(VS_OP_BLOCK_ALLOC, BASE, 512);
    born(VS_OP_BLOCK_ALLOC, BASE + 512, 512);
    struct vs_use u = vs_use_begin(1, 0);
    table[1999] = BASE + 17;
    vs_use_copy(&u, BASE + 4096, sizeof table, &VS_BOX_FLAT((uintptr_t)table, sizeof table));
    take();
    uint32_t reached = vs_journal_access_state(j)->reach;
    vs_use_copy(&u, BASE + 4096, 4096, &VS_BOX_FLAT((uintptr_t)unreadable, 4096));
    take();
    assert_int_equal(vs_journal_access_state(j)->reach, reached + 1);
    assert_int_equal(died(VS_OP_BLOCK_FREE, BASE)->kinds, VS_ACCESS_STORED | VS_ACCESS_REACHABLE);
    munmap(unreadable, 4096);
}

/* ---- parameters ---- */
