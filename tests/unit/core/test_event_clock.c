/*
 * test_event_clock.c - the event clock beside clock_gettime: how far off, never backwards, and back to
 * clock_gettime when the counter cannot be trusted.  Where the kernel's clock source is not the counter, only
 * the falling back is tested.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/clock.h"
#include "core/hot.h"

#define MS UINT64_C(1000000)

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Brings the clock up; false: not on this machine. */
static bool make_fast(void)
{
    vs_event_clock_prepare(NULL);
    for (int i = 0; i < 20 && !vs_event_clock_fast(); i++) {
        pause_ms(25);
        vs_event_clock_tune();
    }
    return vs_event_clock_fast();
}

static void need_fast(void)
{
    if (!make_fast()) {
        print_message("skipped: the kernel's clock source is not this processor's counter\n");
        skip();
    }
}

/* Readings for NS that lie between two of the real clock, give or take the bound; the number that did not. */
static int wrong_readings(uint64_t ns, uint64_t *readings)
{
    uint64_t end = vs_clock_ns() + ns, last = 0, before, t, after;
    int wrong = 0;
    do {
        before = vs_clock_ns();
        t = vs_event_clock_ns();
        after = vs_clock_ns();
        wrong += t < last || t + VS_EVENT_CLOCK_ERROR_NS < before || t > after + VS_EVENT_CLOCK_ERROR_NS;
        last = t;
        ++*readings;
    } while (after < end);
    return wrong;
}

TEST(it_agrees_with_the_real_clock_for_seconds_and_never_runs_backwards)
{
    uint64_t readings = 0;
    need_fast();
    for (int i = 0; i < 25; i++) {
        assert_int_equal(wrong_readings(100 * MS, &readings), 0);
        vs_event_clock_tune();
    }
    assert_true(vs_event_clock_fast());
    assert_true(vs_self.clock.anchor >> 32 > 100); /* it was the counter that told the time */
}

TEST(it_agrees_when_nobody_tunes_it_and_after_long_pauses)
{
    uint64_t readings = 0;
    need_fast();
    for (int i = 0; i < 20; i++) {
        pause_ms(i * 5);
        assert_int_equal(wrong_readings(3 * MS, &readings), 0);
    }
    assert_true(vs_event_clock_fast());
}

static void *read_for_a_while(void *wrong)
{
    uint64_t readings = 0;
    *(int *)wrong = wrong_readings(500 * MS, &readings);
    return NULL;
}

TEST(every_thread_has_the_time)
{
    pthread_t thread[4];
    int wrong[4];
    need_fast();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_for_a_while, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
}

static volatile uint64_t handled;
static volatile int handler_wrong;

static void handler(int signal_number)
{
    uint64_t ignored = 0;
    handler_wrong += wrong_readings(0, &ignored);
    handled++;
}

TEST(a_signal_handler_reads_it_at_any_point)
{
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    uint64_t readings = 0;
    need_fast();
    handled = 0;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &every, NULL);
    int wrong = wrong_readings(1000 * MS, &readings);
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    assert_int_equal(wrong, 0);
    assert_int_equal(handler_wrong, 0);
    assert_true(handled > 10);
}

TEST(another_clock_source_means_clock_gettime)
{
    uint64_t readings = 0;
    char path[] = "/tmp/vs-clock-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "hpet\n", 5), 5);
    close(fd);
    const char *const sources[] = {path, "/nowhere/at/all"};
    for (int i = 0; i < 2; i++) {
        vs_event_clock_prepare(sources[i]);
        pause_ms(25);
        vs_event_clock_tune();
        assert_false(vs_event_clock_fast());
        pause_ms(2); /* anchors that were made before have ended */
        uint64_t anchors = vs_self.clock.anchor >> 32;
        assert_int_equal(wrong_readings(5 * MS, &readings), 0);
        assert_int_equal(vs_self.clock.anchor >> 32, anchors);
    }
    unlink(path);
}

TEST(a_counter_that_runs_away_is_given_up_for_good)
{
    uint64_t readings = 0, last = 0;
    need_fast();
    /* A counter that is behind for this thread alone, as on a processor out of step. */
    for (int i = 0; i < 100 && vs_event_clock_fast(); i++) {
        last = vs_event_clock_ns();
        vs_self.clock.ns -= 20000;
        for (uint64_t until = vs_clock_ns() + 3 * MS; vs_clock_ns() < until;) {
            uint64_t t = vs_event_clock_ns();
            assert_true(t >= last);
            last = t;
        }
    }
    assert_false(vs_event_clock_fast());
    assert_int_equal(wrong_readings(5 * MS, &readings), 0);
    pause_ms(25);
    vs_event_clock_tune();
    assert_false(vs_event_clock_fast());
}

TEST(a_rate_that_jumps_is_given_up)
{
    uint64_t readings = 0;
    need_fast();
    vs_event_clock_ns();
    uint64_t rate = vs_self.clock.rate;
    assert_true(vs_event_clock_publish(rate + rate / 10000)); /* what NTP does */
    assert_false(vs_event_clock_publish(rate + rate / 100));  /* what another machine does */
    assert_false(vs_event_clock_fast());
    pause_ms(2);
    assert_int_equal(wrong_readings(5 * MS, &readings), 0);
    assert_false(vs_event_clock_publish(0));
}
