/*
 * place.c - see place.h.
 *
 * A journal is a file that says where to write, and files come from many places: from an archive, from a
 * shared directory.  vs_journal_open_fd has checked that the caller owns the journal; here the database is
 * checked.  All checks are made on open descriptors, and the store compares the file that SQLite opens with
 * the checked one, so that replacing a name in between leads to an error.
 *
 *      there, and not empty    a regular file of the caller's; what is in it is asked by store/join.c
 *      there, and empty        the same: the recording process took the name and was killed
 *      not there               made in a directory of the caller's, where it would follow no link
 *
 * If the database is empty or new, nothing in it names the journal.  Then the journal must have this boot's
 * id, which cannot be guessed from elsewhere, or lie beside the database, unless the caller named the
 * database.
 */
#define _GNU_SOURCE
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int say(char *why, size_t n, int rc, const char *path, const char *what)
{
    snprintf(why, n, "%s: %s", path, what);
    return rc;
}

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

int recover_place(struct recover_place *place, const struct vs_journal *j, const char *journal,
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
