/*
 * recover.c - completes a database from the journal that a killed process left.
 *
 * The writer of the process itself continues after the database's mark; the journal's facts give the row of
 * `process`.  Two recoveries cannot meet: the journal file carries a lock, which the kernel gives back
 * however the holder ends.  A recovery that is killed is continued by the next: the journal keeps every event
 * until the database has it, and the file stays until a committed transaction says that it is merged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "writer.h"

#define LOCK_TRIES 100 /* of 50 ms: as long as a large journal takes */
#define LOCK_PAUSE 50000000

static int say(char *why, size_t n, int rc, const char *path, const char *what)
{
    snprintf(why, n, "%s: %s", path, what);
    return rc;
}

/* ---- the journal ---- */

/* Waits for another recovery of the same journal to finish. */
static int take_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct timespec pause = {0, LOCK_PAUSE};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return -EAGAIN;
}

static bool leads_to(const char *path, int fd)
{
    struct stat a, b;
    return lstat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The journal opened and locked, and still under its name; or a negative errno. */
static int open_locked(const char *path, struct vs_journal **j)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return errno == ELOOP ? -EINVAL : -errno;
    int rc = vs_journal_open_fd(j, fd, true);
    if (rc == 0) {
        rc = take_lock(fd);
        if (rc == 0 && !leads_to(path, fd))
            rc = -ENOENT; /* the other recovery has finished */
        if (rc < 0)
            vs_journal_close(*j);
    }
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int cannot_open(int rc, const char *path, char *why, size_t n)
{
    switch (rc) {
    case -EPROTO:
        return say(why, n, rc, path, "was written by a newer vramscope; use that one");
    case -ENOTSUP:
        return say(why, n, rc, path,
                   "was written by a vramscope older than any release; record the run again");
    case -EINVAL:
        return say(why, n, rc, path, "is not a journal of vramscope, or damaged");
    case -EPERM:
    case -EACCES:
        return say(why, n, -EPERM, path, "belongs to another user, who can recover it");
    case -EAGAIN:
        return say(why, n, rc, path, "is being recovered by another process: try again later");
    default:
        return say(why, n, rc, path, strerror(-rc));
    }
}

/*
 * ---- where to write, and whether ----
 *
 * A journal is a file that says where to write, and files come from many places: from an archive, from a
 * shared directory.  vs_journal_open_fd has checked that the caller owns the journal; here the database is
 * checked.  All checks are made on open descriptors, and the store compares the file that SQLite opens with
 * the checked one, so that replacing a name in between leads to an error.
 *
 *      there, and not empty    a regular file of the caller's; store/open.c looks at what is in it
 *      there, and empty        the same: the recording process took the name and was killed
 *      not there               made in a directory of the caller's, where it would follow no link
 *
 * Nothing in an empty or new database names the journal.  Then the journal must have this boot's id, which
 * cannot be guessed from elsewhere, or lie beside the database, unless the caller named the database.
 */

struct place {           /* the database that is written to */
    char path[PATH_MAX]; /* without symbolic links */
    struct stat file;    /* the file that the path led to */
};

/* Puts the directory of PATH, with links resolved, into DIRECTORY; returns the rest of PATH, or NULL with
 * errno. */
static const char *split(const char *path, char directory[PATH_MAX])
{
    char copy[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (snprintf(copy, sizeof copy, "%.*s", slash ? (int)(slash - path + 1) : 2, slash ? path : "./") >=
        PATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return realpath(copy, directory) ? (slash ? slash + 1 : path) : NULL;
}

static bool beside(const char *journal, const char *directory)
{
    char real[PATH_MAX];
    return split(journal, real) && strcmp(real, directory) == 0;
}

/* Creates NAME in DIRECTORY; returns its descriptor or a negative errno. */
static int make(const char *directory, const char *name)
{
    struct stat st;
    int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
    if (at < 0)
        return -errno;
    if (fstat(at, &st) != 0 || st.st_uid != geteuid())
        fd = -EPERM;
    else if ((fd = openat(at, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)) < 0)
        fd = -errno;
    close(at);
    return fd;
}

static const char *unfit(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "is no regular file";
    if (st->st_uid != geteuid())
        return "belongs to another user: nothing is written for anybody else";
    if (st->st_size == 0 && st->st_nlink != 1)
        return "is an empty file with several names: nothing says that it is to be a database";
    return NULL;
}

/* Whether the journal has handed events back, which a database then has. */
static bool begun(const struct vs_journal *j)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    return stats.tail > 1 + stats.dead;
}

/* Why a missing database must not be made, into TEXT; NULL: it may. */
static const char *unmakable(const struct vs_journal *j, const char *journal, bool vouched, char *text,
                             size_t size)
{
    if (begun(j)) {
        snprintf(text, size,
                 "is not there, but the journal continues it: if it was moved, vramscope recover with the "
                 "name that it "
                 "has now; if it was deleted, nothing can be made of %s any more, which may be removed",
                 journal);
        return text;
    }
    return vouched
               ? NULL
               : "is not there, and its journal is of another boot or machine: move the journal beside it";
}

/* The descriptor of the database, or a negative errno. */
static int open_or_make(const char *path, const char *directory, const char *name, const char *unmakable,
                        char *why, size_t n)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == ELOOP)
        return say(why, n, -EINVAL, path, "is a symbolic link");
    if (errno != ENOENT)
        return say(why, n, -errno, path, strerror(errno));
    if (unmakable)
        return say(why, n, -ESTALE, path, unmakable);
    fd = make(directory, name);
    if (fd == -EPERM)
        return say(why, n, fd, path,
                   "is not there, and its directory belongs to another user: make an empty file of that "
                   "name");
    return fd < 0 ? say(why, n, fd, path, strerror(-fd)) : fd;
}

