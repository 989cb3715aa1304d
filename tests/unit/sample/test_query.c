/*
 * test_query.c - questions of the host's threads to the sampler's: each gets its own answer, none waits
 * longer than it may, and what was given up on leaves no cell behind.
 *
 * How long is waited is tested on a clock that moves only while somebody waits, so a machine that is busy
 * changes nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/clock.h"
#include "record/recording.h"
#include "sample/sampler.h"

#define UNKNOWN_BYTES VS_BYTES_UNKNOWN

/* ---- what query.c needs of its neighbours ---- */

static struct vs_recording recording;
struct vs_recording *_Atomic vs_recording = &recording;
static _Atomic bool inside, sampler_ends;
static _Atomic bool held; /* the sampler's look takes until this is false */
static _Atomic int answered;

bool vs_record_enabled(void)
{
    return !inside;
}

struct vs_journal *vs_record_journal(void)
{
    return (struct vs_journal *)&recording; /* never looked into */
}

/* Device n uses n KiB in this process and n MiB in all. */
static struct vs_used look(int device)
{
    while (held)
        usleep(1000);
    answered++;
    return (struct vs_used){(uint64_t)device << 10, (uint64_t)device << 20, true};
}

/* ---- a clock that stands still but for waits ---- */

#define NEVER UINT64_MAX

static bool simulated;
static uint64_t now_ns, answer_ns,
    due_ns; /* a question is answered ANSWER_NS after it was asked, at DUE_NS */

static long (*real_syscall)(long number, ...);

int clock_gettime(clockid_t id, struct timespec *t)
{
    if (!simulated || id != CLOCK_MONOTONIC)
        return (int)real_syscall(SYS_clock_gettime, id, t);
    *t = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return 0;
}

static long wait_on_clock(const struct timespec *most)
{
    uint64_t until = now_ns + (uint64_t)most->tv_sec * 1000000000 + (uint64_t)most->tv_nsec;
    if (due_ns > until) {
        now_ns = until;
        errno = ETIMEDOUT;
        return -1;
    }
    now_ns = due_ns > now_ns ? due_ns : now_ns;
    vs_sampler_answer(&recording, look);
    return 0;
}

