/*
 * test_arena_queues.c - what the arena promises of queues: what one keeps for itself and what it lends,
 * streams that end, what is refused; one promise each.
 */
#include "arena_steps.h"

TEST(a_private_queue_lends_nothing_until_it_is_retired)
{
    uint64_t address;
    begin(8);
    uint32_t one = queue_of(1, 0), own = queue_of(2, VS_QUEUE_PRIVATE);
    give(take(own, 8 * G), own);
    assert_int_equal(vs_arena_malloc(k.arena, one, 4 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 8 * G);
    assert_int_equal(k.aliases, 0);
    vs_arena_retire_queue(k.arena, own);
    assert_int_equal(vs_arena_malloc(k.arena, one, 4 * G, &address), 0);
    end();
}

TEST(a_private_queues_chunks_are_in_no_alias)
{
    uint64_t b[8], address;
    begin(24);
    uint32_t one = queue_of(1, 0), own = queue_of(2, VS_QUEUE_PRIVATE);
    make_gaps(one, G, 8, b);
    give(take(own, 8 * G), own); /* the newest, which an alias mapping would take first */
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    uint64_t first = k.arena->heap[2 * own].first;
    assert_int_equal(vs_arena_malloc(k.arena, one, 4 * G, &address), 0);
    assert_int_equal(k.aliases, 4);
    for (uint64_t g = first; g < first + 8; g++)
        assert_int_equal(k.arena->used[g], 0);
    end();
}

/* A queue whose chunks were lent before it became private: the alias mappings that have them are none of it
 * any more.
 */
TEST(a_queue_that_was_lent_from_becomes_private_without_the_aliases)
{
    uint64_t b[8], address;
    begin(40);
    uint32_t queue[VS_ARENA_QUEUES], again;
    for (uint32_t i = 1; i < VS_ARENA_QUEUES; i++)
        queue[i] = queue_of(i, i == 1 ? VS_QUEUE_PRIVATE : 0);
    make_gaps(queue[1], G, 8, b);
    vs_arena_retire_queue(k.arena, queue[1]);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    uint64_t alias = take(queue[2], 4 * G);
    assert_int_equal(k.aliases, 4);
    for (int i = 1; i < 8; i += 2)
        give(b[i], queue[1]);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    assert_int_equal(vs_arena_open_queue(k.arena, 39, VS_QUEUE_PRIVATE, &again), VS_BACKING_OUT_OF_MEMORY);
    give(alias, queue[2]); /* nobody uses the chunks now */
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    assert_int_equal(queue_of(39, VS_QUEUE_PRIVATE), queue[1]);
    uint64_t graph = take(queue[1], 8 * G);
    assert_int_equal(stats().reserved, 8 * G); /* out of what the queue has */
    give(graph, queue[1]);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    assert_int_equal(vs_arena_malloc(k.arena, queue[2], 4 * G, &address), 0);
    assert_int_equal(stats().reserved, 12 * G); /* and not out of that */
    end();
}

TEST(in_a_plain_arena_nothing_is_mapped_twice)
{
    struct vs_arena_config config = {.plain = true};
    uint64_t b[16];
    kit_begin(&k, 60, &config);
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 16, b);
    take(one, 6 * G);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    take(VS_ARENA_ANY, 6 * G);
    vs_arena_retire_queue(k.arena, one);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    take(queue_of(2, 0), 9 * G);
    assert_int_equal(k.aliases, 0);
    assert_int_equal(stats().aliases, 0);
    end();
}

TEST(queues_of_streams_that_are_gone_serve_new_ones)
{
    uint32_t queue[VS_ARENA_QUEUES], more;
    begin(8);
    for (uint32_t i = 1; i < VS_ARENA_QUEUES; i++)
        queue[i] = queue_of(i, 0);
    assert_int_equal(vs_arena_open_queue(k.arena, 39, 0, &more), VS_BACKING_OUT_OF_MEMORY);
    uint64_t kept = take(queue[7], G), freed = take(queue[7], 3 * G);
    k.lag = 100;
    kit_own(&k, freed, 3 * G, 0, 7);
    kit_disown(&k, freed, 3 * G, 0, 1 << 7, false);
    assert_int_equal(vs_arena_free(k.arena, freed, queue[7], 0), 0);
    vs_arena_retire_queue(k.arena, queue[7]);
    assert_int_equal(queue_of(39, 0), queue[7]);
    kit_own(&k, take(queue[7], 3 * G), 3 * G, 1, 39); /* with no work of the old stream in it */
    give(kept, queue[7]);
    end();
}

