/* destination.c - see destination.h. */
#include "destination.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS 40 /* as many as the kernel follows */

bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Where the link PATH leads to, as seen from here; NULL: it is none. */
static char *target_of(const char *path)
{
    char target[4096];
    ssize_t n = readlink(path, target, sizeof target);
    const char *slash = strrchr(path, '/');
    if (n <= 0 || n == sizeof target)
        return NULL;
    int folder = *target == '/' || !slash ? 0 : (int)(slash + 1 - path);
    return xformat("%.*s%.*s", folder, path, (int)n, target);
}

/* Whether SQLite would take a file that is there for what it left beside PATH. */
static bool has_beside(const char *path)
{
    static const char *const endings[] = {"-journal", "-wal", "-shm"};
    struct stat st;
    bool has = false;
    for (size_t i = 0; !has && i < sizeof endings / sizeof *endings; i++) {
        char *name = xformat("%s%s", path, endings[i]);
        has = lstat(name, &st) == 0;
        free(name);
    }
    return has;
}

/* A new file beside PATH, of a name that nothing had: what is there is never written, nor removed. */
static void make_part(struct destination *d)
{
    int fd = -1;
    d->part = xformat("%s.part", d->path);
    for (int i = 2;
         has_beside(d->part) ||
         ((fd = open(d->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0 && errno == EEXIST);
         i++) {
        free(d->part);
        d->part = xformat("%s.part%d", d->path, i);
    }
    d->error = fd < 0 ? errno : 0;
    d->made = fd >= 0; /* where not, opening it says why */
    if (fd >= 0)
        close(fd);
}

void destination_find(struct destination *d, const char *path)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    char *target;
    *d = (struct destination){.path = xstrdup(path)};
    if (exists && !S_ISREG(st.st_mode))
        return;
    for (int i = 0; i < LINKS && (target = target_of(d->path)); i++) {
        free(d->path);
        d->path = target;
    }
    if (exists && !same_file(path, d->path)) { /* what /proc calls a link, of a file that lost its name */
        free(d->path);
        d->path = xstrdup(path);
        return;
    }
    make_part(d);
}

int destination_failed(const char *command, const char *path, int error)
{
    if (!error)
        return complain("%s: %s can't be written: is the disk full? Make room, or give another name", command,
                        path);
    return complain("%s: %s can't be written: %s: %sgive another name", command, path, strerror(error),
                    error == ENOENT   ? "make its directory, or "
                    : error == ENOSPC ? "make room, or "
                                      : "");
}

const char *destination_name(const struct destination *d)
{
    return d->part ? d->part : d->path;
}

int destination_end(struct destination *d, bool good)
{
    int error = !d->part || !good ? 0 : !d->made ? EEXIST : rename(d->part, d->path) ? errno : 0;
    if (d->made && (!good || error))
        unlink(d->part);
    free(d->part);
    free(d->path);
    *d = (struct destination){0};
    return error;
}

FILE *destination_open(struct destination *d, const char *command, const char *path)
{
    destination_find(d, path);
    d->command = command;
    d->asked = path;
    FILE *out = fopen(destination_name(d), "we");
    int error = errno;
    if (!out) {
        destination_end(d, false);
        destination_failed(command, path, error);
    }
    return out;
}

int destination_close(struct destination *d, FILE *out, bool good)
{
    struct destination was = *d;
    bool written = !ferror(out);
    written = fclose(out) == 0 && written;
    int error = destination_end(d, good && written);
    return good && (!written || error) ? destination_failed(was.command, was.asked, error) : 0;
}
