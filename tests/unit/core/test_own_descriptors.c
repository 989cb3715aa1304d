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
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "unit/child.h"
#include "core/own_threads.h"

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
        _exit(UNTRIED);
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

/* A host that closes everything while our thread has a file open; REFUSED: a filter is in its way. */
static int goes(bool (*make)(void), bool refused)
{
    make_own = make;
    pthread_t thread;
    char byte;
    alarm(20);
    if (refused)
        refuse();
    for (int i = 0; i < 300; i++) /* more than one look at the directory shows */
        (void)!dup(2);
    if (pipe(host_pipe) || pthread_barrier_init(&barrier, NULL, 2) ||
        pthread_create(&thread, NULL, work, NULL))
        return BROKEN;
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
    return survives == own ? HOLDS : 4;
}

CHILD_TEST(a_newer_kernel_gives_an_empty_table)
{
    return goes(vs_own_descriptors, false);
}

CHILD_TEST(an_older_kernel_gives_a_copy_that_is_emptied)
{
    return goes(vs_own_descriptors_by_copy, false);
}

CHILD_TEST(a_filter_that_kills_is_not_tried)
{
    return goes(vs_own_descriptors, true);
}
