/* apart.c - see apart.h. */
#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What we ask of the kernel is not to come back to us. */
static long own_open(const char *path, int flags, int mode)
{
    return syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static bool there(const char *path)
{
    int saved = errno;
    struct stat st;
    bool is = syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    errno = saved;
    return is;
}

static int mode_of(const char *path)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) ? 0 : (int)st.st_mode;
}

static bool below(const char *path, const char *directory)
{
    size_t n = directory ? strlen(directory) : 0;
    return n > 0 && !strncmp(path, directory, n) && (path[n] == '/' || !path[n]);
}

/* The directories that PATH's last name lies in. */
static void make_way(const char *path)
{
    char copy[PATH_MAX + 64];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        syscall(SYS_mkdirat, AT_FDCWD, copy, 0700);
        *slash = '/';
    }
}

/* ---- names ---- */

/* "/a/b/../c//d/." to "/a/c/d", as it stands. */
static void tidy(char *path)
{
    char *out = path;
    for (const char *at = path; *at;) {
        while (*at == '/')
            at++;
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            while (out > path && *--out != '/')
                ;
        } else if (n && !(n == 1 && *at == '.')) {
            *out++ = '/';
            memmove(out, at, n);
            out += n;
        }
        at += n;
    }
    if (out == path)
        *out++ = '/';
    *out = 0;
}

/* PATH from the root, DIRECTORY a descriptor; one of a directory that lies apart stands for that one's own
 * place. */
static bool from_root(char *out, size_t size, int directory, const char *path, const char *apart)
{
    char base[PATH_MAX] = "", link[40] = "/proc/self/cwd";
    if (*path != '/') {
        if (directory != AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
        if (n <= 0)
            return false;
        base[n] = 0;
    }
    char up[PATH_MAX];
    snprintf(up, sizeof up, "%s/up", apart);
    const char *begin = below(base, up) ? base + strlen(up) : base;
    return snprintf(out, size, "%s/%s", begin, path) < (int)size;
}

/* The directory's links followed, where it is there; the last name stays as it is. */
static void follow(char *path)
{
    char directory[PATH_MAX], name[NAME_MAX + 1];
    char *slash = strrchr(path, '/');
    if (slash == path || strlen(slash + 1) > NAME_MAX)
        return;
    snprintf(name, sizeof name, "%s", slash + 1);
    *slash = 0;
    bool known = realpath(path, directory) != NULL;
    *slash = '/';
    if (known && strlen(directory) + strlen(name) + 2 < PATH_MAX)
        snprintf(path, PATH_MAX, "%s/%s", strcmp(directory, "/") ? directory : "", name);
}

bool apart_find(struct apart *a, int directory, const char *path)
{
    static const char *const kernels[] = {"/proc", "/sys", "/dev"};
    int saved = errno;
    const char *apart = getenv("VRAMSCOPE_DRY_WRITES");
    if (!apart || *apart != '/' || !path || !*path ||
        !from_root(a->real, sizeof a->real, directory, path, apart))
        return errno = saved, false;
    tidy(a->real);
    follow(a->real);
    char folder[PATH_MAX]; /* DIR lies in the run's folder, with the recording and what the stand-ins tell */
    snprintf(folder, sizeof folder, "%s", apart);
    *strrchr(folder, '/') = 0;
    a->ours = !below(a->real, folder);
    for (size_t i = 0; a->ours && i < sizeof kernels / sizeof *kernels; i++)
        a->ours = !below(a->real, kernels[i]);
    snprintf(a->up, sizeof a->up, "%s/up%s", apart, a->real);
    snprintf(a->gone, sizeof a->gone, "%s/gone%s" APART_MARK, apart, a->real);
    errno = saved;
    return a->ours;
}

/* ---- contents ---- */

static void mark_gone(const struct apart *a)
{
    make_way(a->gone);
    long fd = own_open(a->gone, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static int copy(const char *from, const char *to)
{
    struct stat st;
    long in = own_open(from, O_RDONLY, 0),
         out = in < 0 ? -1 : own_open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool good = in >= 0 && out >= 0 && !syscall(SYS_fstat, in, &st);
    for (off_t left = good ? st.st_size : 0; good && left > 0;) {
        ssize_t n = sendfile((int)out, (int)in, NULL, (size_t)left);
        good = n > 0;
        left -= n > 0 ? n : 0;
    }
    if (good)
        good = !syscall(SYS_fchmod, out, (st.st_mode & 07777) | 0200);
    int error = good ? 0 : errno;
    if (in >= 0)
        syscall(SYS_close, in);
    if (out >= 0)
        syscall(SYS_close, out);
    errno = error;
    return good ? 0 : -1;
}

/* Whether it lies where the program was started. */
static bool is_of_program(const struct apart *a)
{
    char link[PATH_MAX + 8], cwd[PATH_MAX];
    snprintf(link, sizeof link, "%s/cwd", getenv("VRAMSCOPE_DRY_WRITES"));
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, cwd, sizeof cwd - 1);
    cwd[n > 0 ? n : 0] = 0;
    return n > 1 && below(a->real, cwd);
}

/* Where new files are made as they are wanted. */
static bool is_free(const struct apart *a)
{
    char cache[PATH_MAX], triton[PATH_MAX];
    if (is_of_program(a))
        return false;
    const char *home = getenv("HOME");
    snprintf(cache, sizeof cache, "%s/.cache", home ? home : "");
    snprintf(triton, sizeof triton, "%s/.triton", home ? home : "");
    const char *const places[] = {"/tmp", getenv("TMPDIR"), cache, triton};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] && *places[i] == '/' && strcmp(places[i], "/.cache") && below(a->real, places[i]))
            return true;
    return false;
}

