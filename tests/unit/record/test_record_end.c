/*
 * test_record_end.c - the end of a recording: the file is complete, or a database that fails leaves the
 * journal to recover, and is said once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "unit/core/capture.h"

#include "child_kit.h"

IN_CHILD(after_the_final_drain_the_file_is_complete_and_late_events_still_get_in)
{
    struct vs_event *e;
    char journal[PATH_MAX];
    for (uint64_t i = 0; i < 20000; i++) {
        alloc(i);
        if (i % 1000 == 0)
            usleep(100);
    }
    strcpy(journal, vs_recording->journal_path);
    CHECK(exists(journal));
    vs_drain_finish();
    struct vs_journal_stats s;
    vs_journal_stats(vs_record_journal(), &s);
    size_t n = load(in_dir("run.db"), &e);
    CHECK(n + s.lost == 20000);
    CHECK(!exists(journal) && closed_clean);
    CHECK(record(VS_OP_FREE, 1) != VS_SEQ_NONE);
    CHECK(load(in_dir("run.db"), &e) == n + 1);
    vs_drain_finish(); /* again: nothing happens */
}

IN_CHILD(a_database_that_fails_is_said_once_and_loses_nothing_when_it_comes_back)
{
    struct vs_event *e;
    writer_error = -ENOSPC;
    capture_begin();
    for (uint64_t i = 0; i < 1000; i++)
        alloc(i);
    capture_await();
    for (int i = 0; i < 6000 && writer_refused < 2; i++) /* it is tried once more, and said no more */
        usleep(10000);
    CHECK(writer_refused >= 2);
    writer_error = 0;
    settle();
    const char *said = capture_end();
    CHECK(lines_in(said) == 1 && strstr(said, "run.db") && strstr(said, "recover"));
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 1000);
}

IN_CHILD(a_database_that_never_works_leaves_the_journal_to_recover)
{
    struct vs_journal *j;
    struct vs_event e[16];
    uint64_t seq[16];
    char journal[PATH_MAX];
    writer_error = -EROFS;
    capture_begin();
    alloc(1);
    alloc(2);
    strcpy(journal, vs_recording->journal_path);
    vs_drain_finish();
    CHECK(lines_in(capture_end()) == 1);
    CHECK(vs_journal_open(&j, journal, false) == 0);
    CHECK(vs_journal_peek(j, e, seq, 16, true) == 2);
    CHECK(strcmp(vs_journal_database(j), in_dir("run.db")) == 0);
}

IN_CHILD(no_place_to_write_is_one_line_and_then_silence)
{
    char *environment[] = {(char *)(uintptr_t) "VRAMSCOPE_OUTPUT=/nonexistent/run.db", NULL};
    vs_options_load(environment);
    capture_begin();
    errno = 77;
    for (int i = 0; i < 10; i++)
        CHECK(alloc(1) == VS_SEQ_NONE);
    CHECK(errno == 77 && !vs_record_enabled());
    vs_drain_finish();
    const char *said = capture_end();
    CHECK(lines_in(said) == 1 && strstr(said, "/nonexistent/run.db") && strstr(said, "VRAMSCOPE_OUTPUT"));
}

IN_CHILD(errno_is_kept_by_every_kind_of_record)
{
    errno = 77;
    alloc(1); /* starts everything */
    CHECK(errno == 77);
    for (int i = 0; i < 6000; i++) /* nudges the drain, fills the ring */
        alloc(2);
    vs_record_window(false);
    vs_record_window(true);
    vs_record_simulated(true);
    vs_drain_finish();
    record(VS_OP_FREE, 1); /* late mode */
    CHECK(errno == 77);
    CHECK(said_simulated && strcmp(vs_journal_fact(vs_record_journal(), "simulated"), "1") == 0);
}

static void leave_by_pthread_exit(void)
{
    CHECK(freopen(in_dir("out"), "w", stdout));
    printf("written at exit");
    alloc(1);
    alloc(2);
    pthread_exit(NULL); /* the last thread of the host: the process must end now, and with status 0 */
}

TEST(a_main_that_leaves_by_pthread_exit_ends_the_process_and_completes_the_file, make_dir, drop_dir)
{
    struct vs_event *e = NULL;
    if (TSAN) /* it keeps a thread of its own */
        skip();
    in_child(leave_by_pthread_exit);
    assert_int_equal(load(in_dir("run.db"), &e), 2);
    free(e);
    struct stat st;
    assert_int_equal(stat(in_dir("out"), &st), 0);
    assert_int_equal(st.st_size, strlen("written at exit"));
}
