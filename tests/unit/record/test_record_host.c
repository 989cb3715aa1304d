/*
 * test_record_host.c - what a host may do to a recording: fork, raw clone, signals, closed descriptors,
 * cancelled threads; and that the drain's thread takes nothing of the host's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "core/clock.h"

#include "child_kit.h"

/* ---- forks ---- */

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

/* ---- signals, descriptors, cancellation ---- */

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
