/* written.c - lists what a program wrote (contain.h). */
#include "contain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct walk {
    struct written *written;
    const char *keep;
    bool split; /* what lies in directories that were split, which have links and places of our own */
};

static void add(struct walk *w, char *path, int64_t bytes, enum written_how how)
{
    *PUSH(w->written->files, w->written->n) = (struct written_file){path, bytes, how};
    w->written->bytes += bytes;
}

/* ---- copies for the user ---- */

static void make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

/* Holes stay holes: a file can be larger than the disk. */
static bool copy_parts(int in, int out, int64_t size)
{
    char part[1 << 16];
    off_t at = 0;
    while ((at = lseek(in, at, SEEK_DATA)) >= 0 && at < size) {
        off_t end = lseek(in, at, SEEK_HOLE);
        while (at < end) {
            size_t n = end - at < (off_t)sizeof part ? (size_t)(end - at) : sizeof part;
            ssize_t got = pread(in, part, n, at);
            if (got <= 0 || pwrite(out, part, (size_t)got, at) != got)
                return false;
            at += got;
        }
    }
    return !ftruncate(out, size);
}

static void keep_file(const struct walk *w, int directory, const char *name, const char *path,
                      const struct stat *st)
{
    char *to = xformat("%s%s", w->keep, path);
    make_directories(to);
    int in = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
    if (in < 0 || out < 0 || !copy_parts(in, out, st->st_size))
        complain("fit: %s can't be kept: %s", to, strerror(errno));
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    free(to);
}

/* ---- the walk ---- */

static bool is_opaque(int directory)
{
    char value[2];
    return fgetxattr(directory, "trusted.overlay.opaque", value, sizeof value) > 0 ||
           fgetxattr(directory, "user.overlay.opaque", value, sizeof value) > 0;
}

static bool is_untouched_copy(const struct stat *ours, const struct stat *real)
{
    return (ours->st_mode & 0777) == 0 ||
           (ours->st_mode == real->st_mode && ours->st_size == real->st_size &&
            ours->st_mtim.tv_sec == real->st_mtim.tv_sec && ours->st_mtim.tv_nsec == real->st_mtim.tv_nsec);
}

static void take_file(struct walk *w, int directory, const char *name, char *path, const struct stat *st)
{
    struct stat real;
    bool there = !lstat(path, &real);
    if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0)) {
        add(w, path, 0, WRITTEN_DELETED);
        return;
    }
    if ((w->split && S_ISLNK(st->st_mode)) ||
        (there && S_ISREG(st->st_mode) && is_untouched_copy(st, &real))) {
        free(path);
        return;
    }
    add(w, path, S_ISREG(st->st_mode) ? st->st_size : 0, there ? WRITTEN_CHANGED : WRITTEN_CREATED);
    if (w->keep && S_ISREG(st->st_mode))
        keep_file(w, directory, name, path, st);
}

/* What the directory open as FD has, which lies at PATH; closes it. */
static void walk(struct walk *w, int fd, const char *path)
{
    struct stat real, st;
    size_t before = w->written->n;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    bool there = !stat(path, &real);
    if (d && there && !w->split && is_opaque(fd))
        add(w, xformat("%s/", path), 0, WRITTEN_DELETED); /* and made again */
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        char *one = xformat("%s/%s", strcmp(path, "/") ? path : "", e->d_name);
        if (!S_ISDIR(st.st_mode)) {
            take_file(w, dirfd(d), e->d_name, one, &st);
            continue;
        }
        walk(w, openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), one);
        free(one);
    }
    if (d)
        closedir(d);
    if (d && !there && w->written->n == before)
        add(w, xformat("%s/", path), 0, WRITTEN_CREATED);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct written_file *)a)->path, ((const struct written_file *)b)->path);
}

void written_read(struct written *w, int scratch, const char *keep)
{
    struct walk overlays = {w, keep, false}, splits = {w, keep, true};
    for (int i = 0, there = 1; there; i++) {
        char link[32], upper[32], path[4096];
        snprintf(link, sizeof link, "of/%d", i);
        snprintf(upper, sizeof upper, "up/%d", i);
        ssize_t n = readlinkat(scratch, link, path, sizeof path - 1);
        there = !faccessat(scratch, upper, F_OK, 0);
        path[n > 0 ? n : 0] = 0;
        if (n > 0) /* else the overlay could not be made */
            walk(&overlays, openat(scratch, upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
    }
    walk(&splits, openat(scratch, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "/");
    if (w->n)
        qsort(w->files, w->n, sizeof *w->files, by_path);
}

/* ---- kept apart by a library ---- */

int written_make_apart(const char *folder)
{
    static const char *const parts[] = {"", "/up", "/gone"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = xformat("%s/apart%s", folder, parts[i]);
        int made = mkdir(path, 0700);
        if (made)
            complain("fit: %s can't be made: %s", path, strerror(errno));
        free(path);
        if (made)
            return 2;
    }
    char *link = xformat("%s/apart/cwd", folder), cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd) && symlink(cwd, link))
        complain("fit: %s can't be made: %s", link, strerror(errno));
    free(link);
    return 0;
}

static bool is_listed(const struct written *w, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(w->files[i].path, path))
            return true;
    return false;
}

/* What was removed and not made again. */
static void add_gone(struct written *w, int fd, const char *path, size_t written)
{
    struct stat st;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        char *one = xformat("%s/%s", path, e->d_name);
        if (S_ISDIR(st.st_mode)) {
            add_gone(w, openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), one,
                     written);
            free(one);
        } else if (one[strlen(one) - 1] = 0, is_listed(w, written, one)) { /* without what makes it a mark */
            free(one);
        } else {
            *PUSH(w->files, w->n) = (struct written_file){one, 0, WRITTEN_DELETED};
        }
    }
    if (d)
        closedir(d);
}

void written_read_apart(struct written *w, const char *folder, const char *keep)
{
    struct walk all = {w, keep, false};
    char *up = xformat("%s/apart/up", folder), *gone = xformat("%s/apart/gone", folder);
    walk(&all, open(up, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "/");
    add_gone(w, open(gone, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", w->n);
    if (w->n)
        qsort(w->files, w->n, sizeof *w->files, by_path);
    free(up);
    free(gone);
}

void written_free(struct written *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->files[i].path);
    free(w->files);
    *w = (struct written){0};
}
