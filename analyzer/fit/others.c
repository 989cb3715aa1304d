/*
 * others.c - files of other users and groups that the program may write to: cover_others, see cover.h.
 *
 * What is in an overlay's upper directory already need not be copied there.  A file that is large, and one
 * beyond the first ENTRIES, stays: who writes to it is told that the value is too large (EOVERFLOW).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cover.h"

#define NOBODY  65534 /* as whom the kernel shows those that have no number in the namespace */
#define ENTRIES 20000 /* that are looked at */

static bool is_other(const struct stat *st)
{
    return st->st_uid != geteuid() || st->st_gid != getegid() || st->st_uid == NOBODY || st->st_gid == NOBODY;
}

static void copy_below(const char *path, const char *upper, int *left)
{
    DIR *d = opendir(path);
    struct stat st;
    for (struct dirent *e; d && *left > 0 && (e = readdir(d)); (*left)--) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        bool writable = !faccessat(dirfd(d), e->d_name, W_OK, AT_EACCESS);
        char *one = xformat("%s/%s", path, e->d_name), *to = xformat("%s/%s", upper, e->d_name);
        if (S_ISDIR(st.st_mode) && writable && !cover_make_directory(to, one))
            copy_below(one, to, left);
        else if (S_ISREG(st.st_mode) && writable && is_other(&st) && st.st_size <= COVER_SMALL)
            cover_copy_file(one, to, &st);
        free(one);
        free(to);
    }
    if (d)
        closedir(d);
}

void cover_others(const char *directory, bool below, const char *overlaid, const char *upper)
{
    int left = below ? ENTRIES : 0;
    bool good = true;
    size_t base = strcmp(overlaid, "/") ? strlen(overlaid) : 0, n = base;
    while (good && directory[n]) { /* the way there */
        n += 1 + strcspn(directory + n + 1, "/");
        char *to = xformat("%s%.*s", upper, (int)(n - base), directory + base),
             *like = xformat("%.*s", (int)n, directory);
        good = !cover_make_directory(to, like);
        if (good && !directory[n])
            copy_below(directory, to, &left);
        free(to);
        free(like);
    }
    if (base == strlen(directory)) /* it is the overlay's own */
        copy_below(directory, upper, &left);
}
