/* leftover.c - see leftover.h. */
#include "leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/destination.h"
#include "trace/journal/journal.h"
#include "trace/writer/writer.h"

static void scan_directory(const char *directory, char ***paths, size_t *n)
{
    DIR *d = opendir(directory);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        size_t length = strlen(e->d_name), suffix = strlen(VS_JOURNAL_SUFFIX);
        if (length > suffix && !strcmp(e->d_name + length - suffix, VS_JOURNAL_SUFFIX))
            *PUSH(*paths, *n) = xformat("%s/%s", directory, e->d_name);
    }
    closedir(d);
}

static bool seen_before(char *const *paths, size_t n, const char *real)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(paths[i], real))
            return true;
    return false;
}

/* A directory may be named twice (the current directory may be the database's); each journal counts once. */
static size_t make_unique(char **paths, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        char *real = realpath(paths[i], NULL);
        free(paths[i]);
        if (real && !seen_before(paths, kept, real))
            paths[kept++] = real;
        else
            free(real);
    }
    return kept;
}

char **leftover_scan(const char *directory, size_t *n)
{
    char **paths = NULL;
    const char *chosen = getenv("VRAMSCOPE_JOURNAL_DIR");
    *n = 0;
    if (chosen && *chosen)
        scan_directory(chosen, &paths, n);
    scan_directory("/dev/shm", &paths, n);
    scan_directory(directory ? directory : ".", &paths, n);
    *n = make_unique(paths, *n);
    return paths;
}

static char *directory_of(const char *path)
{
    char *copy = xstrdup(path), *slash = strrchr(copy, '/');
    if (!slash) {
        free(copy);
        return xstrdup(".");
    }
    slash[slash == copy] = 0;
    return copy;
}

bool leftover_others(const char *path, char *why, size_t n)
{
    struct stat st;
    if (lstat(path, &st) != 0 || st.st_uid == geteuid())
        return false;
    const struct passwd *user = getpwuid(st.st_uid);
    char *name = user ? xstrdup(user->pw_name) : xformat("#%u", (unsigned)st.st_uid);
    if (geteuid() == 0)
        snprintf(why, n, "%s belongs to %s: sudo -u '%s' vramscope recover %s", path, name, name, path);
    else
        snprintf(why, n, "%s belongs to %s, who can recover it: vramscope recover %s", path, name, path);
    free(name);
    return true;
}

/* ---- journals that were never born ----
 *
 * A process that is killed while creating its journal leaves a file without a header, as large as a whole
 * journal, which no process will ever fill.  It is removed if three conditions hold.  It belongs to the
 * caller. It is a journal, by its name or because an empty database lies beside it.  And no process uses it.
 * A process that creates a journal has it open or mapped from the first moment on.  The kernel grants a write
 * lease on a file only while no other process, in any container, has it open or mapped. */

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

static bool remove_unborn(const char *path)
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

/* ---- the journal of a file ---- */

static enum leftover_state cannot_open(int rc, const char *journal, char *why, size_t n)
{
    if (rc == -ENOENT || rc == -ENOTDIR)
        return LEFTOVER_NONE;
    if ((rc == -EPERM || rc == -EACCES) && leftover_others(journal, why, n))
        return LEFTOVER_OTHERS;
    snprintf(why, n, "%s %s", journal,
             rc == -EPROTO ? "was written by a newer vramscope; use that one"
             : rc == -ENOTSUP
                 ? "was written by a vramscope older than any release: vramscope run records again"
             : rc == -EINVAL ? "is not a journal of vramscope, or damaged: vramscope run records again"
                             : strerror(-rc));
    return LEFTOVER_FAILED;
}

enum leftover_state leftover_database(const char *journal, char **database, char *why, size_t why_size)
{
    struct vs_journal *j;
    int rc = vs_journal_open(&j, journal, false);
    *database = NULL;
    if (rc == -EINVAL && remove_unborn(journal))
        return LEFTOVER_REMOVED;
    if (rc < 0)
        return cannot_open(rc, journal, why, why_size);
    *database = xstrdup(vs_journal_database(j));
    enum leftover_state state = vs_journal_owner_alive(j) ? LEFTOVER_RUNNING : LEFTOVER_DEAD;
    vs_journal_close(j);
    return state;
}

char *leftover_find(const char *database)
{
    size_t n;
    char *directory = directory_of(database), *found = NULL;
    char **paths = leftover_scan(directory, &n);
    for (size_t i = 0; i < n; i++) {
        char *of = NULL, why[256];
        if (!found)
            leftover_database(paths[i], &of, why, sizeof why);
        if (of && same_file(of, database))
            found = xstrdup(paths[i]);
        free(of);
        free(paths[i]);
    }
    free(paths);
    free(directory);
    return found;
}

enum leftover_state leftover_look(const char *journal, int64_t start_realtime_ns, char *why, size_t why_size)
{
    struct vs_journal *j;
    struct vs_journal_stats stats;
    int rc = vs_journal_open(&j, journal, false);
    if (rc < 0)
        return cannot_open(rc, journal, why, why_size);
    vs_journal_stats(j, &stats);
    enum leftover_state state = (int64_t)stats.start_realtime_ns != start_realtime_ns ? LEFTOVER_NONE
                                : vs_journal_owner_alive(j)                           ? LEFTOVER_RUNNING
                                                                                      : LEFTOVER_DEAD;
    vs_journal_close(j);
    return state;
}

enum leftover_state leftover_merge(const char *journal, const char *database, long *events, char *why,
                                   size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    *events = 0;
    long got = vs_recover(journal, database, why, why_size);
    if (got == -EBUSY)
        return LEFTOVER_RUNNING;
    if (got == -ENOENT && access(journal, F_OK))
        return LEFTOVER_NONE;
    if (got == -ENODATA)
        return LEFTOVER_REMOVED;
    if (got == -EPERM && leftover_others(journal, why, why_size))
        return LEFTOVER_OTHERS;
    if (got < 0) {
        if (!*why)
            snprintf(why, why_size, "journal %s can't be merged: %s", journal, strerror((int)-got));
        return LEFTOVER_FAILED;
    }
    *events = got;
    return LEFTOVER_RECOVERED;
}
