// link: cuda
/*
 * A signal every 200 us, whose handler opens and closes phases, while the main thread allocates: all come
 * to the main thread, and no call is lost or interrupted.
 */
#define _GNU_SOURCE
#include "prog.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include "vramscope.h"

static pthread_t main_thread;
static volatile sig_atomic_t ticks, elsewhere, changed_errno;

static void tick(int signal_number)
{
    (void)signal_number;
    errno = 4321;
    vramscope_range_push("tick");
    vramscope_range_pop();
    if (errno != 4321)
        changed_errno = 1;
    if (!pthread_equal(pthread_self(), main_thread))
        elsewhere = 1;
    ticks++;
}

int main(void)
{
    CUdeviceptr p;
    struct itimerval timer = {.it_interval = {0, 200}, .it_value = {0, 200}}, off = {0};
    main_thread = pthread_self();
    begin();
    CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = tick, .sa_flags = SA_RESTART}, NULL) == 0);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 20000; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
    }
    while (ticks < 20)
        ;
    setitimer(ITIMER_REAL, &off, NULL);
    CHECK(!elsewhere);
    CHECK(!changed_errno);
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int s = 1; s < 32; s++)
        CHECK(sigismember(&blocked, s) == 0);
    puts("done");
    return 0;
}
