/*
 * test_record.c - the recording API from the first event to the last, and everything that a host may do to
 * it: fork, raw clone, signals, closed descriptors, no place to write.
 *
 * Each test runs in a child process of its own, as a recording is one per process.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "unit/core/capture.h"
#include "core/clock.h"
#include "core/options.h"
#include "record/output.h"
#include "record/recording.h"
#include "standins.h"

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                          \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs-record-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* A path in the test's directory; two calls' results are good at a time. */
static const char *in_dir(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;
    turn = !turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", dir, name);
    return path[turn];
}

static void set_options(const char *extra)
{
    char output[128], journal[128];
    snprintf(output, sizeof output, "VRAMSCOPE_OUTPUT=%s/run.db", dir);
    snprintf(journal, sizeof journal, "VRAMSCOPE_JOURNAL_DIR=%s", dir);
    char *environment[] = {output, journal, (char *)(uintptr_t) "VRAMSCOPE_RING_EVENTS=4096",
                           (char *)(uintptr_t)extra, NULL};
    vs_options_load(environment);
    vs_log_init(NULL);
    vs_output_init();
}

/* ThreadSanitizer can't follow threads that are started in the fork child of a process with threads. */
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifndef TSAN
#define TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifndef ASAN
#define ASAN 0
#endif

static void in_child(void (*test)(void))
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        alarm(60);
        set_options(NULL);
        vs_recording_prepare();
        test();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

#define IN_CHILD(name)                                                                                       \
    static void name##_(void);                                                                               \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        in_child(name##_);                                                                                   \
    }                                                                                                        \
    static void name##_(void)

static uint64_t record(enum vs_op op, uint64_t address)
{
    struct vs_event e = {.op = (uint8_t)op, .address = address};
    return vs_record(&e);
}

static uint64_t alloc(uint64_t address)
{
    return record(VS_OP_ALLOC, address);
}

/* Waits until the drain has emptied the ring. */
static void settle(void)
{
    struct vs_journal_stats s;
    do {
        usleep(2000);
        vs_journal_stats(vs_record_journal(), &s);
    } while (s.head != s.tail);
}

/* The events of a stand-in database; samples are left out. */
static size_t load(const char *path, struct vs_event **out)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_size % 64 == 0);
    struct vs_event *e = malloc((size_t)st.st_size + 64);
    CHECK(read(fd, e, (size_t)st.st_size) == st.st_size);
    close(fd);
    size_t n = 0;
    for (off_t i = 0; i < st.st_size / 64; i++)
        if (e[i].op != VS_OP_SAMPLE)
            e[n++] = e[i];
    *out = e;
    return n;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- beginning ---- */

IN_CHILD(nothing_exists_before_the_first_successful_allocation)
{
    struct vs_event failed = {.op = VS_OP_ALLOC, .status = 2};
    CHECK(vs_record_enabled() && !vs_record_journal());
    CHECK(record(VS_OP_FREE, 1) == VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_PUSH, 1) == VS_SEQ_NONE);
    CHECK(vs_record(&failed) == VS_SEQ_NONE);
    CHECK(!exists(in_dir("run.db")) && !vs_record_journal());
    vs_drain_finish();
    CHECK(alloc(1) != VS_SEQ_NONE);
    CHECK(exists(in_dir("run.db")) && vs_record_journal());
    CHECK(strcmp(vs_journal_fact(vs_record_journal(), "version"), VRAMSCOPE_VERSION) == 0);
    CHECK(vs_journal_fact(vs_record_journal(), "command") && vs_journal_fact(vs_record_journal(), "host"));
}

