/*
 * cover.c - see cover.h.
 *
 * An overlay takes what lies in a directory and leaves out what is mounted below; each of that is covered for
 * itself.  In a user namespace the kernel gives no overlay of a directory with mounts below, as it would show
 * what they hide: there each entry is covered for itself (split).
 */
#include "cover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL                                                                                                \
    (1 << 20) /* a file of a directory that is split is copied up to this size, and else read-only */

static int cover(struct cover *c, const char *path);

static char *in_root(const struct cover *c, const char *path)
{
    return xformat("%s/root%s", c->scratch, strcmp(path, "/") ? path : "");
}

int cover_make_directory(const char *directory, const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return errno;
    if (mkdir(directory, 0700))
        return errno == EEXIST ? 0 : errno;
    if (chown(directory, st.st_uid, st.st_gid)) {
        /* ignored: in a user namespace others' can't be had, and then it is ours */
    }
    return chmod(directory, st.st_mode & 07777) ? errno : 0;
}

/* A path as a value of overlayfs's options. */
static char *escaped(const char *path)
{
    char *text = xrealloc(NULL, 2 * strlen(path) + 1), *to = text;
    for (; *path; path++) {
        if (strchr(",:\\", *path))
            *to++ = '\\';
        *to++ = *path;
    }
    *to = 0;
    return text;
}

/* The lower directory is the current one, whatever its name has in it. */
static int mount_overlay(const struct cover *c, const char *target, const char *upper, const char *work)
{
    char *up = escaped(upper), *by = escaped(work);
    char *options =
        xformat("lowerdir=.,upperdir=%s,workdir=%s%s", up, by, c->user ? ",userxattr" : ",redirect_dir=on");
    int error = mount("vramscope", target, "overlay", 0, options) ? errno : 0;
    free(up);
    free(by);
    free(options);
    return error;
}

static int overlay(struct cover *c, const char *path, const char *target)
{
    char *upper = xformat("%s/up/%d", c->scratch, c->overlays),
         *work = xformat("%s/own/%d", c->scratch, c->overlays),
         *of = xformat("%s/of/%d", c->scratch, c->overlays);
    int error = cover_make_directory(upper, path);
    const char *ways[] = {c->cwd, "/var/tmp", getenv("TMPDIR")};
    for (size_t i = 0; !error && c->user && i < sizeof ways / sizeof *ways; i++)
        if (ways[i] && (!strcmp(path, ways[i]) || mounts_below(ways[i], path)))
            cover_others(ways[i], i == 0, path, upper);
    if (!error && (mkdir(work, 0700) || chdir(path)))
        error = errno;
    if (!error)
        error = mount_overlay(c, target, upper, work);
    if (!error && symlink(path, of))
        error = errno;
    c->overlays++; /* also of one that is none: the kernel has left something in its folders */
    free(upper);
    free(work);
    free(of);
    return error;
}

static int bind(const char *path, const char *target, unsigned long more)
{
    return mount(path, target, NULL, MS_BIND | more, NULL) ? errno : 0;
}

static int bind_read_only(const char *path, const char *target)
{
    int error = bind(path, target, 0);
    return error                                                                                 ? error
           : mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) && errno != EPERM ? errno
                                                                                                 : 0;
}

/* ---- directories that are split ---- */

int cover_copy_file(const char *path, const char *target, const struct stat *st)
{
    int in = open(path, O_RDONLY | O_CLOEXEC), out = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    bool good = in >= 0 && out >= 0;
    for (off_t left = st->st_size; good && left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        good = n > 0;
        left -= n;
    }
    if (good && fchown(out, st->st_uid, st->st_gid)) {
        /* ignored, as above */
    }
    good = good && !fchmod(out, st->st_mode & 07777) && !futimens(out, times);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return good ? 0 : EIO;
}

/* What is no directory: a link again, a small file as a copy, else the thing itself, read-only. */
static void put_file(const char *path, const char *target)
{
    char link[4096];
    struct stat st;
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n > 0) {
        link[n] = 0;
        if (symlink(link, target)) {
            /* ignored: the program finds no such link */
        }
        return;
    }
    if (lstat(path, &st))
        return;
    if (S_ISREG(st.st_mode) && st.st_size <= COVER_SMALL && !cover_copy_file(path, target, &st))
        return;
    unlink(target);
    int fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0); /* mode 0: a place, and no file (written.c) */
    if (fd >= 0)
        close(fd);
    if (S_ISREG(st.st_mode) ? bind_read_only(path, target) : bind(path, target, 0))
        unlink(target);
}

static int split(struct cover *c, const char *path)
{
    DIR *d = opendir(path);
    if (!d)
        return errno == EACCES ? 0 : errno; /* the program can't look either */
    int error = 0;
    for (struct dirent *e; !error && (e = readdir(d));) {
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *one = xformat("%s/%s", strcmp(path, "/") ? path : "", e->d_name), *target = in_root(c, one);
        if (!lstat(one, &st) && S_ISDIR(st.st_mode))
            error = cover(c, one);
        else
            put_file(one, target);
        free(one);
        free(target);
    }
    closedir(d);
    return error;
}

/* ---- all ---- */

static bool has_below(const struct cover *c, const char *path)
{
    for (size_t i = 0; i < c->mounts.n; i++)
        if (mounts_below(c->mounts.all[i].path, path))
            return true;
    return false;
}

static int cover_below(struct cover *c, const char *path)
{
    int error = 0;
    for (size_t i = 0; !error && i < c->mounts.n; i++)
        if (mounts_next_below(&c->mounts, i, path))
            error = cover(c, c->mounts.all[i].path);
    return error;
}

static int cover_directory(struct cover *c, const char *path, const char *target)
{
    const struct mount_point *m = mounts_at(&c->mounts, path);
    if (m && m->kernels)
        return bind(path, target, MS_REC);
    int error = m && m->read_only ? bind(path, target, 0) : overlay(c, path, target);
    if (!error)
        return cover_below(c, path);
    if (has_below(c, path))
        return split(c, path);
    return bind_read_only(path, target);
}

/* A file can be a mount point, too: containers have such. */
static int cover(struct cover *c, const char *path)
{
    struct stat st;
    char *target = in_root(c, path);
    int error = 0;
    if (stat(path, &st)) /* gone, or not to be reached: nor by the program */
        error = 0;
    else if (S_ISDIR(st.st_mode))
        error = (error = cover_make_directory(target, path)) ? error : cover_directory(c, path, target);
    else
        put_file(path, target);
    free(target);
    return error;
}

int cover_all(struct cover *c)
{
    static const char *const parts[] = {"root", "up", "own", "of"};
    int error = 0;
    for (size_t i = 0; !error && i < sizeof parts / sizeof *parts; i++) {
        char *part = xformat("%s/%s", c->scratch, parts[i]);
        error = mkdir(part, 0755) ? errno : 0;
        if (!error && i == 0)
            error = bind(part, part, 0); /* it is to be a root, which is a mount */
        free(part);
    }
    return error ? error : cover(c, "/");
}

int cover_not(const struct cover *c, const char *directory)
{
    char *target = in_root(c, directory);
    int error = mkdir(target, 0700) && errno != EEXIST ? errno : bind(directory, target, 0);
    free(target);
    return error;
}
