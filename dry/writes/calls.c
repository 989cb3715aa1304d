/*
 * calls.c - the C library's functions that take a path, in front of it: each has its path looked up (apart.h)
 * and calls the real one.  Without VRAMSCOPE_DRY_WRITES they do nothing else.
 */
#include "apart.h"
#include "facts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define REAL(name) ((__typeof__(&name))real(#name, &real_##name))

static void *real(const char *name, void **known)
{
    void *f = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!f)
        __atomic_store_n(known, f = dlsym(RTLD_NEXT, name), __ATOMIC_RELAXED); /* the same on every thread */
    return f;
}

int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat64 *, int);

/* LOOK, CHANGE: as READ, WRITE, of a link itself */
enum how { READ, LOOK, WRITE, CHANGE, REPLACE, MAKE };
#define OF_LINK(flags, link, file) ((flags)&AT_SYMLINK_NOFOLLOW ? (link) : (file))

/* What stands in PATH's place; NULL with errno. */
static const char *place(struct apart *a, int directory, const char *path, enum how how)
{
    if (!apart_find(a, directory, path, how == READ || how == WRITE || how == REPLACE))
        return path;
    return how == READ || how == LOOK ? apart_to_read(a, path)
           : how == MAKE              ? apart_to_make(a, path)
                                      : apart_to_write(a, path, how != REPLACE);
}

static enum how how_of(int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | O_CREAT));
    return !writes || (flags & O_PATH) == O_PATH                  ? flags & O_NOFOLLOW ? LOOK : READ
           : flags & (O_NOFOLLOW | O_EXCL)                        ? CHANGE
           : (flags & (O_TRUNC | O_CREAT)) == (O_TRUNC | O_CREAT) ? REPLACE
                                                                  : WRITE;
}

static enum how how_of_mode(const char *mode)
{
    return *mode == 'w' ? REPLACE : *mode == 'a' || strchr(mode, '+') ? WRITE : READ;
}

/* ---- opening ---- */

#define MODE_OF(flags)                                                                                       \
    mode_t mode = 0;                                                                                         \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                 \
        va_list list;                                                                                        \
        va_start(list, flags);                                                                               \
        mode = (mode_t)va_arg(list, int);                                                                    \
        va_end(list);                                                                                        \
    }

#define OPEN(name)                                                                                           \
    static void *real_##name;                                                                                \
    DRY_API int name(const char *path, int flags, ...)                                                       \
    {                                                                                                        \
        struct apart a;                                                                                      \
        MODE_OF(flags)                                                                                       \
        const char *at = place(&a, AT_FDCWD, path, how_of(flags));                                           \
        return at ? REAL(name)(at, flags, mode) : -1;                                                        \
    }
#define OPENAT(name)                                                                                         \
    static void *real_##name;                                                                                \
    DRY_API int name(int directory, const char *path, int flags, ...)                                        \
    {                                                                                                        \
        struct apart a;                                                                                      \
        MODE_OF(flags)                                                                                       \
        const char *at = place(&a, directory, path, how_of(flags));                                          \
        return at ? REAL(name)(directory, at, flags, mode) : -1;                                             \
    }
#define CREAT(name)                                                                                          \
    static void *real_##name;                                                                                \
    DRY_API int name(const char *path, mode_t mode)                                                          \
    {                                                                                                        \
        struct apart a;                                                                                      \
        const char *at = place(&a, AT_FDCWD, path, REPLACE);                                                 \
        return at ? REAL(name)(at, mode) : -1;                                                               \
    }
#define FOPEN(name)                                                                                          \
    static void *real_##name;                                                                                \
    DRY_API FILE *name(const char *path, const char *mode)                                                   \
    {                                                                                                        \
        struct apart a;                                                                                      \
        const char *at = place(&a, AT_FDCWD, path, how_of_mode(mode));                                       \
        return at ? REAL(name)(at, mode) : NULL;                                                             \
    }
#define FREOPEN(name)                                                                                        \
    static void *real_##name;                                                                                \
    DRY_API FILE *name(const char *path, const char *mode, FILE *file)                                       \
    {                                                                                                        \
        struct apart a;                                                                                      \
        const char *at = path ? place(&a, AT_FDCWD, path, how_of_mode(mode)) : NULL;                         \
        return at || !path ? REAL(name)(at, mode, file) : NULL;                                              \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
CREAT(creat)
CREAT(creat64)
FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)