IN_CHILD(fields_are_filled_in_and_those_of_ranges_left_alone)
{
    struct vs_event *e, push = {.op = VS_OP_RANGE_PUSH, .range = 5, .stack = 6},
                        foreign = {.op = VS_OP_RANGE_POP, .range = 5, .thread = VS_THREAD_UNKNOWN},
                        block = {.op = VS_OP_BLOCK_ALLOC};
    uint64_t before = vs_clock_ns();
    vs_self.range = VS_RANGE_UNKNOWN; /* what the stand-in says, 17 */
    alloc(1);
    vs_record(&push);
    vs_record(&foreign);
    vs_record(&block);
    record(VS_OP_FREE, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 5);
    CHECK(e[0].range == 17 && e[0].stack == 23 && e[0].thread == 1);
    CHECK(e[0].t_ns >= before && e[1].t_ns >= e[0].t_ns);
    CHECK(e[1].range == 5 && e[1].stack == 6 && e[1].thread == 1);
    CHECK(e[2].thread == VS_THREAD_UNKNOWN);
    CHECK(e[3].range == 17 && e[3].stack == 29); /* framework blocks: Python frames */
    CHECK(e[4].op == VS_OP_FREE && e[4].stack == 0 && e[4].range == 17);
}

IN_CHILD(the_range_is_asked_for_where_the_lines_do_not_say_it)
{
    struct vs_event *e;
    vs_self.range = 5;
    alloc(1);
    atomic_fetch_add(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING); /* a push that waits */
    alloc(2);
    atomic_fetch_sub(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING);
    vs_self.range = 0;
    alloc(3);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[0].range == 5 && e[1].range == 17 && e[2].range == 0);
}

IN_CHILD(without_stacks_no_event_has_one)
{
    struct vs_event *e;
    vs_options.stacks = VS_STACKS_OFF;
    alloc(1);
    record(VS_OP_BLOCK_ALLOC, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2);
    CHECK(e[0].stack == 0 && e[1].stack == 0);
}

IN_CHILD(with_driver_stacks_blocks_have_none)
{
    struct vs_event *e;
    vs_options.stacks = VS_STACKS_DRIVER;
    alloc(1);
    record(VS_OP_BLOCK_ALLOC, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2);
    CHECK(e[0].stack == 23 && e[1].stack == 0);
}

IN_CHILD(with_all_stacks_blocks_have_one_too_and_what_ends_has_none)
{
    struct vs_event *e;
    vs_options.stacks = VS_STACKS_ALL;
    alloc(1);
    record(VS_OP_BLOCK_ALLOC, 1);
    record(VS_OP_BLOCK_FREE, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[0].stack == 23 && e[1].stack == 23 && e[2].stack == 0);
}

static void *start_at_once(void *barrier)
{
    pthread_barrier_wait(barrier);
    for (uint64_t i = 0; i < 500; i++)
        CHECK(alloc(i) != VS_SEQ_NONE);
    return NULL;
}

IN_CHILD(threads_that_start_together_lose_nothing)
{
    pthread_t t[4];
    pthread_barrier_t b;
    struct vs_event *e;
    pthread_barrier_init(&b, NULL, 4);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, start_at_once, &b);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2000);
    CHECK(!exists(in_dir("run-2.db")));
}

/* ---- the end ---- */

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
    usleep(300000);
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

static void a_main_that_leaves_by_pthread_exit_ends_the_process_and_completes_the_file(void **state)
{
    struct vs_event *e;
    if (TSAN) /* it keeps a thread of its own */
        skip();
    in_child(leave_by_pthread_exit);
    assert_int_equal(load(in_dir("run.db"), &e), 2);
    free(e);
    struct stat st;
    assert_int_equal(stat(in_dir("out"), &st), 0);
    assert_int_equal(st.st_size, strlen("written at exit"));
}

/* ---- what a host may do ---- */

static void expect_child(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static char state_of_thread(const char *id)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", id);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = 0;
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] ? name_end[2] : '?';
}

static bool others_sleep(void)
{
    char own[24];
    bool all = true;
    snprintf(own, sizeof own, "%ld", syscall(SYS_gettid));
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (const struct dirent *d; (d = readdir(tasks));)
        if (d->d_name[0] != '.' && strcmp(d->d_name, own) != 0)
            all = all && state_of_thread(d->d_name) == 'S';
    closedir(tasks);
    return all;
}