/* Finds the database that J is merged into: DATABASE, or NULL: the one that the journal names; it is made
 * where it is not there.  0, or a negative errno with the reason in WHY. */
static int find_place(struct place *place, const struct vs_journal *j, const char *journal,
                      const char *database, char *why, size_t n)
{
    char directory[PATH_MAX];
    const char *named = database ? database : vs_journal_database(j);
    const char *name = *named ? split(named, directory) : NULL;
    if (!*named)
        return say(why, n, -EINVAL, journal, "names no database");
    if (!name || !*name)
        return say(why, n, name ? -EISDIR : -errno, named, strerror(name ? EISDIR : errno));
    if (snprintf(place->path, sizeof place->path, "%s/%s", directory[1] ? directory : "", name) >= PATH_MAX)
        return say(why, n, -ENAMETOOLONG, named, strerror(ENAMETOOLONG));
    bool vouched = database || vs_journal_this_boot(j) || beside(journal, directory);
    char missing[PATH_MAX + 256];
    int fd = open_or_make(place->path, directory, name,
                          unmakable(j, journal, vouched, missing, sizeof missing), why, n);
    if (fd < 0)
        return fd;
    const char *what = fstat(fd, &place->file) == 0 ? unfit(&place->file) : strerror(errno);
    if (!what && place->file.st_size == 0 && !vouched)
        what = "is empty, and its journal is of another boot or machine: move the journal beside it";
    close(fd);
    return what ? say(why, n, -EPERM, place->path, what) : 0;
}

/* ---- merging ---- */

static int32_t number_fact(const struct vs_journal *j, const char *key, int32_t otherwise)
{
    const char *text = vs_journal_fact(j, key);
    char *end;
    if (!text || !*text)
        return otherwise;
    long value = strtol(text, &end, 10);
    return *end ? otherwise : (int32_t)value;
}