/* What the old stream was made to wait for, the new one was not. */
TEST(a_new_stream_knows_nothing_of_what_the_old_one_waited_for)
{
    uint64_t b[2], address;
    begin(12);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    for (uint32_t i = 0; i < 2; i++) {
        b[i] = take(one, i ? 4 * G : 8 * G);
        kit_own(&k, b[i], i ? 4 * G : 8 * G, i, 1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        kit_disown(&k, b[i], i ? 4 * G : 8 * G, i, 1 << 1, false);
        assert_int_equal(vs_arena_free(k.arena, b[i], one, 0), 0);
    }
    take(two, 8 * G);
    assert_int_equal(stats().stream_waits, 1);
    vs_arena_retire_queue(k.arena, two);
    uint32_t three = queue_of(3, 0);
    assert_int_equal(vs_arena_malloc(k.arena, three, 4 * G, &address), 0);
    kit_own(&k, address, 4 * G, 5, 3);
    end();
}

/* What was alone, and idle, when the stream ended is stamped only when a second one comes. */
TEST(the_next_stream_can_use_what_an_ended_one_left)
{
    uint64_t b[16];
    begin(64);
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 16, b);
    vs_arena_retire_queue(k.arena, one);
    uint32_t two = queue_of(2, 0);
    for (int i = 0; i < 20; i++)
        give(take(two, 6 * G), two);
    assert_int_equal(stats().reserved, 16 * G);
    assert_int_equal(stats().aliased, 6);
    assert_int_equal(stats().host_waits, 0);
    end();
}

/* Its last event covers a free that comes after the stream's end, by one that waited for the device. */
TEST(a_block_that_is_freed_after_its_streams_end_serves_others)
{
    begin(16);
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    uint64_t block = take(one, 8 * G);
    vs_arena_retire_queue(k.arena, one);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena)); /* the wait */
    give(block, VS_ARENA_ANY);
    assert_int_equal(take(two, 8 * G), block);
    assert_int_equal(stats().host_waits, 0);
    end();
}

/* A stream that ends may still be using a block of another one's, and its queue may have gone to a third. */
TEST(what_a_stream_used_before_its_end_is_waited_for)
{
    uint64_t blocks[2];
    begin(64);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0), three;
    for (int i = 0; i < 2; i++) {
        blocks[i] = take(one, 4 * G);
        assert_int_equal(vs_arena_use(k.arena, blocks[i], two), 0);
    }
    vs_arena_retire_queue(k.arena, two); /* it never freed anything */
    three = queue_of(3, 0);
    assert_int_not_equal(three, two); /* its work is not known to be done */
    give(blocks[0], one);
    take(one, 4 * G);
    assert_int_equal(stats().reserved, 12 * G);
    assert_int_equal(stats().deferred, 4 * G);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    assert_int_equal(stats().deferred, 0);
    assert_int_equal(queue_of(4, 0), two);
    give(blocks[1], one);
    end();
}

TEST(what_is_wrong_is_refused)
{
    uint64_t address;
    begin(8);
    uint64_t block = take(VS_ARENA_ANY, 2 * G);
    assert_int_equal(vs_arena_malloc(k.arena, 5, G, &address), VS_BACKING_INVALID); /* no such queue */
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_QUEUES, G, &address), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, UINT64_MAX, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(vs_arena_free(k.arena, block + 512, VS_ARENA_ANY, 0), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_free(k.arena, 0, VS_ARENA_ANY, 0), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_use(k.arena, block, 9), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_free(k.arena, block, 9, 0), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_free(k.arena, block, UINT32_MAX, 0), VS_BACKING_INVALID);
    vs_arena_retire_queue(k.arena, 9);
    vs_arena_retire_queue(k.arena, UINT32_MAX);
    give(block, VS_ARENA_ANY);
    assert_int_equal(vs_arena_free(k.arena, block, VS_ARENA_ANY, 0), VS_BACKING_INVALID);
    end();
}