/* The address sanitizer's allocator survives no fork while another thread is inside it: the child's threads
 * wait for its lock for ever, before their first line.  So nobody is: our threads, which have just been
 * started, sleep.  (That a fork at any other moment is survived, too, is for the other builds to show.) */
static void prepare_fork(void)
{
    for (int quiet = 0; ASAN && quiet < 5; usleep(1000))
        quiet = others_sleep() ? quiet + 1 : 0;
}

static void record_as_child(void)
{
    CHECK(vs_record_enabled() && !vs_record_journal());
    CHECK(record(VS_OP_FREE, 1) == VS_SEQ_NONE); /* inherited memory: not ours to tell of */
    for (uint64_t i = 0; i < 100; i++)
        CHECK(alloc(1000 + i) != VS_SEQ_NONE);
    vs_drain_finish();
    _exit(0);
}

static void check_parent_and_child(void)
{
    struct vs_event *e;
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[0].address == 1 && e[1].address == 2 && e[2].address == 3);
    CHECK(load(in_dir("run-2.db"), &e) == 100);
    CHECK(e[0].address == 1000 && e[99].address == 1099 && e[0].thread == 1);
}

IN_CHILD(a_fork_child_gets_a_file_of_its_own_and_leaves_its_parents_alone)
{
    if (TSAN)
        return;
    alloc(1);
    alloc(2);
    prepare_fork();
    pid_t pid = fork();
    if (pid == 0)
        record_as_child();
    expect_child(pid);
    alloc(3);
    check_parent_and_child();
}

IN_CHILD(a_raw_clone_child_is_noticed_too)
{
    if (TSAN)
        return;
    alloc(1);
    alloc(2);
    prepare_fork();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        record_as_child();
    expect_child(pid);
    alloc(3);
    check_parent_and_child();
}

IN_CHILD(a_child_that_allocates_nothing_makes_nothing_and_drains_nothing)
{
    struct vs_event *e;
    alloc(1);
    settle();
    writer_error = -EIO; /* the parent's next round fails, so a drained event would be the child's doing */
    alloc(2);
    prepare_fork();
    pid_t pid = fork();
    if (pid == 0) {
        writer_error = 0;
        record(VS_OP_FREE, 1);
        record(VS_OP_RANGE_PUSH, 1);
        vs_drain_finish();
        _exit(0);
    }
    expect_child(pid);
    CHECK(load(in_dir("run.db"), &e) == 1);
    CHECK(!exists(in_dir("run-2.db")));
    writer_error = 0;
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2);
}

static _Atomic uint64_t from_handler;

static void on_timer(int signal)
{
    if (alloc(7) != VS_SEQ_NONE)
        from_handler++;
}

IN_CHILD(a_signal_handler_may_record_at_any_point_of_a_record)
{
    struct vs_event *e;
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval fast = {{0, 50}, {0, 50}}, none = {{0, 0}, {0, 0}};
    uint64_t from_thread = 0, until;
    alloc(1);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &fast, NULL);
    until = vs_clock_ns() + 500000000;
    while (vs_clock_ns() < until || from_handler <= 100) /* longer where the machine is busy */
        from_thread += alloc(8) != VS_SEQ_NONE;
    setitimer(ITIMER_REAL, &none, NULL);
    settle(); /* on a busy machine that may take longer than an exit waits */
    vs_drain_finish();
    size_t n = load(in_dir("run.db"), &e), handler = 0, thread = 0;
    for (size_t i = 0; i < n; i++) {
        handler += e[i].address == 7;
        thread += e[i].address == 8;
    }
    CHECK(handler == from_handler && handler > 100);
    CHECK(thread == from_thread);
}

IN_CHILD(a_host_that_closes_every_descriptor_is_recorded_all_the_same)
{
    struct vs_event *e;
    alloc(1);
    for (int fd = 3; fd < 1000; fd++)
        close(fd);
    for (uint64_t i = 2; i <= 100; i++)
        alloc(i);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 100);
}