static struct vs_database config_of(const struct vs_journal *j, const char *journal,
                                    const struct place *place)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    const char *max_bytes = vs_journal_fact(j, "max_bytes");
    return (struct vs_database){.path = place->path,
                                .recovered_file = &place->file,
                                .journal_path = journal,
                                .max_bytes = max_bytes ? strtoull(max_bytes, NULL, 10) : 0,
                                .version = vs_journal_fact(j, "version"),
                                .host = vs_journal_fact(j, "host"),
                                .boot_id = vs_journal_fact(j, "boot_id"),
                                .command = vs_journal_fact(j, "command"),
                                .labels = vs_journal_fact(j, "labels"),
                                .limit = vs_journal_fact(j, VS_FACT_LIMIT),
                                .pid = stats.pid,
                                .rank = number_fact(j, "rank", INT32_MIN),
                                .local_rank = number_fact(j, "local_rank", INT32_MIN),
                                .world_size = number_fact(j, "world_size", INT32_MIN),
                                .simulated = number_fact(j, "simulated", 0)};
}

static bool empty(const struct vs_journal *j)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    return stats.head == stats.tail;
}

static bool held_nothing(const struct vs_journal *j)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    return stats.head == 1;
}

/* Whether the process came to its end with all events in its database, whose name is not there any more: the
 * end was written into it, and the journal is of no use. */
static bool closed_elsewhere(const struct vs_journal *j)
{
    const char *came = vs_journal_fact(j, VS_FACT_CAME_TO_EXIT);
    return empty(j) && !held_nothing(j) && came && *came == '1' &&
           access(vs_journal_database(j), F_OK) != 0 && errno == ENOENT;
}

static long drain_all(struct vs_writer *w)
{
    long n;
    do
        n = vs_writer_drain(w, true);
    while (n > 0);
    return n < 0 ? n : vs_writer_taken(w);
}

static long merge(struct vs_journal *j, const char *journal, const struct place *place, char *why, size_t n)
{
    struct vs_database config = config_of(j, journal, place);
    struct vs_writer *w;
    int rc = vs_writer_open(&w, &config, j, why, n);
    if (rc < 0)
        return rc;
    vs_writer_set_simulated(w, config.simulated, vs_journal_fact(j, VS_FACT_DRY));
    long events = drain_all(w);
    if (events >= 0 && !empty(j))
        events = -EIO; /* damaged: the rest can't be read */
    if (events < 0)
        say(why, n, (int)events, place->path, strerror((int)-events));
    else
        vs_writer_merged(w);
    rc = vs_writer_close(w, false);
    if (rc < 0 && events >= 0)
        events = say(why, n, rc, place->path, strerror(-rc));
    return events;
}

static long recover(struct vs_journal *j, const char *journal, const char *database, char *why, size_t n)
{
    struct place place;
    if (vs_journal_owner_alive(j))
        return say(why, n, -EBUSY, journal, "belongs to a process that still runs");
    if (!database && held_nothing(j) && access(vs_journal_database(j), F_OK) != 0)
        return -ENODATA; /* it never held an event */
    if (!database && closed_elsewhere(j))
        return say(
            why, n, -ENODATA, vs_journal_database(j),
            "was moved or deleted while it was written; what was recorded is in it, wherever it is now");
    int rc = find_place(&place, j, journal, database, why, n);
    return rc < 0 ? rc : merge(j, journal, &place, why, n);
}

long vs_recover(const char *journal_path, const char *database, char *why, size_t why_size)
{
    struct vs_journal *j;
    char path[PATH_MAX];
    int fd = open_locked(journal_path, &j);
    if (fd < 0)
        return cannot_open(fd, journal_path, why, why_size);
    long events = -ENOENT;
    if (realpath(journal_path, path)) /* an absolute path for the database to name */
        events = recover(j, path, database, why, why_size);
    if ((events >= 0 || events == -ENODATA) && leads_to(path, fd))
        unlink(path);
    vs_journal_close(j);
    close(fd);
    return events;
}
