// link: cuda
/*
 * prog_truncate - a host to which something happens in mid-run: prog_truncate WHAT [PATTERN]
 *
 *      cut PATTERN   the file that is called so is truncated to nothing; it goes on, and prints "done"
 *      last PATTERN  likewise, and it ends at once
 *      own           it has a handler for SIGBUS itself: prints whether it still has
 *      later         it installs one while a recording runs, and faults: the handler prints, and ends with
 *                    status 5
 *      fault         it touches memory of its own behind the end of a file
 *      sent          it sends itself SIGBUS
 */
#include "prog.h"
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void allocate(int pairs)
{
    struct timespec pause = {0, 1000000};
    CUdeviceptr p;
    for (int i = 0; i < pairs; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
        nanosleep(&pause, NULL);
    }
}

static void handler(int sig)
{
    static const char text[] = "the program's own handler\n";
    _exit(write(1, text, sizeof text - 1) > 0 ? 5 : 6);
}

static void fault(void)
{
    char name[] = "/tmp/prog_truncate.XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    unlink(name);
    volatile char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED);
    *m = 1;
}

int main(int argc, char **argv)
{
    struct sigaction now;
    glob_t found;
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "own") == 0)
        signal(SIGBUS, handler);
    begin();
    allocate(200);
    if (argc > 2 && glob(argv[2], 0, NULL, &found) == 0)
        CHECK(found.gl_pathc == 1 && truncate(found.gl_pathv[0], 0) == 0);
    if (strcmp(what, "last") == 0)
        return 0;
    if (strcmp(what, "later") == 0)
        signal(SIGBUS, handler);
    if (strcmp(what, "later") == 0 || strcmp(what, "fault") == 0)
        fault();
    if (strcmp(what, "sent") == 0)
        raise(SIGBUS);
    allocate(300);
    sigaction(SIGBUS, NULL, &now);
    puts(now.sa_handler == handler ? "has its own handler" : "done");
    return 0;
}