/* The drain thread has a table of its own: not one round of the host's may see another number. */
IN_CHILD(the_drain_thread_never_takes_a_number_of_the_hosts)
{
    int lowest = open("/dev/null", O_RDONLY);
    close(lowest);
    vs_options.sample_ms = 0; /* no sampler: its thread shares the host's table while it loads NVML */
    alloc(1);
    for (int i = 0; i < 400; i++) {
        int fd = open("/dev/null", O_RDONLY);
        CHECK(fd == lowest);
        alloc(2);
        usleep(500);
        close(fd);
    }
    vs_drain_finish();
}

IN_CHILD(a_database_is_on_no_descriptor_of_the_hosts)
{
    int lowest = open("/dev/null", O_RDONLY); /* not always 3: ctest leaves its log open in its tests */
    int same = 0;
    close(lowest);
    alloc(1);
    for (int i = 0; i < 200; i++) {
        int fd = open("/dev/null", O_RDONLY);
        same += fd == lowest; /* what a host without us would get, however often we open something */
        alloc(2);
        usleep(500);
        close(fd);
    }
    /* With the sampler's thread, which shares the host's table, a round may see another number for a moment.
     * One that is kept would be seen by all. */
    CHECK(same > 100);
    vs_drain_finish();
}

IN_CHILD(the_drain_thread_is_named_and_takes_no_signals)
{
    char command[256], line[256] = "";
    alloc(1);
    settle();
    snprintf(command, sizeof command,
             "cat /proc/%d/task/*/status | grep -A60 'Name:.vramscope' | grep SigBlk", (int)getpid());
    FILE *p = popen(command, "r");
    CHECK(p && fgets(line, sizeof line, p));
    uint64_t blocked = strtoull(strchr(line, '\t'), NULL, 16);
    uint64_t cannot = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 3ull << 31; /* 32 and 33 are glibc's */
    CHECK((blocked | cannot) == UINT64_MAX);
}

static void *start_while_cancelled(void *started)
{
    pthread_barrier_wait(started);
    pthread_barrier_wait(started); /* the cancellation waits by now */
    alloc(1);                      /* opens files on the way: cancellation points, if one let them */
    return NULL;
}

IN_CHILD(a_cancelled_thread_still_starts_the_recording_whole)
{
    pthread_t t;
    pthread_barrier_t b;
    struct vs_event *e;
    pthread_barrier_init(&b, NULL, 2);
    pthread_create(&t, NULL, start_while_cancelled, &b);
    pthread_barrier_wait(&b);
    pthread_cancel(t);
    pthread_barrier_wait(&b);
    pthread_join(t, NULL);
    CHECK(alloc(2) != VS_SEQ_NONE);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2);
}

IN_CHILD(a_thread_inside_vramscope_records_nothing)
{
    alloc(1);
    vs_record_enter_internal();
    vs_record_enter_internal();
    CHECK(!vs_record_enabled() && alloc(2) == VS_SEQ_NONE);
    vs_record_leave_internal();
    CHECK(!vs_record_enabled());
    vs_record_leave_internal();
    CHECK(vs_record_enabled() && alloc(3) != VS_SEQ_NONE);
}

static void *name_and_record(void *name)
{
    pthread_setname_np(pthread_self(), name);
    alloc(1);
    return NULL;
}

IN_CHILD(threads_have_rows_and_autograds_are_marked)
{
    pthread_t t;
    alloc(1);
    char name[] = "pt_autograd_0";
    pthread_create(&t, NULL, name_and_record, name);
    pthread_join(t, NULL);
    bool found = false;
    const struct vs_thread_row *row;
    for (uint32_t id = 1; (row = vs_journal_get_thread(vs_record_journal(), id)); id++) {
        if (strcmp(row->name, "pt_autograd_0") == 0)
            found = row->flags == VS_THREAD_AUTOGRAD && row->tid != (uint32_t)getpid();
        else
            CHECK(row->flags == 0);
    }
    CHECK(found);
}

/* ---- window, samples ---- */

