/*
 * test_gate.c - the gate between the program's work and who moves memory: nobody is inside a closed one, and
 * nobody is kept by it who must not be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arena/away/gate.h"
#include "core/presence.h"
#include "unit/test.h"

#define LONG_NS  60000000000ull
#define SHORT_NS 1000000ull

static int opened(void **state)
{
    vs_gate_set(VS_GATE_OPEN);
    return 0;
}

static void start(pthread_t *thread, void *(*runs)(void *), void *argument)
{
    assert_int_equal(pthread_create(thread, NULL, runs, argument), 0);
}

static void await(_Atomic int *value, int wanted)
{
    while (atomic_load(value) != wanted)
        sched_yield();
}

/* How a child ended that runs RUNS. */
static int in_child(int (*runs)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(runs());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- the states, on one thread ---- */

TEST(who_enters_an_open_gate_is_inside_until_he_leaves, opened, NULL)
{
    assert_true(vs_gate_enter());
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 1);
    vs_gate_leave();
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
}

TEST(nobody_enters_a_gate_that_is_not_open, opened, NULL)
{
    assert_true(vs_gate_close(0));
    assert_int_equal(vs_gate, VS_GATE_CLOSED);
    assert_false(vs_gate_enter());
    vs_gate_set(VS_GATE_CHECKED);
    assert_false(vs_gate_enter());
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    assert_int_equal(vs_gate_enter_anyway(), VS_GATE_CHECKED);
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 1);
    assert_false(vs_gate_decide(false));
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    vs_gate_enter_anyway();
    assert_true(vs_gate_decide(true));
    vs_gate_leave();
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
}

TEST(a_thread_that_is_inside_cannot_close_the_gate, opened, NULL)
{
    assert_true(vs_gate_enter());
    assert_false(vs_gate_close(LONG_NS)); /* at once */
    assert_int_equal(vs_gate, VS_GATE_OPEN);
    vs_gate_leave();
    assert_true(vs_gate_close(0));
}

TEST(waiting_for_another_state_does_not_wait, opened, NULL)
{
    errno = 77;
    vs_gate_wait(VS_GATE_CLOSED);
    vs_gate_set(VS_GATE_CHECKED);
    vs_gate_wait(VS_GATE_CLOSED);
    assert_int_equal(errno, 77);
}

/* ---- a thread inside ---- */

enum { BEFORE, INSIDE, MAY_NEST, NESTED, MAY_LEAVE, LEFT };
static _Atomic int stage;

static void *stays_inside(void *with_nested)
{
    assert_true(vs_gate_enter());
    atomic_store(&stage, INSIDE);
    if (with_nested != NULL) {
        await(&stage, MAY_NEST);
        assert_true(vs_gate_enter()); /* closed, but this thread is waited for */
        vs_gate_leave();
        assert_true(vs_gate_enter()); /* the inner call has not left for the outer one */
        vs_gate_leave();
        atomic_store(&stage, NESTED);
    }
    await(&stage, MAY_LEAVE);
    vs_gate_leave();
    atomic_store(&stage, LEFT);
    return NULL;
}

TEST(a_close_that_is_not_in_time_leaves_the_state_as_it_was, opened, NULL)
{
    pthread_t thread;
    for (int checked = 0; checked < 2; checked++) {
        vs_gate_set(VS_GATE_OPEN);
        atomic_store(&stage, BEFORE);
        start(&thread, stays_inside, NULL);
        await(&stage, INSIDE);
        uint32_t before = checked ? VS_GATE_CHECKED : VS_GATE_OPEN;
        vs_gate_set((enum vs_gate_state)before);
        errno = 77;
        assert_false(vs_gate_close(SHORT_NS));
        assert_int_equal(errno, 77);
        assert_int_equal(vs_gate, before);
        atomic_store(&stage, MAY_LEAVE);
        assert_true(vs_gate_close(LONG_NS));
        pthread_join(thread, NULL);
    }
}

static void *closes(void *closed)
{
    *(bool *)closed = vs_gate_close(LONG_NS);
    return NULL;
}

TEST(a_call_inside_a_call_passes_while_the_gate_is_being_closed, opened, NULL)
{
    pthread_t inside, closer;
    bool closed = false;
    atomic_store(&stage, BEFORE);
    start(&inside, stays_inside, &stage);
    await(&stage, INSIDE);
    start(&closer, closes, &closed);
    while (atomic_load(&vs_gate) != VS_GATE_CLOSED)
        sched_yield();
    atomic_store(&stage, MAY_NEST);
    await(&stage, NESTED);
    assert_int_equal(vs_gate, VS_GATE_CLOSED);
    atomic_store(&stage, MAY_LEAVE);
    pthread_join(closer, NULL);
    pthread_join(inside, NULL);
    assert_true(closed);
}

