/*
 * cover.c - builds the tree of overlays (contain.h).
 *
 * An overlay takes what lies in a directory and leaves out what is mounted below; each of that is covered for
 * itself.  In a user namespace the kernel gives no overlay of a directory with mounts below, as it would show
 * what they hide: there each entry is covered for itself (split).
 */
#include "contain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to this size a file is copied without being written to; of a directory that is split others are
 * read-only. */
#define SMALL (1 << 20)

/* ---- what is mounted ---- */

/* "\040" is a blank. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at == '\\' && at[1] && at[2] && at[3]) {
            *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 3;
        } else {
            *to++ = *at;
        }
    *to = 0;
}

/* /dev is whatever is mounted there: where it is a file system of memory, its devices must stay devices. */
static bool is_kernels(const char *path, const char *type)
{
    static const char *const types[] = {"proc",        "sysfs",    "devtmpfs", "devpts",  "mqueue",
                                        "securityfs",  "cgroup",   "cgroup2",  "debugfs", "tracefs",
                                        "bpf",         "configfs", "pstore",   "autofs",  "efivarfs",
                                        "binfmt_misc", "fusectl",  "hugetlbfs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i]))
            return true;
    return !strcmp(path, "/dev") || !strcmp(path, "/proc") || !strcmp(path, "/sys");
}

static bool has_option(const char *list, const char *option)
{
    size_t n = strlen(option);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncmp(at, option, n))
            return true;
    return false;
}

/* "36 35 98:0 /root /path rw,noatime shared:1 - ext4 /dev/sda rw" */
static void take_line(struct mounts *m, char *line)
{
    char *fields[6], *at = line, *behind = strstr(line, " - ");
    for (int i = 0; i < 6; i++)
        if (!(fields[i] = strsep(&at, " ")))
            return;
    if (!behind)
        return;
    char *rest = behind + 3, *type = strsep(&rest, " ");
    strsep(&rest, " ");
    unescape(fields[4]);
    *PUSH(m->all, m->n) = (struct mount_point){
        xstrdup(fields[4]), has_option(fields[5], "ro") || (rest && has_option(strsep(&rest, " \n"), "ro")),
        is_kernels(fields[4], type)};
}

int mounts_read(struct mounts *m)
{
    char *line = NULL;
    size_t size = 0;
    *m = (struct mounts){0};
    FILE *in = fopen("/proc/self/mountinfo", "re");
    if (!in)
        return errno;
    while (getline(&line, &size, in) > 0)
        take_line(m, line);
    free(line);
    fclose(in);
    return m->n ? 0 : ENOENT;
}

void mounts_free(struct mounts *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->all[i].path);
    free(m->all);
}

/* What is mounted on PATH itself, the last where there are several; NULL: nothing. */
static const struct mount_point *mounts_at(const struct mounts *m, const char *path)
{
    for (size_t i = m->n; i > 0; i--)
        if (!strcmp(m->all[i - 1].path, path))
            return &m->all[i - 1];
    return NULL;
}

/* Whether PATH lies below DIRECTORY. */
static bool mounts_below(const char *path, const char *directory)
{
    size_t n = strcmp(directory, "/") ? strlen(directory) : 0;
    return !strncmp(path, directory, n) && path[n] == '/' && path[n + 1];
}

/* Whether I is below DIRECTORY with no other mount between. */
static bool mounts_next_below(const struct mounts *m, size_t i, const char *directory)
{
    const char *path = m->all[i].path;
    if (!mounts_below(path, directory) || mounts_at(m, path) != &m->all[i])
        return false;
    for (size_t k = 0; k < m->n; k++)
        if (mounts_below(path, m->all[k].path) && mounts_below(m->all[k].path, directory))
            return false;
    return true;
}

/* ---- one directory ---- */

static char *in_root(const struct cover *c, const char *path)
{
    return xformat("%s/root%s", c->scratch, strcmp(path, "/") ? path : "");
}

/* Like those at PATH; 0, or an errno. */
static int make_directory(const char *directory, const char *path)
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

static int copy_file(const char *path, const char *target, const struct stat *st)
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

/* ---- files of other users and groups that the program may write to ---- */

/* What is in an overlay's upper directory already need not be copied there.  A file that is large, and one
 * beyond the first ENTRIES, stays: who writes to it is told that the value is too large (EOVERFLOW). */
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
        if (S_ISDIR(st.st_mode) && writable && !make_directory(to, one))
            copy_below(one, to, left);
        else if (S_ISREG(st.st_mode) && writable && is_other(&st) && st.st_size <= SMALL)
            copy_file(one, to, &st);
        free(one);
        free(to);
    }
    if (d)
        closedir(d);
}

/* In a user namespace the kernel can give its copy of a file to no user or group but ours, and so it changes
 * nothing that is another's.  This makes DIRECTORY, which lies in OVERLAID, ours in UPPER, the upper
 * directory of an overlay that is not mounted yet.  BELOW: what can be written in DIRECTORY, too. */
static void cover_others(const char *directory, bool below, const char *overlaid, const char *upper)
{
    int left = below ? ENTRIES : 0;
    bool good = true;
    size_t base = strcmp(overlaid, "/") ? strlen(overlaid) : 0, n = base;
    while (good && directory[n]) { /* the way there */
        n += 1 + strcspn(directory + n + 1, "/");
        char *to = xformat("%s%.*s", upper, (int)(n - base), directory + base),
             *like = xformat("%.*s", (int)n, directory);
        good = !make_directory(to, like);
        if (good && !directory[n])
            copy_below(directory, to, &left);
        free(to);
        free(like);
    }
    if (base == strlen(directory)) /* it is the overlay's own */
        copy_below(directory, upper, &left);
}

/* ---- overlays ---- */

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
    int error = make_directory(upper, path);
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

static int cover(struct cover *c, const char *path);

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
    if (S_ISREG(st.st_mode) && st.st_size <= SMALL && !copy_file(path, target, &st))
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
        error = (error = make_directory(target, path)) ? error : cover_directory(c, path, target);
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