IN_CHILD(a_closed_window_records_ends_only)
{
    struct vs_event *e;
    static const uint8_t expected[] = {VS_OP_ALLOC,     VS_OP_RECORD_STOP,  VS_OP_FREE,
                                       VS_OP_RANGE_POP, VS_OP_RECORD_START, VS_OP_ALLOC};
    alloc(1);
    vs_record_window(false);
    vs_record_window(false);
    CHECK(alloc(2) == VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_PUSH, 2) == VS_SEQ_NONE);
    CHECK(record(VS_OP_FREE, 1) != VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_POP, 1) != VS_SEQ_NONE);
    vs_record_window(true);
    alloc(3);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == sizeof expected);
    for (size_t i = 0; i < sizeof expected; i++)
        CHECK(e[i].op == expected[i]);
}

IN_CHILD(with_recording_off_nothing_starts_until_it_is_asked_for)
{
    set_options("VRAMSCOPE_ENABLED=off");
    CHECK(alloc(1) == VS_SEQ_NONE && !vs_record_start());
    CHECK(!exists(in_dir("run.db")));
    vs_record_window(true);
    CHECK(!exists(in_dir("run.db")));
    CHECK(alloc(2) != VS_SEQ_NONE);
    CHECK(exists(in_dir("run.db")));
}

IN_CHILD(without_nvml_the_host_is_asked_for_a_sample_once_a_tick)
{
    struct vs_device_row d = {.ordinal = 0, .name = "simcuda"};
    struct vs_event e = {.op = VS_OP_SAMPLE, .size = 5, .arg0 = VS_SAMPLE_MEMINFO};
    CHECK(!vs_sample_take_request());
    alloc(1);
    vs_record_simulated(true);
    vs_journal_device(vs_record_journal(), &d);
    uint64_t until = vs_clock_ns() + 2000000000;
    int asked = 0;
    while (asked < 3 && vs_clock_ns() < until) {
        asked += vs_sample_take_request();
        usleep(1000);
    }
    CHECK(asked == 3);
    vs_record(&e);
    CHECK(e.arg1 > 100000); /* the host's memory was filled in */
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_exists_before_the_first_successful_allocation),
        T(fields_are_filled_in_and_those_of_ranges_left_alone),
        T(the_range_is_asked_for_where_the_lines_do_not_say_it),
        T(without_stacks_no_event_has_one),
        T(with_driver_stacks_blocks_have_none),
        T(with_all_stacks_blocks_have_one_too_and_what_ends_has_none),
        T(threads_that_start_together_lose_nothing),
        T(after_the_final_drain_the_file_is_complete_and_late_events_still_get_in),
        T(a_database_that_fails_is_said_once_and_loses_nothing_when_it_comes_back),
        T(a_database_that_never_works_leaves_the_journal_to_recover),
        T(no_place_to_write_is_one_line_and_then_silence),
        T(a_main_that_leaves_by_pthread_exit_ends_the_process_and_completes_the_file),
        T(errno_is_kept_by_every_kind_of_record),
        T(a_fork_child_gets_a_file_of_its_own_and_leaves_its_parents_alone),
        T(a_raw_clone_child_is_noticed_too),
        T(a_child_that_allocates_nothing_makes_nothing_and_drains_nothing),
        T(a_signal_handler_may_record_at_any_point_of_a_record),
        T(a_host_that_closes_every_descriptor_is_recorded_all_the_same),
        T(the_drain_thread_never_takes_a_number_of_the_hosts),
        T(a_database_is_on_no_descriptor_of_the_hosts),
        T(the_drain_thread_is_named_and_takes_no_signals),
        T(a_cancelled_thread_still_starts_the_recording_whole),
        T(a_thread_inside_vramscope_records_nothing),
        T(threads_have_rows_and_autograds_are_marked),
        T(a_closed_window_records_ends_only),
        T(with_recording_off_nothing_starts_until_it_is_asked_for),
        T(without_nvml_the_host_is_asked_for_a_sample_once_a_tick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