static void *ends_inside(void *unused)
{
    assert_true(vs_gate_enter());
    return NULL;
}

TEST(a_thread_that_ended_inside_is_not_waited_for, opened, NULL)
{
    pthread_t thread;
    start(&thread, ends_inside, NULL);
    pthread_join(thread, NULL);
    assert_true(vs_gate_close(LONG_NS));
}

/* ---- waiting ---- */

#define WAITERS 8
static _Atomic int waiting, awake;

static void *waits(void *unused)
{
    int before;
    atomic_fetch_add(&waiting, 1);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    vs_gate_wait(VS_GATE_CLOSED);
    atomic_fetch_add(&awake, 1);
    return NULL;
}

TEST(all_who_wait_wake_when_the_state_changes, opened, NULL)
{
    pthread_t thread[WAITERS];
    for (int to = VS_GATE_OPEN; to <= VS_GATE_CHECKED; to++) {
        atomic_store(&waiting, 0);
        atomic_store(&awake, 0);
        assert_true(vs_gate_close(LONG_NS));
        for (int i = 0; i < WAITERS; i++)
            start(&thread[i], waits, NULL);
        await(&waiting, WAITERS);
        assert_int_equal(atomic_load(&awake), 0);
        vs_gate_set((enum vs_gate_state)to);
        for (int i = 0; i < WAITERS; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(atomic_load(&awake), WAITERS);
    }
}

/* A driver's call is no cancellation point, and does not become one by waiting here. */
TEST(a_thread_that_waits_is_not_cancelled_there, opened, NULL)
{
    pthread_t thread;
    void *result;
    atomic_store(&waiting, 0);
    atomic_store(&awake, 0);
    assert_true(vs_gate_close(LONG_NS));
    start(&thread, waits, NULL);
    await(&waiting, 1);
    pthread_cancel(thread);
    sched_yield();
    vs_gate_set(VS_GATE_OPEN);
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(atomic_load(&awake), 1);
}

/* ---- fork, exit ---- */

static int passes(void)
{
    bool entered = vs_gate_enter();
    if (entered)
        vs_gate_leave();
    vs_gate_wait(VS_GATE_CLOSED);
    return entered ? 0 : 1;
}

TEST(a_child_passes_its_parents_gate, opened, NULL)
{
    assert_true(vs_gate_close(0));
    assert_int_equal(in_child(passes), 0);
    vs_gate_set(VS_GATE_CHECKED);
    assert_int_equal(in_child(passes), 0);
    assert_false(vs_gate_enter());
}

static int closes_its_own(void)
{
    if (!vs_gate_close(LONG_NS) || vs_gate_enter())
        return 1;
    vs_gate_set(VS_GATE_OPEN);
    return vs_gate_enter() ? 0 : 2;
}

TEST(a_child_has_a_gate_of_its_own_once_it_closes_it, opened, NULL)
{
    pthread_t thread;
    atomic_store(&stage, BEFORE);
    start(&thread, stays_inside, NULL);
    await(&stage, INSIDE);
    assert_int_equal(in_child(closes_its_own), 0); /* it has not the thread that is inside */
    atomic_store(&stage, MAY_LEAVE);
    pthread_join(thread, NULL);
}

static void *enters_and_waits(void *unused)
{
    atomic_store(&waiting, 1);
    while (!vs_gate_enter())
        vs_gate_wait(VS_GATE_CLOSED);
    return NULL;
}

static int exits_beside_one_that_waits(void)
{
    pthread_t thread;
    atomic_store(&waiting, 0);
    if (!vs_gate_close(LONG_NS) || pthread_create(&thread, NULL, enters_and_waits, NULL) != 0)
        return 1;
    await(&waiting, 1);
    exit(42);
}

TEST(a_thread_that_waits_does_not_keep_the_process, opened, NULL)
{
    assert_int_equal(in_child(exits_beside_one_that_waits), 42);
}

/* ---- threads that give work, and one that moves memory ----
 *
 * What moves is guarded by nothing but the gate: a thread that it lets in too late finds it half moved, and
 * the thread sanitizer sees that both are there.  (That each step comes behind its barrier, test_gate_order.c
 * shows.) */

#define WORKERS 2
#define ROUNDS  2000
#define WORDS   64

static uint64_t memory[WORDS]; /* all the same, but while they are moved */
static struct {
    _Alignas(64) _Atomic uint64_t given, wrong;
} worker[WORKERS];
static _Atomic bool over;

static void add(_Atomic uint64_t *own, uint64_t more)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + more, memory_order_relaxed);
}

