// link: cuda
/*
 * prog_truncate WHAT [PATTERN DATABASE] - a host to which something happens in mid-run.
 *
 *      cut     once events are in DATABASE, truncates the file called PATTERN to nothing and goes on, until
 *              that is mended where somebody mends it; prints its events before and at the end
 *      last    likewise, and ends at once
 *      own     it has a handler for SIGBUS itself: prints whether it still has
 *      later   installs one while a recording runs, and faults: the handler ends with status 5
 *      fault   touches memory of its own behind the end of a file
 *      sent    sends itself SIGBUS
 */
#include "prog.h"
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int made; /* events */

static void allocate(int pairs)
{
    struct timespec pause = {0, 1000000};
    CUdeviceptr p;
    for (int i = 0; i < pairs; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
        made += 2;
        nanosleep(&pause, NULL);
    }
}

/* Allocates until the file has more than SIZE bytes, for half a minute at most; returns how many it has. */
static off_t allocate_until(const char *path, off_t size)
{
    struct stat s = {.st_size = 0};
    for (time_t end = time(NULL) + 30; (stat(path, &s) != 0 || s.st_size <= size) && time(NULL) < end;)
        allocate(10);
    return s.st_size;
}

/* Truncates the one file that PATTERN names; returns its path.  Before, the recorder has written its tables
 * to DATABASE, then something more, and then what was made before that. */
static const char *cut(const char *pattern, const char *database)
{
    static glob_t found;
    static char log[4096];
    snprintf(log, sizeof log, "%s-wal", database);
    for (off_t i = 0, size = 0; i < 3; i++) {
        size = allocate_until(log, size);
        allocate(100);
    }
    CHECK(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    CHECK(truncate(found.gl_pathv[0], 0) == 0);
    return found.gl_pathv[0];
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
    const char *what = argc > 1 ? argv[1] : "", *file = NULL;
    if (strcmp(what, "own") == 0)
        signal(SIGBUS, handler);
    begin();
    allocate(200);
    if (argc > 3)
        file = cut(argv[2], argv[3]);
    int before = made;
    if (strcmp(what, "last") == 0)
        return 0;
    if (strcmp(what, "later") == 0)
        signal(SIGBUS, handler);
    if (strcmp(what, "later") == 0 || strcmp(what, "fault") == 0)
        fault();
    if (strcmp(what, "sent") == 0)
        raise(SIGBUS);
    allocate(300);
    if (file && strstr(file, "-shm"))
        allocate_until(file, 0);
    sigaction(SIGBUS, NULL, &now);
    puts(now.sa_handler == handler ? "has its own handler" : "done");
    if (file)
        printf("%d %d\n", before, made);
    return 0;
}
