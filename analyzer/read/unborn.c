/*
 * unborn.c - removes journals of processes that were killed while creating them: files without a header, as
 * large as a whole journal, which no process will ever fill.
 *
 * A file is removed if three conditions hold.  It belongs to the caller.  It is a journal, by its name or
 * because an empty database lies beside it.  And no process uses it.  A process that creates a journal has it
 * open or mapped from the first moment on.  The kernel grants a write lease on a file only while no other
 * process, in any container, has it open or mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leftover.h"
#include "trace/journal/journal.h"

static bool is_named_after_process(const char *name)
{
    long pid;
    unsigned long long start;
    int end = 0;
    if (sscanf(name, "vramscope-%ld-%llu%n", &pid, &start, &end) != 2)
        return false;
    return name[end] == '-' || !strcmp(name + end, VS_JOURNAL_SUFFIX);
}

/* "run.db.vsj" beside an empty "run.db". */
static bool is_beside_empty_database(const char *path)
{
    struct stat st;
    char *database = xformat("%.*s", (int)(strlen(path) - strlen(VS_JOURNAL_SUFFIX)), path);
    bool empty =
        lstat(database, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 && st.st_uid == geteuid();
    free(database);
    return empty;
}

/* The magic is written last. */
static bool has_no_head(int fd)
{
    static const char none[8];
    char head[8];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return false;
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n == 0 || (n == sizeof head && memcmp(head, none, sizeof head) == 0);
}

/* If another process opens the file during the lease the kernel sends SIGIO, whose default is to kill the
 * process. */
static bool nobody_has(int fd)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGIO, &ignore, &before);
    bool granted = fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
    if (granted)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    sigaction(SIGIO, &before, NULL);
    return granted;
}

static bool leads_to(const char *path, int fd)
{
    struct stat a, b;
    return lstat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool leftover_remove_unborn(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path), suffix = strlen(VS_JOURNAL_SUFFIX);
    if (length <= suffix || strcmp(path + length - suffix, VS_JOURNAL_SUFFIX) != 0 ||
        !(is_named_after_process(slash ? slash + 1 : path) || is_beside_empty_database(path)))
        return false;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool removed = fd >= 0 && has_no_head(fd) && nobody_has(fd) && leads_to(path, fd) && unlink(path) == 0;
    if (fd >= 0)
        close(fd);
    return removed;
}
