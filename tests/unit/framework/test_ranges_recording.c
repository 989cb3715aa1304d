/*
 * test_ranges_recording.c - ranges that are opened while nobody records them: before the recording begins,
 * outside its window, while it is disabled, in a fork's child, in a signal handler (pending.c).
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranges_kit.h"

TEST(ranges_opened_before_the_recording_are_written_in_order, setup)
{
    started = false;
    uint32_t a = vs_range_push("a", NULL, MARKER), b = vs_range_push("b", NULL, MARKER);
    vs_range_push("gone", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    uint32_t c = vs_range_push("c", NULL, MARKER);

    started = true;
    assert_int_equal(vs_range_current(), c);
    assert_int_equal(logged, 3);
    assert_int_equal(log_[0].range, a);
    assert_int_equal(log_[1].range, b);
    assert_int_equal(log_[2].range, c);
    assert_string_equal(name_of(&log_[2]), "c");
    assert_int_equal(log_[2].arg0, b);
    for (int i = 2; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(logged, 6);
}

TEST(another_thread_writes_what_waits_and_says_so, setup)
{
    started = false;
    uint32_t id = vs_range_push("early", NULL, MARKER);

    started = true;
    assert_int_equal(from_another_thread(), id);
    assert_int_equal(logged, 1);
    assert_int_equal(log_[0].thread, VS_THREAD_UNKNOWN);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(log_[1].thread, 0);
}

TEST(a_range_open_at_both_ends_of_a_closed_window_keeps_its_pop, setup)
{
    vs_range_push("outer", NULL, MARKER);
    window = false;
    vs_range_push("unseen", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    uint32_t late = vs_range_push("late", NULL, MARKER);

    assert_int_equal(logged, 1);
    window = true;
    assert_int_equal(vs_range_current(), late);
    assert_int_equal(logged, 3);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, log_[0].range);
    assert_int_equal(log_[2].range, late);
    vs_range_pop(NULL, MARKER);
}

TEST(pushes_while_disabled_keep_pops_balanced, setup)
{
    uint32_t id = vs_range_push("outer", NULL, MARKER);

    enabled = false;
    assert_int_equal(vs_range_push("inner", NULL, MARKER), 0);
    enabled = true;
    assert_int_equal(vs_range_pop(NULL, MARKER), 1);
    assert_int_equal(vs_range_current(), id);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(logged, 2);
}

static int check_child(uint32_t id)
{
    started = false; /* the child has no journal yet */
    logged = 0;
    if (vs_range_current() != id)
        return 1;
    started = true;
    if (vs_range_current() != id || logged != 1 || log_[0].range != id || strcmp(name_of(&log_[0]), "outer"))
        return 2;
    if (vs_range_pop(NULL, MARKER) != 0 || logged != 2 || vs_range_current() != 0)
        return 3;
    return 0;
}

static void assert_child_ok(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFEXITED(status), 1);
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(a_fork_child_has_the_open_range_in_its_own_recording, setup)
{
    uint32_t id = vs_range_push("outer", NULL, MARKER);
    pid_t pid = fork();

    if (pid == 0)
        _exit(check_child(id));
    assert_child_ok(pid);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* no atfork handler runs */
    if (pid == 0)
        _exit(check_child(id));
    assert_child_ok(pid);
    vs_range_pop(NULL, MARKER);
}

static uint32_t lead_id;
static pthread_barrier_t barrier;

static void *hold_lead(void *arg)
{
    lead_id = vs_range_push("led", NULL, MARKER);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    vs_range_pop(NULL, MARKER);
    return NULL;
}

TEST(a_fork_child_forgets_a_lead_that_it_has_no_thread_for, setup)
{
    pthread_t t;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&t, NULL, hold_lead, NULL);
    pthread_barrier_wait(&barrier);
    assert_int_equal(vs_range_current(), lead_id);
    pid_t pid = fork();
    if (pid == 0)
        _exit(vs_range_current() == 0 ? 0 : 1);
    assert_child_ok(pid);
    pthread_barrier_wait(&barrier);
    pthread_join(t, NULL);
}

static void in_signal(int signal)
{
    vs_range_push("signal", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
}

static void *interrupt(void *arg)
{
    pthread_t *main_thread = arg;

    for (int i = 0; i < 2000; i++) {
        pthread_kill(*main_thread, SIGUSR1);
        usleep(50);
    }
    __atomic_store_n(&seen, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The recorder above takes a mutex, which no handler may do: here it records nothing. */
TEST(a_signal_handler_may_push_and_pop_anywhere, setup)
{
    pthread_t t, self = pthread_self();

    started = false;
    seen = 0;
    signal(SIGUSR1, in_signal);
    pthread_create(&t, NULL, interrupt, &self);
    while (!__atomic_load_n(&seen, __ATOMIC_ACQUIRE)) {
        vs_range_push("forward", "d", NVTX);
        vs_range_push("logits", NULL, AUTO);
        assert_int_equal(vs_range_pop("d", NVTX), 0);
        assert_int_equal(vs_range_pop(NULL, AUTO), 0);
        assert_int_equal(vs_range_current(), 0);
    }
    pthread_join(t, NULL);
    signal(SIGUSR1, SIG_DFL);
    started = true;
    vs_range_current();
    assert_int_equal(logged, 0);
}

int main(void)
{
    vs_ranges_init();
    return run_all_tests(NULL, NULL);
}
