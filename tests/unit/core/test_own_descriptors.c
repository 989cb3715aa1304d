/*
 * test_own_descriptors.c - a thread with descriptors of its own, as newer and as older kernels make it:
 * nobody takes its files away, it keeps nothing of anybody's open, and where a filter refuses it goes on with
 * the process's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/own_descriptors.h"

enum { SKIPPED = 77 };

static void refuse(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit(SKIPPED);
}

static bool (*make_own)(void);
static int host_pipe[2];
static bool own, keeps_the_hosts, survives;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    static const char text[] = "ours";
    char back[sizeof text] = "";
    own = make_own();
    keeps_the_hosts = fcntl(host_pipe[0], F_GETFD) != -1 || fcntl(host_pipe[1], F_GETFD) != -1;
    int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    pthread_barrier_wait(&barrier); /* the host has all closed, and takes numbers again */
    pthread_barrier_wait(&barrier);
    survives = write(fd, text, sizeof text) == sizeof text &&
               pread(fd, back, sizeof back, 0) == sizeof back && memcmp(text, back, sizeof text) == 0;
    return NULL;
}

/* In a child: a host that closes everything while our thread has a file open.  0, or what is wrong. */
static int look(bool refused)
{
    pthread_t thread;
    char byte;
    alarm(20);
    if (refused)
        refuse();
    for (int i = 0; i < 300; i++) /* more than one look at the directory shows */
        (void)!dup(2);
    if (pipe(host_pipe) || pthread_barrier_init(&barrier, NULL, 2) ||
        pthread_create(&thread, NULL, work, NULL))
        return 1;
    pthread_barrier_wait(&barrier);
    close(host_pipe[1]);
    ssize_t end = own ? read(host_pipe[0], &byte, 1) : 0; /* nobody else has the other end: no waiting */
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < 100; i++)
        (void)!open("/dev/null", O_RDONLY);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    if (own == refused || end != 0)
        return 2;
    if (own && keeps_the_hosts)
        return 3;
    return survives == own ? 0 : 4;
}

static void assert_goes(bool (*make)(void), bool refused)
{
    int status;
    make_own = make;
    pid_t child = fork();
    if (child == 0)
        _exit(look(refused));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(a_newer_kernel_gives_an_empty_table)
{
    assert_goes(vs_own_descriptors, false);
}

TEST(an_older_kernel_gives_a_copy_that_is_emptied)
{
    assert_goes(vs_own_descriptors_by_copy, false);
}

TEST(a_filter_that_kills_is_not_tried)
{
    assert_goes(vs_own_descriptors, true);
}