/* Made since the run began: what is written to it, or removed, was not there before. */
static bool is_fresh(const struct apart *a)
{
    struct stat file, folder;
    const char *apart = getenv("VRAMSCOPE_DRY_WRITES");
    return apart && !syscall(SYS_newfstatat, AT_FDCWD, a->real, &file, AT_SYMLINK_NOFOLLOW) &&
           !syscall(SYS_newfstatat, AT_FDCWD, apart, &folder, 0) &&
           (file.st_ctim.tv_sec > folder.st_ctim.tv_sec ||
            (file.st_ctim.tv_sec == folder.st_ctim.tv_sec && file.st_ctim.tv_nsec > folder.st_ctim.tv_nsec));
}

static bool is_loose(const struct apart *a)
{
    return !there(a->up) && is_free(a) && (!there(a->real) || is_fresh(a));
}

const char *apart_to_read(struct apart *a, const char *path)
{
    bool gone = there(a->gone);
    /* a directory that is there has what lies apart beside its own: by name, and not in its list */
    if (there(a->up) && (gone || !S_ISDIR(mode_of(a->up)) || !there(a->real)))
        return a->up;
    if (!gone)
        return path;
    errno = ENOENT;
    return NULL;
}

/* Where it is to lie apart, with the directories there. */
static const char *way_to(struct apart *a)
{
    make_way(a->up);
    return a->up;
}

const char *apart_to_make(struct apart *a, const char *path)
{
    if (is_loose(a) || (!there(a->up) && there(a->real) && !there(a->gone)))
        return path;
    return way_to(a);
}

/* Whose user may not write there is told so. */
const char *apart_to_write(struct apart *a, const char *path, bool copied)
{
    if (there(a->up))
        return a->up;
    if (is_loose(a))
        return path;
    bool real = there(a->real) && !there(a->gone);
    if (real && !S_ISREG(mode_of(a->real)) && !S_ISLNK(mode_of(a->real)))
        return path; /* a directory, a device, a pipe */
    if (real && syscall(SYS_faccessat, AT_FDCWD, a->real, W_OK))
        return NULL;
    way_to(a);
    return real && copied && copy(a->real, a->up) ? NULL : a->up;
}

/* ---- names that go ---- */

bool apart_is_there(const struct apart *a)
{
    return there(a->up) || (there(a->real) && !there(a->gone));
}

int apart_remove(struct apart *a, bool directory)
{
    bool up = there(a->up), real = there(a->real) && !there(a->gone);
    if (!up && !real)
        return errno = ENOENT, -1;
    if (is_loose(a))
        return (int)syscall(SYS_unlinkat, AT_FDCWD, a->real, directory ? AT_REMOVEDIR : 0);
    if (up && syscall(SYS_unlinkat, AT_FDCWD, a->up, directory ? AT_REMOVEDIR : 0))
        return -1;
    if (real)
        mark_gone(a);
    return 0;
}

int apart_rename(struct apart *from, struct apart *to)
{
    bool up = there(from->up), real = there(from->real) && !there(from->gone);
    if (!up && !real)
        return errno = ENOENT, -1;
    if (is_loose(from) && is_loose(to))
        return (int)syscall(SYS_renameat2, AT_FDCWD, from->real, AT_FDCWD, to->real, 0);
    if (!up && S_ISDIR(mode_of(from->real)))
        return errno = EXDEV, -1; /* as between two file systems: who renames directories copies then */
    make_way(to->up);
    if (up ? syscall(SYS_renameat2, AT_FDCWD, from->up, AT_FDCWD, to->up, 0) != 0
           : copy(from->real, to->up) != 0)
        return -1;
    if (real)
        mark_gone(from);
    return 0;
}
