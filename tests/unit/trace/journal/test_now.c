/* test_now.c - the journal's page of the present: what a reader gets is what was said at one moment. */
#include <time.h>
#include <unistd.h>
#include <pthread.h>

#include "unit/test.h"
#include "trace/journal/journal.h"
#include "trace/journal/format.h"

static char path[64];

static struct vs_journal *create(void)
{
    struct vs_journal *j;
    struct vs_journal_config c = {.ring_slots = 64,
                                  .threads = 8,
                                  .contexts = 8,
                                  .devices = 4,
                                  .modules = 8,
                                  .frames = 64,
                                  .stacks = 64,
                                  .string_bytes = 4096};
    snprintf(path, sizeof path, "/tmp/vramscope-now-%d.vsj", (int)getpid());
    unlink(path);
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    return j;
}

static struct vs_journal *reader(void)
{
    struct vs_journal *j;
    assert_int_equal(vs_journal_open(&j, path, false), 0);
    return j;
}

TEST(nothing_is_seen_before_anything_was_said)
{
    struct vs_journal *j = create(), *r = reader();
    struct vs_now now;
    assert_int_equal(vs_journal_now(r, &now), VS_NOW_NOTHING);
    now = (struct vs_now){.t = 7, .devices = 1, .device = {{.allocated = 4096}}};
    vs_journal_publish(j, &now);
    now = (struct vs_now){0};
    assert_int_equal(vs_journal_now(r, &now), VS_NOW_SEEN);
    assert_int_equal(now.t, 7);
    assert_int_equal(now.device[0].allocated, 4096);
    vs_journal_close(r);
    vs_journal_close(j);
    unlink(path);
}

/* every word of a figure is the same number */
static struct vs_now figure(uint64_t n)
{
    struct vs_now now;
    for (size_t i = 0; i < sizeof now / sizeof n; i++)
        memcpy((char *)&now + i * sizeof n, &n, sizeof n);
    return now;
}

static _Atomic int stop;

static void *write_on(void *journal)
{
    for (uint64_t n = 1; !stop; n++) {
        struct vs_now now = figure(n);
        vs_journal_publish(journal, &now);
        for (volatile int pause = 0; pause < 3000; pause++) /* a reader gets a turn, as with a real drain */
            continue;
    }
    return NULL;
}

TEST(a_reader_never_sees_two_moments_at_once)
{
    struct vs_journal *j = create(), *r = reader();
    pthread_t thread;
    uint64_t last = 0, seen = 0;
    pthread_create(&thread, NULL, write_on, j);
    for (time_t end = time(NULL) + 30; seen < 5000 && time(NULL) < end;) {
        struct vs_now now;
        if (vs_journal_now(r, &now) != VS_NOW_SEEN)
            continue;
        struct vs_now wanted = figure((uint64_t)now.t);
        wanted.devices = now.devices; /* bounded, as they come from elsewhere */
        wanted.ranges = now.ranges;
        assert_true(now.devices <= VS_NOW_DEVICES && now.ranges <= VS_NOW_RANGES);
        assert_memory_equal(&now, &wanted, sizeof now);
        assert_true((uint64_t)now.t >= last); /* never back */
        last = (uint64_t)now.t;
        seen++;
    }
    stop = 1;
    pthread_join(thread, NULL);
    assert_int_equal(seen, 5000);
    vs_journal_close(r);
    vs_journal_close(j);
    unlink(path);
}

TEST(a_writer_killed_in_between_is_noticed_and_the_next_one_goes_on)
{
    struct vs_journal *j = create(), *r = reader();
    struct vs_now now = figure(3);
    vs_journal_publish(j, &now);
    _Atomic uint64_t *sequence = vs_journal_row(j, VS_SEC_PAGES, VS_PAGE, VS_PAGE_NOW);
    atomic_fetch_add(sequence, 1); /* as a kill leaves it */
    assert_int_equal(vs_journal_now(r, &now), VS_NOW_TORN);
    now = figure(4);
    vs_journal_publish(j, &now); /* a recovery */
    assert_int_equal(vs_journal_now(r, &now), VS_NOW_SEEN);
    assert_int_equal(now.t, 4);
    vs_journal_close(r);
    vs_journal_close(j);
    unlink(path);
}
