/*
 * child_kit.h - a recording in a child process for each test, as a recording is one per process, over the
 * stand-ins of standins.h.
 *
 *   IN_CHILD(name) { ... }   # a test T(name) whose body runs in the child, in a directory of its own (dir)
 *   CHECK(x)                 # what holds there; otherwise the child says so and the test fails
 *   alloc(1); settle();      # records; waits until the drain has written all of it
 *   load(in_dir("run.db"), &events)
 *
 * `option` is one more variable of the environment of all of a program's recordings.
 */
#ifndef TESTS_UNIT_RECORD_CHILD_KIT_H
#define TESTS_UNIT_RECORD_CHILD_KIT_H

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/log.h"
#include "core/options.h"
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

static inline int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs-record-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* A path in the test's directory; two calls' results are good at a time. */
static inline const char *in_dir(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;
    turn = !turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", dir, name);
    return path[turn];
}

/* One more variable, VRAMSCOPE_..=.., for each child; NULL: none. */
static const char *option;

static inline void set_options(const char *extra)
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

static inline void in_child(void (*test)(void))
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        alarm(60);
        set_options(option);
        vs_recording_prepare();
        test();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

#define IN_CHILD(name)                                                                                       \
    static void name##_(void);                                                                               \
    TEST(name, make_dir, drop_dir)                                                                           \
    {                                                                                                        \
        in_child(name##_);                                                                                   \
    }                                                                                                        \
    static void name##_(void)

static inline uint64_t record(enum vs_op op, uint64_t address)
{
    struct vs_event e = {.op = (uint8_t)op, .address = address};
    return vs_record(&e);
}

static inline uint64_t alloc(uint64_t address)
{
    return record(VS_OP_ALLOC, address);
}

/* Waits until the drain has emptied the ring. */
static inline void settle(void)
{
    struct vs_journal_stats s;
    do {
        usleep(2000);
        vs_journal_stats(vs_record_journal(), &s);
    } while (s.head != s.tail);
}

/* The events of a stand-in database; samples are left out. */
static inline size_t load(const char *path, struct vs_event **out)
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

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

#endif
