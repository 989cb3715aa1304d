/*
 * test_fork.c - a child knows that it is one, however it was made, and finds what was to be wiped as zeros.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/clock.h"
#include "core/fork.h"
#include "core/walk.h"

static pid_t by_fork(void)
{
    return fork();
}

/* No handler of pthread_atfork runs. */
static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static bool child_agrees(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *ask(void *number)
{
    *(uint32_t *)number = vs_fork_number();
    return NULL;
}

TEST(all_threads_of_a_process_are_told_one_number)
{
    enum { THREADS = 16 };
    pthread_t thread[THREADS];
    uint32_t number[THREADS], own;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &number[i]), 0);
    own = vs_fork_number();
    assert_int_not_equal(own, 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(number[i], own);
    }
}

/* In a line of processes, each the child of the one before, no number comes twice. */
static int numbers_differ(pid_t (*make)(void), const uint32_t *seen, int n)
{
    uint32_t now = vs_fork_number(), line[8];
    for (int i = 0; i < n; i++)
        line[i] = seen[i];
    for (int i = 0; i < n; i++)
        if (line[i] == now || now == 0)
            return 1;
    if (vs_fork_number() != now)
        return 2;
    if (n == 5)
        return 0;
    line[n] = now;
    pid_t child = make();
    if (child == 0)
        _exit(numbers_differ(make, line, n + 1));
    return child_agrees(child) && vs_fork_number() == now ? 0 : 3;
}

TEST(each_child_has_a_number_of_its_own)
{
    assert_int_equal(numbers_differ(by_fork, NULL, 0), 0);
    assert_int_equal(numbers_differ(by_clone, NULL, 0), 0);
}

TEST(a_child_finds_zeros_and_its_parent_what_it_wrote)
{
    static const size_t bytes = 3 * 65536;
    pid_t (*const ways[])(void) = {by_fork, by_clone};
    unsigned char *m = vs_fork_wiped_memory(bytes, NULL);
    assert_non_null(m);
    memset(m, 7, bytes);
    for (size_t way = 0; way < 2; way++) {
        pid_t child = ways[way]();
        if (child == 0) {
            unsigned char any = 0;
            for (size_t i = 0; i < bytes; i++)
                any |= m[i];
            m[0] = 9;
            pid_t grandchild = any ? -1 : ways[way](); /* wiped again */
            if (grandchild == 0)
                _exit(m[0]);
            _exit(any || !child_agrees(grandchild) || m[0] != 9);
        }
        assert_true(child_agrees(child));
    }
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(m[i], 7);
}

/* ---- what a child must not find half done ---- */

static _Atomic bool begun, forking, ended;

static void fork_begins(void) /* before the handler of walk.c: the last that is registered runs first */
{
    forking = true;
}

static int work(void)
{
    begun = true;
    while (!forking)
        sched_yield();
    ended = true;
    return 7;
}

static void *work_apart(void *result)
{
    *(int *)result = vs_walk_apart(work);
    return NULL;
}

TEST(a_fork_waits_until_what_is_kept_apart_from_it_is_done)
{
    pthread_t worker;
    int result = 0;
    vs_walk_begin();
    pthread_atfork(fork_begins, NULL, NULL);
    assert_int_equal(pthread_create(&worker, NULL, work_apart, &result), 0);
    while (!begun)
        sched_yield();
    uint64_t before = vs_clock_ns();
    pid_t child = fork();
    bool waited = vs_clock_ns() - before >= 100000000; /* for as long as a fork waits at most (walk.c) */
    if (child == 0) /* the thread sanitizer's _exit would miss the worker */
        syscall(SYS_exit_group, ended || waited ? 0 : 1);
    assert_true(child_agrees(child));
    pthread_join(worker, NULL);
    assert_int_equal(result, 7);
}
