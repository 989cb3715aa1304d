/*
 * test_lock_order.c - a thread that takes locks in another order than lock.h's ends the process, whether or
 * not it would have waited, and one that keeps to it notices nothing.  Compiled with the checks in every
 * build.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/lock.h"

static struct vs_lock outer = VS_LOCK(PROVIDED), middle = VS_LOCK(MAKING), inner = VS_LOCK(ARENA),
                      other_inner = VS_LOCK(ARENA), nowhere;

/* Runs PROGRAM in a child.  What it said, if it was ended by abort(); else NULL. */
static const char *broken_order(void (*program)(void))
{
    static char said[400];
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 2);
        program();
        _exit(0);
    }
    close(out[1]);
    ssize_t n = read(out[0], said, sizeof said - 1);
    close(out[0]);
    said[n > 0 ? n : 0] = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
        return said;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return NULL;
}

static void in_order(void)
{
    for (int i = 0; i < 100; i++) {
        vs_lock_take(&outer);
        vs_lock_take(&middle);
        vs_lock_take(&inner);
        vs_lock_give(&middle); /* given in any order */
        vs_lock_give(&outer);
        vs_lock_give(&inner);
    }
}

static void outer_within_inner(void)
{
    vs_lock_take(&inner);
    vs_lock_take(&outer);
}

static void two_of_a_place(void)
{
    vs_lock_take(&inner);
    vs_lock_take(&other_inner);
}

static void twice(void)
{
    vs_lock_take(&middle);
    vs_lock_take(&middle);
}

static void twice_without_a_place(void)
{
    vs_lock_take(&nowhere);
    vs_lock_take(&nowhere);
}

static void try_outer_within_inner(void)
{
    vs_lock_take(&inner);
    if (!vs_lock_try(&outer)) /* never waits */
        _exit(1);
    vs_lock_give(&outer);
    vs_lock_give(&inner);
}

static void take_within_tried(void)
{
    if (vs_lock_try(&inner))
        vs_lock_take(&middle);
}

static void *take_middle(void *unused)
{
    vs_lock_take(&middle);
    vs_lock_give(&middle);
    return NULL;
}

static void each_thread_its_own(void)
{
    pthread_t thread;
    vs_lock_take(&inner);
    pthread_create(&thread, NULL, take_middle, NULL);
    pthread_join(thread, NULL);
    vs_lock_give(&inner);
}

static void a_child_takes_what_its_parent_held(void)
{
    int status;
    vs_lock_take(&inner);
    if (fork() == 0) {
        vs_lock_take(&middle);
        _exit(7);
    }
    _exit(wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7);
}

TEST(the_order_of_the_list_is_noticed_by_nobody)
{
    assert_null(broken_order(in_order));
    assert_null(broken_order(try_outer_within_inner));
    assert_null(broken_order(each_thread_its_own));
    assert_null(broken_order(a_child_takes_what_its_parent_held));
}

TEST(a_take_against_the_list_ends_the_process_and_names_both)
{
    const char *said = broken_order(outer_within_inner);
    assert_non_null(said);
    assert_non_null(strstr(said, "PROVIDED (hooks/provided.c) is taken while ARENA"));
    assert_non_null(broken_order(take_within_tried));
}

TEST(no_thread_holds_two_of_a_place_or_one_twice)
{
    assert_non_null(broken_order(two_of_a_place));
    assert_non_null(broken_order(twice));
    assert_non_null(broken_order(twice_without_a_place));
}