/* Shared memory by its name is a file; the C library opens it without asking us. */
static bool path_of_shared(char path[NAME_MAX + 16], const char *name)
{
    name += strspn(name, "/");
    if (*name && !strchr(name, '/') && strlen(name) <= NAME_MAX)
        return snprintf(path, NAME_MAX + 16, "/dev/shm/%s", name) > 0;
    errno = EINVAL;
    return false;
}

DRY_API int shm_open(const char *name, int flags, mode_t mode)
{
    char path[NAME_MAX + 16];
    return path_of_shared(path, name) ? open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode) : -1;
}

DRY_API int shm_unlink(const char *name)
{
    char path[NAME_MAX + 16];
    return path_of_shared(path, name) ? unlink(path) : -1;
}

/* ---- calls with one path: HOW it is used, what fails, the arguments before and behind it ---- */

#define ONE(type, name, bad, how, parameters, directory, ...)                                                \
    static void *real_##name;                                                                                \
    DRY_API type name parameters                                                                             \
    {                                                                                                        \
        struct apart a;                                                                                      \
        const char *at = place(&a, directory, path, how);                                                    \
        return at ? REAL(name)(__VA_ARGS__) : (bad);                                                         \
    }
ONE(int, access, -1, READ, (const char *path, int mode), AT_FDCWD, at, mode)
ONE(int, eaccess, -1, READ, (const char *path, int mode), AT_FDCWD, at, mode)
ONE(int, euidaccess, -1, READ, (const char *path, int mode), AT_FDCWD, at, mode)
ONE(int, faccessat, -1, OF_LINK(flags, LOOK, READ), (int d, const char *path, int mode, int flags), d, d, at,
    mode, flags)
ONE(int, stat, -1, READ, (const char *path, struct stat *st), AT_FDCWD, at, st)
ONE(int, stat64, -1, READ, (const char *path, struct stat64 *st), AT_FDCWD, at, st)
ONE(int, lstat, -1, LOOK, (const char *path, struct stat *st), AT_FDCWD, at, st)
ONE(int, lstat64, -1, LOOK, (const char *path, struct stat64 *st), AT_FDCWD, at, st)
ONE(int, fstatat, -1, OF_LINK(flags, LOOK, READ), (int d, const char *path, struct stat *st, int flags), d, d,
    at, st, flags)
ONE(int, fstatat64, -1, OF_LINK(flags, LOOK, READ), (int d, const char *path, struct stat64 *st, int flags),
    d, d, at, st, flags)
ONE(int, statx, -1, OF_LINK(flags, LOOK, READ),
    (int d, const char *path, int flags, unsigned mask, struct statx *st), d, d, at, flags, mask, st)
/* of programs that were built with an older C library */
ONE(int, __xstat, -1, READ, (int v, const char *path, struct stat *st), AT_FDCWD, v, at, st)
ONE(int, __xstat64, -1, READ, (int v, const char *path, struct stat64 *st), AT_FDCWD, v, at, st)
ONE(int, __lxstat, -1, LOOK, (int v, const char *path, struct stat *st), AT_FDCWD, v, at, st)
ONE(int, __lxstat64, -1, LOOK, (int v, const char *path, struct stat64 *st), AT_FDCWD, v, at, st)
ONE(int, __fxstatat, -1, OF_LINK(flags, LOOK, READ),
    (int v, int d, const char *path, struct stat *st, int flags), d, v, d, at, st, flags)
ONE(int, __fxstatat64, -1, OF_LINK(flags, LOOK, READ),
    (int v, int d, const char *path, struct stat64 *st, int flags), d, v, d, at, st, flags)
ONE(ssize_t, readlink, -1, LOOK, (const char *path, char *out, size_t size), AT_FDCWD, at, out, size)
ONE(ssize_t, readlinkat, -1, LOOK, (int d, const char *path, char *out, size_t size), d, d, at, out, size)
ONE(DIR *, opendir, NULL, READ, (const char *path), AT_FDCWD, at)
ONE(int, chdir, -1, READ, (const char *path), AT_FDCWD, at)
ONE(int, execve, -1, READ, (const char *path, char *const words[], char *const environment[]), AT_FDCWD, at,
    words, environment)
ONE(int, execv, -1, READ, (const char *path, char *const words[]), AT_FDCWD, at, words)
ONE(int, chmod, -1, WRITE, (const char *path, mode_t mode), AT_FDCWD, at, mode)
ONE(int, fchmodat, -1, OF_LINK(flags, CHANGE, WRITE), (int d, const char *path, mode_t mode, int flags), d, d,
    at, mode, flags)
