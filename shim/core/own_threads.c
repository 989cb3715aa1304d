/* own_threads.c - starts threads, and gives one a descriptor table of its own. */
#define _GNU_SOURCE
#include "own_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "own_work.h"
#include "procstat.h"

int vs_own_thread(pthread_t *joined, size_t stack, void *(*function)(void *), void *argument)
{
    struct vs_signal_mask before;
    pthread_attr_t attr;
    pthread_t thread;
    int saved = errno;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack + (size_t)sysconf(_SC_THREAD_STACK_MIN));
    if (!joined)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    vs_signal_mask_block(&before);
    int error = pthread_create(joined ? joined : &thread, &attr, function, argument);
    vs_signal_mask_restore(&before);
    pthread_attr_destroy(&attr);
    errno = saved;
    return error;
}

struct entry { /* what getdents64 gives */
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* The number in TEXT; -1: "." or "..". */
static int number_of(const char *text)
{
    int number = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        number = 10 * number + *text - '0';
    }
    return number;
}

/* Closes the descriptors that one reading of the open directory LIST shows, except LIST itself.  Returns how
 * many; -1: it cannot be read. */
static int close_listed(int list)
{
    _Alignas(struct entry) char buffer[4096];
    int closed = 0;
    long bytes;
    while ((bytes = syscall(SYS_getdents64, list, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < bytes; at += ((struct entry *)(buffer + at))->length) {
            int number = number_of(((struct entry *)(buffer + at))->name);
            if (number >= 0 && number != list)
                closed += close(number) == 0;
        }
    return bytes < 0 ? -1 : closed;
}

/* A reading may miss entries while others are removed, so it is repeated until nothing is left. */
static bool close_by_list(void)
{
    int list = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), closed = 1;
    if (list < 0)
        return false;
    while (closed > 0) {
        closed = close_listed(list);
        lseek(list, 0, SEEK_SET);
    }
    close(list);
    return closed == 0;
}

static void close_copies(void)
{
    if (close_by_list())
        return;
    uint64_t limit = vs_limit(VS_LIMIT_FILES);
    for (uint64_t i = 0; i < (limit < 1u << 20 ? limit : 1u << 20); i++)
        close((int)i);
}

bool vs_own_descriptors_by_copy(void)
{
    int kept = errno;
    bool own = unshare(CLONE_FILES) == 0;
    if (own)
        close_copies();
    errno = kept;
    return own;
}

/* Whether the kernel is older than the call. */
static bool is_older(void)
{
    struct utsname name;
    int major = 0, minor = 0;
    return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
           (major < 5 || (major == 5 && minor < 9));
}

/* One call makes it from Linux 5.9 on.  Before, the table is copied first, and then the copies that /proc
 * lists are closed one by one: if a copy of a pipe's end stayed open, the host would never see the end of the
 * pipe.  If a newer kernel refuses, a filter of the host's (seccomp) did, and nothing else is tried, because
 * a filter may kill the process for it. */
bool vs_own_descriptors(void)
{
    int kept = errno;
    bool own = syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0 ||
               (errno == ENOSYS && is_older() && vs_own_descriptors_by_copy());
    errno = kept;
    return own;
}
