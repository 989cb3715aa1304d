/* test_mixed.c - a library's room whose size is a guess: it is replayed with the likely size, the least and
 * the most, and any of the three may reserve the most. */

#include "unit/test.h"
#include "replay/layouts.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define AT     (UINT64_C(1) << 40)

/* A tensor, 100 MiB of room that is freed AFTER further tensors, and 60 MiB that lie where it lay. */
static size_t record(struct tape_event *at, uint32_t after)
{
    size_t n = 0;
    at[n++] = (struct tape_event){.what = TAPE_SEGMENT_ALLOC, .address = AT, .size = MIB(40)};
    at[n++] = (struct tape_event){.what = TAPE_ALLOC, .address = AT, .size = MIB(40), .id = 0};
    at[n++] = (struct tape_event){.what = TAPE_SEGMENT_ALLOC, .address = AT - MIB(128), .size = MIB(100)};
    at[n++] = (struct tape_event){.what = TAPE_ALLOC, .address = AT - MIB(128), .size = MIB(100), .id = 1};
    at[n++] = (struct tape_event){.what = TAPE_SEGMENT_ALLOC, .address = AT - MIB(160), .size = MIB(2)};
    for (uint32_t i = 0; i < after; i++)
        at[n++] = (struct tape_event){
            .what = TAPE_ALLOC, .address = AT - MIB(160) + 512 * i, .size = 512, .id = 3 + i};
    at[n++] = (struct tape_event){.what = TAPE_FREE, .address = AT - MIB(128), .size = MIB(100), .id = 1};
    at[n++] = (struct tape_event){.what = TAPE_ALLOC, .address = AT - MIB(128), .size = MIB(60), .id = 2};
    return n;
}

static struct layouts mixed(uint32_t after, struct mixed_guess guess)
{
    struct tape_event at[64];
    struct trace_tape tape = {.at = at,
                              .n = record(at, after),
                              .ids = 3 + after,
                              .streams = 1,
                              .calls_known = true,
                              .asked = 3 + after,
                              .version = "2.11.0"};
    int64_t allocated = (int64_t)MIB(140) + 512 * after, reserved = (int64_t)MIB(142);
    struct layouts l = {0, 0, allocated, allocated, reserved, reserved};
    mixed_try(&tape, 0, &guess, 1, allocated, reserved, &l);
    return l;
}

TEST(test_likely_room_that_is_too_small_for_what_comes_next_holds_more_than_the_most)
{
    struct layouts l = mixed(1, (struct mixed_guess){(int64_t)MIB(50) - 100, 0, (int64_t)MIB(100) - 100});
    assert_int_equal(l.reserved_least, MIB(102));
    assert_int_equal(l.reserved_most, MIB(152));
    assert_int_equal(l.allocated_least, MIB(100) + 512);
    assert_int_equal(l.allocated_most, MIB(140) + 512);
}

TEST(test_a_tensor_of_the_size_of_a_guess_stays)
{
    struct layouts l = mixed(20, (struct mixed_guess){(int64_t)MIB(50), 0, (int64_t)MIB(100)});
    assert_int_equal(l.reserved_least, MIB(142));
    assert_int_equal(l.reserved_most, MIB(142));
}

TEST(test_what_no_guess_has_the_size_of_stays)
{
    struct layouts l = mixed(1, (struct mixed_guess){0, 0, (int64_t)MIB(99)});
    assert_int_equal(l.reserved_least, MIB(142));
    assert_int_equal(l.allocated_least, MIB(140) + 512);
}