ONE(int, chown, -1, WRITE, (const char *path, uid_t user, gid_t group), AT_FDCWD, at, user, group)
ONE(int, lchown, -1, CHANGE, (const char *path, uid_t user, gid_t group), AT_FDCWD, at, user, group)
ONE(int, fchownat, -1, OF_LINK(flags, CHANGE, WRITE),
    (int d, const char *path, uid_t user, gid_t group, int flags), d, d, at, user, group, flags)
ONE(int, truncate, -1, WRITE, (const char *path, off_t size), AT_FDCWD, at, size)
ONE(int, truncate64, -1, WRITE, (const char *path, off64_t size), AT_FDCWD, at, size)
ONE(int, utime, -1, WRITE, (const char *path, const struct utimbuf *times), AT_FDCWD, at, times)
ONE(int, utimes, -1, WRITE, (const char *path, const struct timeval times[2]), AT_FDCWD, at, times)
ONE(int, mkdir, -1, MAKE, (const char *path, mode_t mode), AT_FDCWD, at, mode)
ONE(int, mkdirat, -1, MAKE, (int d, const char *path, mode_t mode), d, d, at, mode)
ONE(int, mkfifo, -1, MAKE, (const char *path, mode_t mode), AT_FDCWD, at, mode)
ONE(int, mkfifoat, -1, MAKE, (int d, const char *path, mode_t mode), d, d, at, mode)
ONE(int, mknod, -1, MAKE, (const char *path, mode_t mode, dev_t device), AT_FDCWD, at, mode, device)
ONE(int, mknodat, -1, MAKE, (int d, const char *path, mode_t mode, dev_t device), d, d, at, mode, device)
ONE(int, symlink, -1, MAKE, (const char *target, const char *path), AT_FDCWD, target, at)
ONE(int, symlinkat, -1, MAKE, (const char *target, int d, const char *path), d, target, d, at)

ONE(int, utimensat, -1, OF_LINK(flags, CHANGE, WRITE),
    (int d, const char *path, const struct timespec times[2], int flags), d, d, at, times, flags)

/* ---- attributes ---- */

ONE(int, setxattr, -1, WRITE, (const char *path, const char *name, const void *value, size_t n, int flags),
    AT_FDCWD, at, name, value, n, flags)
ONE(int, lsetxattr, -1, CHANGE, (const char *path, const char *name, const void *value, size_t n, int flags),
    AT_FDCWD, at, name, value, n, flags)
ONE(int, removexattr, -1, WRITE, (const char *path, const char *name), AT_FDCWD, at, name)
ONE(int, lremovexattr, -1, CHANGE, (const char *path, const char *name), AT_FDCWD, at, name)
ONE(ssize_t, getxattr, -1, READ, (const char *path, const char *name, void *value, size_t n), AT_FDCWD, at,
    name, value, n)
ONE(ssize_t, lgetxattr, -1, LOOK, (const char *path, const char *name, void *value, size_t n), AT_FDCWD, at,
    name, value, n)
ONE(ssize_t, listxattr, -1, READ, (const char *path, char *names, size_t n), AT_FDCWD, at, names, n)
ONE(ssize_t, llistxattr, -1, LOOK, (const char *path, char *names, size_t n), AT_FDCWD, at, names, n)

/* Of an open file; one that was opened to be read is the machine's own, and BY_PATH changes its copy. */
#define OPENED(name, parameters, by_path, ...)                                                               \
    static void *real_##name;                                                                                \
    DRY_API int name parameters                                                                              \
    {                                                                                                        \
        struct apart a;                                                                                      \
        char link[40];                                                                                       \
        snprintf(link, sizeof link, "/proc/self/fd/%d", d);                                                  \
        const char *at = place(&a, AT_FDCWD, link, WRITE);                                                   \
        return !at ? -1 : at == link ? REAL(name)(__VA_ARGS__) : by_path;                                    \
    }
OPENED(fchmod, (int d, mode_t mode), chmod(at, mode), d, mode)
OPENED(fchown, (int d, uid_t user, gid_t group), chown(at, user, group), d, user, group)
OPENED(futimens, (int d, const struct timespec times[2]), utimensat(AT_FDCWD, at, times, 0), d, times)
OPENED(futimes, (int d, const struct timeval times[2]), utimes(at, times), d, times)
OPENED(fsetxattr, (int d, const char *name, const void *value, size_t n, int flags),
       setxattr(at, name, value, n, flags), d, name, value, n, flags)
OPENED(fremovexattr, (int d, const char *name), removexattr(at, name), d, name)

