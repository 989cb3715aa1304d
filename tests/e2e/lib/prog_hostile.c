// link: cuda
/*
 * prog_hostile.c HOW - a process that behaves badly: ends with "done" and status 0 where nothing of it is
 * broken.
 *
 * Where a signal may strike anywhere the interrupted code uses markers alone: a driver has locks of its
 * own.
 */
#define _GNU_SOURCE
#include "prog.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "vramscope.h"

extern char **environ;
static CUcontext context;
static sigjmp_buf back;
static volatile sig_atomic_t ticks;

static void pair(void)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemFree(p));
}

/* With a moment between, or the ring is full in no time. */
static void mark(void)
{
    for (volatile int i = 0; i < 2000; i++)
        ;
    vramscope_range_push("mark");
    vramscope_range_pop();
}

static void every_100us(void (*handler)(int))
{
    struct itimerval timer = {.it_interval = {0, 100}, .it_value = {0, 100}};
    CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART}, NULL) == 0);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void no_more(void)
{
    struct itimerval off = {0};
    signal(SIGALRM, SIG_IGN);
    setitimer(ITIMER_REAL, &off, NULL);
}

static void allocates(int number)
{
    (void)number;
    pair();
    ticks++;
}

static void storm(void)
{
    pair();
    every_100us(allocates);
    while (ticks < 2000)
        mark();
    no_more();
}

static void jumps(int number)
{
    (void)number;
    ticks++;
    siglongjmp(back, 1);
}

static void jump(void)
{
    pair();
    sigsetjmp(back, 1);
    if (ticks == 0)
        every_100us(jumps);
    while (ticks < 2000)
        mark();
    no_more();
}

/* ---- threads ---- */

static void *marks_for_ever(void *asynchronous)
{
    if (asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        mark();
        pthread_testcancel();
    }
    return NULL;
}

static void *pairs_for_ever(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    for (;;) {
        pair();
        pthread_testcancel();
    }
    return NULL;
}

static void cancel(void)
{
    struct timespec moment = {0, 300000};
    pair();
    for (size_t i = 0; i < 200; i++) {
        pthread_t t;
        void *result;
        CHECK(pthread_create(&t, NULL, i % 3 == 2 ? pairs_for_ever : marks_for_ever, (void *)(i % 3)) == 0);
        nanosleep(&moment, NULL);
        pthread_cancel(t);
        pthread_join(t, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
}

static pthread_key_t key;

static void at_thread_end(void *unused)
{
    (void)unused;
    pair();
    mark();
}

static void *short_life(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    CHECK(pthread_setspecific(key, &key) == 0);
    vramscope_range_push("left open");
    pair();
    return NULL;
}

static void threads(void)
{
    pthread_t t[200];
    CHECK(pthread_key_create(&key, at_thread_end) == 0);
    for (int i = 0; i < 200; i++)
        CHECK(pthread_create(&t[i], NULL, short_life, NULL) == 0);
    for (int i = 0; i < 200; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static atomic_bool paired; /* whether any thread has made one */

/* (A driver that has ended refuses: that is not this program's end too.) */
static void *pairs_while_they_last(void *unused)
{
    CUdeviceptr p;
    (void)unused;
    OK(cuCtxSetCurrent(context));
    while (cuMemAlloc(&p, 4096) == CUDA_SUCCESS) {
        cuMemFree(p);
        paired = true;
        usleep(20);
    }
    return NULL;
}

static long moment_ms;

static void leave(void)
{
    struct timespec moment = {0, moment_ms * 1000000};
    for (int i = 0; i < 8; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, pairs_while_they_last, NULL) == 0);
    }
    while (moment_ms >= 20 && !paired) /* so long after the first, and earlier ones while there is none yet */
        usleep(1000);
    nanosleep(&moment, NULL);
}

/* ---- processes ---- */

static char *program;

static void wait_for(pid_t child)
{
    int status;
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static void *execs(void *unused)
{
    (void)unused;
    execl(program, program, "one", NULL);
    return NULL;
}

static void exec_in_thread(void)
{
    pthread_t t;
    pair();
    CHECK(pthread_create(&t, NULL, execs, NULL) == 0);
    for (;;)
        pair();
}

static void spawn(void)
{
    char one[] = "one", *arguments[] = {program, one, NULL};
    pid_t child;
    pair();
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    wait_for(child);
    child = vfork();
    if (child == 0) {
        execl(program, program, "one", NULL);
        _exit(9);
    }
    wait_for(child);
}

static void daemonize(void)
{
    pid_t child = fork();
    if (child == 0) {
        setsid();
        child = fork();
        if (child != 0)
            _exit(child < 0);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        CHECK(chdir("/") == 0);
        begin();
        pair();
        exit(0);
    }
    wait_for(child);
}

/* The command with close_range refused: -> ERRNO. */
static void refuse(const char *error, char **command)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        exit(77);
    execv(command[0], command);
    exit(3);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"one", pair},        {"storm", storm}, {"jump", jump},           {"cancel", cancel},
                {"threads", threads}, {"leave", leave}, {"exec", exec_in_thread}, {"spawn", spawn}};
    CHECK(argc > 1);
    program = argv[0];
    moment_ms = argc > 2 ? atol(argv[2]) : 0;
    if (strcmp(argv[1], "refuse") == 0)
        refuse(argv[2], argv + 3);
    if (strcmp(argv[1], "daemonize") == 0) {
        daemonize();
        return 0;
    }
    begin();
    OK(cuCtxGetCurrent(&context));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            ways[i].run();
            puts("done");
            fflush(stdout);
            return 0;
        }
    return 2;
}
