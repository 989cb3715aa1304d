/* folder.c - where dry runs leave their files (attempt.h). */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define JOURNAL_ROOM (512l << 20)
#define NAME         ".vramscope-dry-"
#define YOUNG        60 /* seconds */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    remove(path);
    return 0;
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* A file of the folder's is ours as long as we live, whoever kills us; -1: it is another one's, or can't be
 * told. */
static int lock(const char *folder)
{
    char *path = xformat("%s/alive", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    free(path);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A folder whose `fit` was killed before it could remove it; a young one may not be locked yet. */
static void remove_left(const char *path)
{
    struct stat st;
    int fd = lstat(path, &st) || st.st_uid != geteuid() || time(NULL) - st.st_mtime < YOUNG ? -1 : lock(path);
    if (fd < 0)
        return;
    remove_all(path);
    close(fd);
}

static void remove_all_left(const char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, NAME, sizeof NAME - 1) != 0)
            continue;
        char *path = xformat("%s/%s", directory, e->d_name);
        remove_left(path);
        free(path);
    }
    if (d)
        closedir(d);
}

/* No name in the path is a link: the place of a link that is looked up in another tree of files is another
 * one. */
static char *make_in(const char *directory)
{
    char *real = realpath(directory, NULL), *path = real ? xformat("%s/" NAME "XXXXXX", real) : NULL;
    if (real)
        remove_all_left(real);
    bool made = path && mkdtemp(path);
    free(real);
    if (!made) {
        free(path);
        return NULL;
    }
    lock(path); /* until we end */
    return path;
}

static char *journals(void)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) || (double)fs.f_bavail * (double)fs.f_frsize < (double)JOURNAL_ROOM)
        return NULL;
    return make_in("/dev/shm");
}

int folder_make(struct folder *f, const char *output)
{
    const char *given = getenv("TMPDIR");
    char *copy = output ? xstrdup(output) : NULL;
    const char *in = copy ? dirname(copy) : given && *given == '/' ? given : "/tmp";
    f->path = make_in(in);
    f->journals = f->path ? journals() : NULL;
    if (f->path)
        setenv("VRAMSCOPE_JOURNAL_DIR", f->journals ? f->journals : f->path, 1);
    else
        complain("fit: no folder can be made in %s: %s: %s", in, strerror(errno),
                 copy ? "give another -o" : "TMPDIR may name another");
    free(copy);
    return f->path ? 0 : 2;
}

void folder_remove(struct folder *f)
{
    if (f->path)
        remove_all(f->path);
    if (f->journals)
        remove_all(f->journals);
    free(f->path);
    free(f->journals);
}

char *folder_in(const char *folder, const char *name)
{
    char *path = xformat("%s/%.8s", folder, name);
    mkdir(path, 0700); /* where it fails its first file says so */
    return path;
}