long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (simulated && number == SYS_futex)
        return a[1] == FUTEX_WAIT_PRIVATE ? wait_on_clock((const struct timespec *)a[3]) : 0;
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((constructor)) static void find_syscall(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

/* From here on: an answer takes NS. */
static void simulate(uint64_t ns)
{
    simulated = true;
    answer_ns = ns;
    due_ns = NEVER;
}

/* ---- the sampler's thread ---- */

static void *sampler(void *unused)
{
    while (!sampler_ends) {
        uint32_t rung = atomic_load(&recording.bell);
        vs_sampler_answer(&recording, look);
        struct timespec t = {0, 100000000};
        syscall(SYS_futex, &recording.bell, FUTEX_WAIT_PRIVATE, rung, &t, NULL, 0);
    }
    return NULL;
}

void vs_keeper_ring(struct vs_recording *r)
{
    if (simulated)
        due_ns = answer_ns == NEVER ? NEVER : now_ns + answer_ns;
    atomic_fetch_add(&r->bell, 1);
    syscall(SYS_futex, &r->bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static pthread_t thread;
static bool started;

static void start_sampler(void)
{
    started = pthread_create(&thread, NULL, sampler, NULL) == 0;
    assert_true(started);
}

static int fresh(void **state)
{
    memset(&recording, 0, sizeof recording);
    recording.pid = getpid();
    recording.nvml = 1;
    inside = sampler_ends = held = false;
    started = simulated = false;
    now_ns = 1000000000000;
    answered = 0;
    return 0;
}

static int stop(void **state)
{
    held = false;
    if (!started)
        return 0;
    sampler_ends = true;
    vs_keeper_ring(&recording);
    return pthread_join(thread, NULL);
}

static uint64_t milliseconds_of(bool *known, int device, struct vs_used *used)
{
    uint64_t from = vs_clock_ns();
    *known = vs_used_now(device, used);
    return (vs_clock_ns() - from) / 1000000;
}

static int cells_taken(void)
{
    int n = 0;
    for (int i = 0; i < VS_QUESTIONS; i++)
        n += recording.questions[i].state != 0;
    return n;
}

/* ---- tests ---- */

TEST(an_answer_is_of_the_device_that_was_asked_for, fresh, stop)
{
    struct vs_used used;
    simulate(1000);
    errno = 77;
    assert_true(vs_used_now(3, &used));
    assert_true(used.answered && used.process == 3 << 10 && used.device == 3 << 20);
    assert_true(vs_used_now(5, &used));
    assert_true(used.process == 5 << 10);
    assert_int_equal(errno, 77);
    assert_int_equal(cells_taken(), 0);
}

TEST(nobody_waits_where_no_sampler_could_answer, fresh, stop)
{
    struct vs_used used;
    bool known;
    simulate(NEVER);
    recording.nvml = 0;
    assert_true(milliseconds_of(&known, 0, &used) == 0 && !known);
    recording.nvml = 1;
    recording.look = VS_LOOK_LAST;
    assert_true(milliseconds_of(&known, 0, &used) == 0 && !known);
    recording.look = VS_LOOK_ALWAYS;
    recording.pid = 1; /* a vfork child has its parent's mapping */
    assert_true(milliseconds_of(&known, 0, &used) == 0 && !known);
    recording.pid = getpid();
    inside = true;
    assert_true(milliseconds_of(&known, 0, &used) == 0 && !known);
    assert_true(used.process == UNKNOWN_BYTES && used.device == UNKNOWN_BYTES && !used.answered);
    assert_int_equal(recording.bell, 0);
    inside = false; /* and where one could, it does wait */
    assert_true(milliseconds_of(&known, 0, &used) == VS_QUERY_MS && !known);
}

static uint64_t asked_ms(void)
{
    return recording.query_ns / 1000000;
}

/* Each answer takes 10 ms, and is good. */
TEST(asking_ends_after_fifty_milliseconds_and_goes_on_with_a_thousandth_of_the_time, fresh, stop)
{
    struct vs_used used;
    int known = 0;
    simulate(10000000);
    for (int i = 0; i < 1000; i++)
        known += vs_used_now(0, &used);
    assert_int_equal(known, 5);
    assert_int_equal(asked_ms(), VS_QUERY_FREE_MS);
    assert_true(vs_query_time_spent());
    recording.first_query_ns -= 50 * UINT64_C(1000000000);
    assert_true(vs_query_time_spent()); /* a thousandth of fifty seconds is no more */
    recording.first_query_ns -= 60 * UINT64_C(1000000000);
    assert_false(vs_query_time_spent());
    for (int i = 0; i < 1000; i++)
        known += vs_used_now(0, &used);
    assert_int_equal(known, 11);
    assert_int_equal(asked_ms(), 110);
}

TEST(first_context_is_asked_about_whatever_was_asked, fresh, stop)
{
    struct vs_used used;
    simulate(1000);
    vs_query_took(vs_clock_ns(), VS_QUERY_FREE_MS * UINT64_C(1000000));
    assert_false(vs_used_now(4, &used));
    uint64_t before = recording.query_ns;
    assert_true(vs_used_first(4, &used));
    assert_int_equal(recording.query_ns, before);
}

TEST(alone_on_a_device_is_who_was_seen_alone_lately, fresh, stop)
{
    simulate(NEVER);
    assert_false(vs_used_alone(1));
    recording.alone_ns[1] = vs_clock_ns();
    assert_true(vs_used_alone(1));
    assert_false(vs_used_alone(0) || vs_used_alone(-1) || vs_used_alone(VS_ALONE_DEVICES));
    recording.alone_ns[1] -= VS_ALONE_MS * UINT64_C(1000000) - 1;
    assert_true(vs_used_alone(1));
    recording.alone_ns[1] -= 1;
    assert_false(vs_used_alone(1));
    recording.alone_ns[1] = vs_clock_ns();
    recording.look = VS_LOOK_LAST; /* nobody looks any more */
    assert_false(vs_used_alone(1));
}

TEST(a_sampler_that_never_answers_costs_three_waits_in_all, fresh, stop)
{
    static const uint64_t waits[] = {VS_QUERY_MS, VS_QUERY_MS, VS_QUERY_FREE_MS - 2 * VS_QUERY_MS};
    struct vs_used used;
    bool known;
    simulate(NEVER);
    for (int i = 0; i < 3; i++)
        assert_true(milliseconds_of(&known, 0, &used) == waits[i] && !known);
    assert_int_equal(asked_ms(), VS_QUERY_FREE_MS);
    assert_int_equal(cells_taken(), 0);
    uint32_t rung = recording.bell;
    for (int i = 0; i < 100; i++)
        assert_false(vs_used_now(0, &used));
    assert_int_equal(recording.bell, rung); /* not even asked */
    recording.first_query_ns -= 300 * UINT64_C(1000000000);
    assert_false(vs_used_now(1, &used)); /* there is time again, and nobody who answers */
    answer_ns = 1000;
    vs_sampler_answer(&recording, look);
    assert_true(vs_used_now(1, &used)); /* and again once it is back */
}

/* The sampler is in its look when the question is given up, or has not begun: it looks for as long as is
 * wanted. */
TEST(an_answer_that_comes_too_late_is_nobodys_and_frees_its_cell, fresh, stop)
{
    struct vs_used used;
    held = true;
    start_sampler();
    assert_false(vs_used_now(9, &used));
    assert_true(used.process == UNKNOWN_BYTES);
    held = false;
    while (cells_taken())
        usleep(1000);
    recording.unanswered = 0;
    for (bool known = false; !known;
         recording.query_ns = 0) { /* a busy machine's sampler may be late again */
        known = vs_used_now(2, &used);
        assert_true(used.process == (known ? 2 << 10 : UNKNOWN_BYTES));
        recording.unanswered = 0;
    }
}

static _Atomic int wrong, right;

static void *ask_often(void *device)
{
    int n = (int)(intptr_t)device;
    struct vs_used used;
    for (int i = 0; i < 300; i++) {
        bool known = vs_used_now(n, &used);
        right += known && used.process == (uint64_t)n << 10;
        wrong += known ? used.process != (uint64_t)n << 10 : used.process != UNKNOWN_BYTES;
    }
    return NULL;
}

TEST(many_threads_each_get_their_own_answer, fresh, stop)
{
    pthread_t threads[16];
    wrong = right = 0;
    start_sampler();
    do { /* on a busy machine the sampler may come too late for all of them */
        recording.unanswered = 0;
        recording.query_ns = recording.first_query_ns = 0;
        for (intptr_t i = 0; i < 16; i++)
            pthread_create(&threads[i], NULL, ask_often, (void *)(i + 1));
        for (int i = 0; i < 16; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(wrong, 0);
    } while (right == 0);
    assert_int_equal(cells_taken(), 0);
}

static uint64_t cost(uint64_t p0, uint64_t d0, uint64_t p1, uint64_t d1)
{
    struct vs_used before = {p0, d0, true}, after = {p1, d1, true};
    return vs_used_cost(&before, &after);
}

TEST(a_cost_is_told_from_figures_of_one_kind_only, fresh, stop)
{
    struct vs_used silent = {UNKNOWN_BYTES, UNKNOWN_BYTES, false}, some = {5, 9, true};
    assert_int_equal(cost(10, 100, 17, 150), 7);
    assert_int_equal(cost(UNKNOWN_BYTES, 100, 17, 150), 17); /* the first context: listed since */
    assert_int_equal(cost(UNKNOWN_BYTES, 100, UNKNOWN_BYTES, 150), 50);
    assert_true(cost(17, 150, 10, 100) == 0 - UINT64_C(7));
    assert_true(cost(17, 150, UNKNOWN_BYTES, 100) == 0 - UINT64_C(17));
    assert_true(cost(UNKNOWN_BYTES, UNKNOWN_BYTES, UNKNOWN_BYTES, 100) == UNKNOWN_BYTES);
    assert_true(vs_used_cost(&silent, &some) == UNKNOWN_BYTES);
    assert_true(vs_used_cost(&some, &silent) == UNKNOWN_BYTES);
}