/* ---- names that the C library chooses: the last X's of TEMPLATE, before LENGTH more ---- */

#define CHOOSE(type, name, bad, parameters, length, ...)                                                     \
    static void *real_##name;                                                                                \
    DRY_API type name parameters                                                                             \
    {                                                                                                        \
        struct apart a;                                                                                      \
        char chosen[sizeof a.up];                                                                            \
        const char *at = place(&a, AT_FDCWD, path, MAKE);                                                    \
        if (!at)                                                                                             \
            return bad;                                                                                      \
        snprintf(chosen, sizeof chosen, "%s", at);                                                           \
        __typeof__(REAL(name)(__VA_ARGS__)) made = REAL(name)(__VA_ARGS__);                                  \
        size_t n = strlen(path), m = strlen(chosen), x = 6 + (size_t)(length);                               \
        if (n >= x && m >= x)                                                                                \
            memcpy(path + n - x, chosen + m - x, x);                                                         \
        return made;                                                                                         \
    }
CHOOSE(int, mkstemp, -1, (char *path), 0, chosen)
CHOOSE(int, mkstemp64, -1, (char *path), 0, chosen)
CHOOSE(int, mkostemp, -1, (char *path, int flags), 0, chosen, flags)
CHOOSE(int, mkostemp64, -1, (char *path, int flags), 0, chosen, flags)
CHOOSE(int, mkstemps, -1, (char *path, int length), length, chosen, length)
CHOOSE(int, mkstemps64, -1, (char *path, int length), length, chosen, length)
CHOOSE(int, mkostemps, -1, (char *path, int length, int flags), length, chosen, length, flags)
CHOOSE(int, mkostemps64, -1, (char *path, int length, int flags), length, chosen, length, flags)

static void *real_mkdtemp;
DRY_API char *mkdtemp(char *path)
{
    struct apart a;
    char chosen[sizeof a.up];
    const char *at = place(&a, AT_FDCWD, path, MAKE);
    snprintf(chosen, sizeof chosen, "%s", at ? at : "");
    if (!at || !REAL(mkdtemp)(chosen))
        return NULL;
    memcpy(path + strlen(path) - 6, chosen + strlen(chosen) - 6, 6);
    return path;
}

/* ---- names that go ---- */

#define REMOVE(name, parameters, d, directory, ...)                                                          \
    static void *real_##name;                                                                                \
    DRY_API int name parameters                                                                              \
    {                                                                                                        \
        struct apart a;                                                                                      \
        return apart_find(&a, d, path, false) ? apart_remove(&a, directory) : REAL(name)(__VA_ARGS__);       \
    }
REMOVE(unlink, (const char *path), AT_FDCWD, false, path)
REMOVE(rmdir, (const char *path), AT_FDCWD, true, path)
REMOVE(unlinkat, (int d, const char *path, int flags), d, flags &AT_REMOVEDIR, d, path, flags)

DRY_API int remove(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path);
}

static void *real_renameat2;
DRY_API int renameat2(int d, const char *path, int e, const char *to, unsigned flags)
{
    struct apart a, b;
    bool from = apart_find(&a, d, path, false), into = apart_find(&b, e, to, false);
    if (!from && !into)
        return REAL(renameat2)(d, path, e, to, flags);
    if (!from || !into)
        return errno = EXDEV, -1;
    if (flags & ~(unsigned)RENAME_NOREPLACE) /* two names exchanged: who asks has another way */
        return errno = EINVAL, -1;
    if (flags && apart_is_there(&b))
        return errno = EEXIST, -1;
    return apart_rename(&a, &b);
}

DRY_API int renameat(int d, const char *path, int e, const char *to)
{
    return renameat2(d, path, e, to, 0);
}

DRY_API int rename(const char *path, const char *to)
{
    return renameat2(AT_FDCWD, path, AT_FDCWD, to, 0);
}

/* A second name of a file that must stay as it is becomes the name of a copy: so what is written to it is not
 * written there. */
static void *real_linkat;
DRY_API int linkat(int d, const char *path, int e, const char *to, int flags)
{
    struct apart a, b;
    const char *from = place(&a, d, path, flags & AT_SYMLINK_FOLLOW ? WRITE : CHANGE),
               *into = place(&b, e, to, MAKE);
    return from && into ? REAL(linkat)(d, from, e, into, flags) : -1;
}

DRY_API int link(const char *path, const char *to)
{
    return linkat(AT_FDCWD, path, AT_FDCWD, to, 0);
}
