/*
 * test_ask.c - questions of the host's threads to the sampler's: each gets its own answer, none waits longer
 * than it may, and what was given up on leaves no cell behind.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "record/recording.h"
#include "sample/work.h"

#define UNKNOWN_BYTES VS_BYTES_UNKNOWN

/* ---- what ask.c needs of its neighbours ---- */

static struct vs_recording recording;
struct vs_recording *_Atomic vs_recording = &recording;
static _Atomic bool inside, sampler_ends;
static _Atomic long answer_us;
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
    if (answer_us)
        usleep((unsigned)answer_us);
    answered++;
    return (struct vs_used){(uint64_t)device << 10, (uint64_t)device << 20, true};
}

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
    inside = sampler_ends = started = false;
    answer_us = 0;
    answered = 0;
    return 0;
}

static int stop(void **state)
{
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

static void an_answer_is_of_the_device_that_was_asked_for(void **state)
{
    struct vs_used used;
    uint64_t bytes;
    enum vs_sample_source source;
    start_sampler();
    errno = 77;
    assert_true(vs_used_now(3, &used));
    assert_true(used.told && used.process == 3 << 10 && used.device == 3 << 20);
    assert_true(vs_nvml_used_bytes(5, &bytes, &source));
    assert_true(bytes == 5 << 10 && source == VS_SAMPLE_NVML_PROCESS);
    assert_int_equal(errno, 77);
    assert_int_equal(cells_taken(), 0);
}

static void nobody_waits_where_no_sampler_could_answer(void **state)
{
    struct vs_used used;
    bool known;
    recording.nvml = 0;
    assert_true(milliseconds_of(&known, 0, &used) < VS_ASK_MS && !known);
    recording.nvml = 1;
    recording.look = VS_LOOK_LAST;
    assert_true(milliseconds_of(&known, 0, &used) < VS_ASK_MS && !known);
    recording.look = VS_LOOK_ALWAYS;
    recording.pid = 1; /* a vfork child has its parent's mapping */
    assert_true(milliseconds_of(&known, 0, &used) < VS_ASK_MS && !known);
    recording.pid = getpid();
    inside = true;
    assert_true(milliseconds_of(&known, 0, &used) < VS_ASK_MS && !known);
    assert_true(used.process == UNKNOWN_BYTES && used.device == UNKNOWN_BYTES && !used.told);
    assert_int_equal(recording.bell, 0);
}

static uint64_t asked_ms(void)
{
    return recording.asking_ns / 1000000;
}

/* Each answer takes 10 ms, and is good. */
static void asking_ends_after_fifty_milliseconds_and_goes_on_with_a_thousandth_of_the_time(void **state)
{
    struct vs_used used;
    int known = 0;
    start_sampler();
    answer_us = 10000;
    for (int i = 0; i < 1000; i++)
        known += vs_used_now(0, &used);
    assert_true(known >= 1 && known <= 5);
    assert_true(asked_ms() <= VS_ASK_FREE_MS + 3); /* a late wake-up on a loaded machine */
    assert_true(vs_asking_spent());
    recording.first_ask_ns -= 50 * UINT64_C(1000000000);
    assert_true(vs_asking_spent()); /* a thousandth of fifty seconds is no more */
    recording.first_ask_ns -= 60 * UINT64_C(1000000000);
    assert_false(vs_asking_spent());
    for (int i = 0; i < 1000; i++)
        known += vs_used_now(0, &used);
    assert_true(known >= 2);
    assert_true(asked_ms() <= 110 + 3);
}

static void first_context_is_asked_about_whatever_was_asked(void **state)
{
    struct vs_used used;
    start_sampler();
    vs_asking_took(vs_clock_ns(), VS_ASK_FREE_MS * UINT64_C(1000000));
    assert_false(vs_used_now(4, &used));
    uint64_t before = recording.asking_ns;
    assert_true(vs_used_first(4, &used));
    assert_int_equal(recording.asking_ns, before);
}

static void alone_on_a_device_is_who_was_seen_alone_lately(void **state)
{
    assert_false(vs_used_alone(1));
    recording.alone_ns[1] = vs_clock_ns();
    assert_true(vs_used_alone(1));
    assert_false(vs_used_alone(0) || vs_used_alone(-1) || vs_used_alone(VS_ALONE_DEVICES));
    recording.alone_ns[1] -= VS_ALONE_MS * UINT64_C(1000000);
    assert_false(vs_used_alone(1));
    recording.alone_ns[1] = vs_clock_ns();
    recording.look = VS_LOOK_LAST; /* nobody looks any more */
    assert_false(vs_used_alone(1));
}

static void a_sampler_that_never_answers_costs_three_waits_in_all(void **state)
{
    struct vs_used used;
    bool known;
    uint64_t from = vs_clock_ns(), third;
    for (int i = 0; i < 3; i++) {
        assert_true(milliseconds_of(&known, 0, &used) >= (i < 2 ? VS_ASK_MS - 1 : 5));
        assert_false(known);
    }
    assert_true(asked_ms() >= 45 && asked_ms() < VS_ASK_FREE_MS + 2000);
    assert_int_equal(cells_taken(), 0);
    third = vs_clock_ns();
    assert_true((third - from) / 1000000 < 3 * VS_ASK_MS + 2000); /* a loaded machine */
    uint32_t rung = recording.bell;
    for (int i = 0; i < 100; i++)
        assert_false(vs_used_now(0, &used));
    assert_int_equal(recording.bell, rung); /* not even asked */
    start_sampler();
    for (int i = 0; i < 2000 && recording.unanswered; i++)
        usleep(1000);
    recording.first_ask_ns -= 300 * UINT64_C(1000000000);
    assert_true(vs_used_now(1, &used)); /* and again once it is back */
}

static void an_answer_that_comes_too_late_is_nobodys_and_frees_its_cell(void **state)
{
    struct vs_used used;
    answer_us = 80000;
    start_sampler();
    assert_false(vs_used_now(9, &used));
    assert_true(used.process == UNKNOWN_BYTES);
    for (int i = 0; i < 2000 && cells_taken(); i++)
        usleep(1000);
    assert_int_equal(cells_taken(), 0);
    answer_us = 0;
    recording.unanswered = 0;
    assert_true(vs_used_now(2, &used) && used.process == 2 << 10);
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

static void many_threads_each_get_their_own_answer(void **state)
{
    pthread_t threads[16];
    wrong = right = 0;
    start_sampler();
    for (intptr_t i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, ask_often, (void *)(i + 1));
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_true(right > 0);
    assert_int_equal(cells_taken(), 0);
}

static uint64_t cost(uint64_t p0, uint64_t d0, uint64_t p1, uint64_t d1)
{
    struct vs_used before = {p0, d0, true}, after = {p1, d1, true};
    return vs_used_cost(&before, &after);
}

static void a_cost_is_told_from_figures_of_one_kind_only(void **state)
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

#define T(f) cmocka_unit_test_setup_teardown(f, fresh, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_answer_is_of_the_device_that_was_asked_for),
        T(nobody_waits_where_no_sampler_could_answer),
        T(asking_ends_after_fifty_milliseconds_and_goes_on_with_a_thousandth_of_the_time),
        T(first_context_is_asked_about_whatever_was_asked),
        T(alone_on_a_device_is_who_was_seen_alone_lately),
        T(a_sampler_that_never_answers_costs_three_waits_in_all),
        T(an_answer_that_comes_too_late_is_nobodys_and_frees_its_cell),
        T(many_threads_each_get_their_own_answer),
        T(a_cost_is_told_from_figures_of_one_kind_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