static void *works(void *number)
{
    uintptr_t me = (uintptr_t)number;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        if (!vs_gate_enter()) {
            vs_gate_wait(VS_GATE_CLOSED);
            continue;
        }
        add(&worker[me].wrong, memory[0] != memory[WORDS - 1]);
        vs_gate_leave();
        add(&worker[me].given, 1);
    }
    return NULL;
}

static uint64_t all_given(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORKERS; i++)
        sum += atomic_load_explicit(&worker[i].given, memory_order_relaxed);
    return sum;
}

static void move_once(void)
{
    uint64_t seen = all_given();
    assert_true(vs_gate_close(LONG_NS));
    for (int times = 0; times < 16; times++)
        for (int i = 0; i < WORDS; i++) {
            memory[i]++;
            atomic_signal_fence(memory_order_seq_cst); /* word by word */
        }
    vs_gate_set(VS_GATE_OPEN);
    while (all_given() == seen) /* else they might all be waiting each time */
        sched_yield();
}

TEST(nobody_is_inside_while_memory_moves, opened, NULL)
{
    pthread_t thread[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++)
        start(&thread[i], works, (void *)i);
    for (int i = 0; i < ROUNDS; i++)
        move_once();
    atomic_store(&over, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(atomic_load(&worker[i].wrong), 0);
    assert_int_equal(memory[0], 16 * ROUNDS);
}

/* ---- more threads than places ---- */

#define CROWD (VS_PRESENCES + 8)
static _Atomic int crowd_inside;
static pthread_mutex_t crowd_stays = PTHREAD_MUTEX_INITIALIZER;

static void *in_the_crowd(void *unused)
{
    assert_true(vs_gate_enter());
    assert_true(vs_gate_enter());
    vs_gate_leave();
    atomic_fetch_add(&crowd_inside, 1);
    pthread_mutex_lock(&crowd_stays);
    pthread_mutex_unlock(&crowd_stays);
    vs_gate_leave();
    return NULL;
}

TEST(threads_without_a_place_of_their_own_are_counted, opened, NULL)
{
    static pthread_t thread[CROWD];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_mutex_lock(&crowd_stays);
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&thread[i], &small, in_the_crowd, NULL), 0);
    await(&crowd_inside, CROWD);
    assert_false(vs_gate_close(SHORT_NS));
    pthread_mutex_unlock(&crowd_stays);
    for (unsigned i = 0; i < CROWD; i++)
        pthread_join(thread[i], NULL);
    assert_true(vs_gate_close(LONG_NS));
}

/* ---- what is looked at ---- */

static void *looks(void *work)
{
    assert_false(vs_gate_enter());
    vs_gate_enter_anyway();
    vs_gate_look((uintptr_t)work);
    vs_gate_look((uintptr_t)work + 3);
    vs_gate_decide(true);
    assert_true(vs_gate_enter()); /* a call inside it */
    vs_gate_leave();
    atomic_store(&stage, INSIDE);
    await(&stage, MAY_LEAVE);
    vs_gate_leave();
    atomic_store(&stage, LEFT);
    return NULL;
}

TEST(the_oldest_work_that_is_looked_at_is_known_until_it_is_given, opened, NULL)
{
    pthread_t thread;
    vs_gate_set(VS_GATE_CHECKED);
    vs_gate_look(7); /* not inside */
    assert_true(vs_gate_looking() == UINT64_MAX);
    start(&thread, looks, (void *)5);
    await(&stage, INSIDE);
    assert_int_equal(vs_gate_looking(), 5);
    vs_gate_enter_anyway();
    assert_int_equal(vs_gate_looking(), 5);
    vs_gate_look(3);
    assert_int_equal(vs_gate_looking(), 3);
    vs_gate_decide(false);
    assert_int_equal(vs_gate_looking(), 5);
    atomic_store(&stage, MAY_LEAVE);
    await(&stage, LEFT);
    assert_true(vs_gate_looking() == UINT64_MAX);
    pthread_join(thread, NULL);
}

/* test_gate bench: what an open gate costs, in ns. */
static int bench(void)
{
    enum { CALLS = 20000000 };
    struct timespec a, b;
    for (int round = 0; round < 5; round++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < CALLS; i++) {
            vs_gate_enter();
            vs_gate_leave();
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%.2f ns\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / CALLS);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench") == 0)
        return vs_gate_close(0) ? vs_gate_set(VS_GATE_OPEN), bench() : 1;
    return run_all_tests(NULL, NULL);
}
