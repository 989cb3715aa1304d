/*
 * test_open_calls.c - what calls that are open keep (core/open_calls.h) is found while they are the
 * innermost, and no longer once calls were left in another order than they were entered.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "unit/test.h"
#include "core/open_calls.h"

static int anew(void **state)
{
    memset(&vs_open_calls, 0, sizeof vs_open_calls);
    vs_open_calls_frames_at(-1, -1);
    return 0;
}

TEST(the_innermost_is_found_and_begins_without_frames, anew)
{
    assert_null(vs_open_call_innermost());
    uint32_t outer = vs_open_call_begin(100);
    vs_open_call_innermost()->frames = 7;
    uint32_t inner = vs_open_call_begin(200);
    assert_int_equal(vs_open_call_innermost()->frame, 200);
    assert_int_equal(vs_open_call_innermost()->frames, 0);
    vs_open_call_innermost()->frames = 9;
    vs_open_call_end(inner);
    assert_int_equal(vs_open_call_innermost()->frame, 100);
    assert_int_equal(vs_open_call_innermost()->frames, 7);
    inner = vs_open_call_begin(200); /* at the same place, by another line perhaps */
    assert_int_equal(vs_open_call_innermost()->frames, 0);
    vs_open_call_end(inner);
    vs_open_call_end(outer);
    assert_null(vs_open_call_innermost());
}

TEST(more_calls_than_are_kept_have_the_last_that_is, anew)
{
    uint32_t level[3 * VS_OPEN_CALLS];
    for (uint32_t i = 0; i < 3 * VS_OPEN_CALLS; i++)
        level[i] = vs_open_call_begin(1000 + i);
    assert_int_equal(vs_open_call_innermost()->frame, 1000 + VS_OPEN_CALLS - 1);
    for (uint32_t i = 3 * VS_OPEN_CALLS; i-- > 1;)
        vs_open_call_end(level[i]);
    assert_int_equal(vs_open_call_innermost()->frame, 1000);
    vs_open_call_end(level[0]);
    assert_null(vs_open_call_innermost());
}

TEST(calls_left_in_another_order_keep_nothing_from_then_on, anew)
{
    uint32_t one = vs_open_call_begin(100), other = vs_open_call_begin(200);
    vs_open_call_end(one);
    assert_null(vs_open_call_innermost());
    vs_open_call_end(other); /* now `one` would be the innermost, which has returned */
    assert_null(vs_open_call_innermost());
    vs_open_call_begin(300);
    assert_null(vs_open_call_innermost());
}

TEST(the_state_is_known_while_all_open_calls_have_the_same, anew)
{
    uintptr_t one[1] = {0}, other[1] = {0};
    uint32_t outer = vs_open_call_begin_in(one), inner = vs_open_call_begin_in(one);
    assert_ptr_equal(vs_open_calls.state, one);
    vs_open_call_end(inner);
    inner = vs_open_call_begin_in(other);
    assert_null(vs_open_calls.state);
    vs_open_call_end(inner);
    assert_null(vs_open_calls.state); /* `other` ended, but what the outer call had is forgotten */
    vs_open_call_end(outer);
    outer = vs_open_call_begin_in(other);
    assert_ptr_equal(vs_open_calls.state, other);
    vs_open_call_end(outer);
}

static void *on_another_thread(void *unused)
{
    return vs_open_call_innermost();
}

TEST(each_thread_has_its_own, anew)
{
    pthread_t thread;
    void *found = &thread;
    vs_open_call_begin(100);
    assert_int_equal(pthread_create(&thread, NULL, on_another_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &found), 0);
    assert_null(found);
}

TEST(the_callers_frame_is_read_where_it_is_said_to_be, anew)
{
    uintptr_t holder[2] = {0, 77}, thread[3] = {0, 55, (uintptr_t)holder};
    assert_int_equal(vs_open_calls_frame(thread), 0); /* nobody has said where */
    vs_open_calls_frames_at(-1, 8);
    assert_int_equal(vs_open_calls_frame(thread), 55);
    vs_open_calls_frames_at(16, 8);
    assert_int_equal(vs_open_calls_frame(thread), 77);
    thread[2] = 0;
    assert_int_equal(vs_open_calls_frame(thread), 0);
    vs_open_calls_frames_at(-1, 0);
    assert_int_equal(vs_open_calls_frame(thread + 1), 55);
    vs_open_calls_frames_at(-1, -1);
    assert_int_equal(vs_open_calls_frame(thread), 0);
}
