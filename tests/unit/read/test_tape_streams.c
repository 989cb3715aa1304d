/* test_tape_streams.c - requests are of the stream and the pool that most of their segment's blocks are of.
 */

#include "unit/test.h"
#include "read/tape_parts.h"

#define MIB(n)  ((uint64_t)(n) << 20)
#define RANGE   MIB(1 << 20)
#define COMMON  0
#define PRIVATE 1

static struct tape_event event(enum tape_what what, uint64_t offset, uint64_t size, uint16_t stream)
{
    return (struct tape_event){.what = what, .address = RANGE + offset, .size = size, .stream = stream};
}

static void find_streams(struct tape_event *events, size_t n)
{
    struct trace_tape tape = {.at = events, .n = n, .streams = 2};
    struct vs_spans reserved = {0};
    assert_int_equal(vs_spans_insert(&reserved, RANGE, RANGE + MIB(100), 0), 0);
    assert_true(tape_find_streams(&tape, &reserved));
    vs_spans_free(&reserved);
}

TEST(test_a_reservation_is_of_the_stream_of_most_of_its_blocks)
{
    struct tape_event events[] = {
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), COMMON),
        event(TAPE_ALLOC, MIB(2), MIB(2), PRIVATE), /* the thread's current one was another */
        event(TAPE_ALLOC, MIB(4), MIB(2), COMMON),
    };
    find_streams(events, sizeof events / sizeof *events);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_int_equal(events[i].stream, COMMON);
}

TEST(test_addresses_that_are_reserved_again_may_be_another_pools)
{
    struct tape_event events[] = {
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_MAP, MIB(20), MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), COMMON),
        event(TAPE_ALLOC, MIB(2), MIB(30), COMMON),
        event(TAPE_UNMAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_UNMAP, MIB(20), MIB(20), STREAM_UNKNOWN), /* nothing is left: the addresses go back */
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), PRIVATE),
    };
    size_t n = sizeof events / sizeof *events;
    find_streams(events, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(events[i].stream, i < n - 2 ? COMMON : PRIVATE);
}
