/* folder.c - see folder.h. */
#include "folder.h"

#include <errno.h>
#include <ftw.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/base.h"

#define JOURNAL_ROOM (512l << 20)

/* No name in the path is a link: the place of a link that is looked up in another tree of files is another
 * one. */
static char *make_in(const char *directory)
{
    char *real = realpath(directory, NULL), *path = real ? xformat("%s/.vramscope-fit-XXXXXX", real) : NULL;
    bool made = path && mkdtemp(path);
    free(real);
    if (made)
        return path;
    free(path);
    return NULL;
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
        complain("fit: no folder can be made in %s: %s", in, strerror(errno));
    free(copy);
    return f->path ? 0 : 2;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    remove(path);
    return 0;
}

void folder_remove(struct folder *f)
{
    if (f->path)
        nftw(f->path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (f->journals)
        nftw(f->journals, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(f->path);
    free(f->journals);
}

char *folder_in(const char *folder, const char *name)
{
    char *path = xformat("%s/%.8s", folder, name);
    mkdir(path, 0700); /* where it fails its first file says so */
    return path;
}
