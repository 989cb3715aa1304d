// link: cuda
/*
 * prog_steady STEPS [FROM FILE] - a training run: steps of 1046 events in four phases, 58 ms apart, but for
 * four near the beginning, so that the recorder's largest piece of work comes before anything is counted.
 *
 * From step FROM on the kernel tells of each call that changes the address space (seccomp's user
 * notification); FILE gets one line for each that the recorder's threads make.
 */
#define _GNU_SOURCE
#include "prog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vramscope.h"

#ifndef SECCOMP_FILTER_FLAG_TSYNC_ESRCH
#define SECCOMP_FILTER_FLAG_TSYNC_ESRCH (1UL << 4)
#endif

#define HALF                                                                                                 \
    259 /* allocations, then as many frees: twice a step, with 8 pushes and pops and the step itself */

static const struct {
    int number;
    const char *name;
} watched[] = {{SYS_mmap, "mmap"},     {SYS_munmap, "munmap"},   {SYS_mprotect, "mprotect"},
               {SYS_mremap, "mremap"}, {SYS_madvise, "madvise"}, {SYS_brk, "brk"}};
#define WATCHED (sizeof watched / sizeof *watched)

static _Atomic unsigned counts[WATCHED];
static int listener = -1;

static int recorders(unsigned tid)
{
    char path[64], name[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, name, sizeof name - 1) < 0)
        name[0] = '\0';
    if (fd >= 0)
        close(fd);
    return strncmp(name, "vramscope", 9) == 0;
}

/* Counts and lets go on.  It makes none of the watched calls itself: nobody would let it go on. */
static void *watch(void *unused)
{
    struct seccomp_notif request;
    for (;;) {
        memset(&request, 0, sizeof request);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0)
            continue;
        for (size_t i = 0; i < WATCHED; i++)
            if (watched[i].number == request.data.nr && recorders(request.pid))
                counts[i]++;
        struct seccomp_notif_resp answer = {.id = request.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return NULL;
}

static void ask_the_kernel(void)
{
    struct sock_filter code[WATCHED * 2 + 2];
    size_t n = 0;
    pthread_t thread;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < WATCHED; i++) {
        code[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)watched[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    CHECK(pthread_create(&thread, NULL, watch, NULL) == 0); /* until there is a listener its reads fail */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                            SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
                                SECCOMP_FILTER_FLAG_NEW_LISTENER,
                            &program);
    if (listener < 0)
        exit(77);
}

static void half(CUdeviceptr *p, const char *allocating, const char *freeing)
{
    vramscope_range_push(allocating);
    for (int i = 0; i < HALF; i++)
        OK(cuMemAlloc(&p[i], 4096));
    vramscope_range_pop();
    vramscope_range_push(freeing);
    for (int i = 0; i < HALF; i++)
        OK(cuMemFree(p[i]));
    vramscope_range_pop();
}

static void report(const char *path)
{
    FILE *f = fopen(path, "w");
    CHECK(f);
    for (size_t i = 0; i < WATCHED; i++)
        fprintf(f, "%s %u\n", watched[i].name, counts[i]);
    fclose(f);
}

int main(int argc, char **argv)
{
    static CUdeviceptr p[HALF];
    int steps = argc > 1 ? atoi(argv[1]) : 20, from = argc > 3 ? atoi(argv[2]) : -1;
    struct timespec pause = {0, 58000000};
    begin();
    for (int i = 0; i < steps; i++) {
        if (i == from)
            ask_the_kernel();
        half(p, "forward", "logits");
        half(p, "backward", "optimizer");
        vramscope_step();
        if (i < 5 || i >= 9)
            nanosleep(&pause, NULL);
    }
    if (from >= 0)
        report(argv[3]);
    puts("done");
    return 0;
}
