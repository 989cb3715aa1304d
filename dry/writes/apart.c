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

#define LINKS 40 /* in one path, as the kernel follows them */

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

/* The kernel's links to open files, but for the program's input and output. */
static bool is_link_of_kernel(const char *path, const char *target)
{
    const char *number = strrchr(path, '/') + 1;
    bool standard = number[0] >= '0' && number[0] <= '2' && !number[1] && strstr(path, "/fd/");
    return !standard && *target == '/' && there(target);
}

/* Where the link A->real goes, one that lies apart before the machine's own; false: it is none. */
static bool link_of(struct apart *a, const char *apart, char target[PATH_MAX])
{
    snprintf(a->up, sizeof a->up, "%s/up%s", apart, a->real);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, a->up, target, PATH_MAX - 1);
    if (n < 0 && errno == EINVAL) /* it is there, and no link */
        return false;
    a->other = a->other || n > 0;
    if (n <= 0)
        n = syscall(SYS_readlinkat, AT_FDCWD, a->real, target, PATH_MAX - 1);
    target[n > 0 ? n : 0] = 0;
    snprintf(a->gone, sizeof a->gone, "%s/gone%s" APART_MARK, apart, a->real);
    if (n <= 0 || (there(a->gone) && !there(a->up)))
        return false;
    return !below(a->real, "/proc") || is_link_of_kernel(a->real, target);
}

static void up_one(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = 0;
}

/* LEFT, from the root, to A->real as the kernel would go it; the last name's link is followed where LAST. */
static bool walk(struct apart *a, const char *apart, char left[PATH_MAX], bool last)
{
    char target[PATH_MAX];
    size_t length;
    *a->real = 0;
    for (int links = 0; *(left += strspn(left, "/")); left += length) {
        length = strcspn(left, "/");
        if (length == 2 && !strncmp(left, "..", 2)) {
            up_one(a->real);
            continue;
        }
        if (length == 1 && *left == '.')
            continue;
        size_t n = strlen(a->real);
        if (snprintf(a->real + n, sizeof a->real - n, "/%.*s", (int)length, left) >=
            (int)(sizeof a->real - n))
            return false;
        if ((!left[length] && !last) || !link_of(a, apart, target))
            continue;
        size_t rest = strlen(left + length), to = strlen(target);
        if (++links > LINKS || to + rest >= PATH_MAX)
            return false;
        memmove(a->left + to, left + length, rest + 1);
        memcpy(a->left, target, to);
        left = a->left, length = 0;
        *target == '/' ? (void)(*a->real = 0) : up_one(a->real);
    }
    return *a->real || snprintf(a->real, sizeof a->real, "/") > 0;
}

bool apart_find(struct apart *a, int directory, const char *path, bool last)
{
    static const char *const kernels[] = {"/proc", "/sys", "/dev"};
    int saved = errno;
    const char *apart = getenv("VRAMSCOPE_DRY_WRITES");
    a->other = false;
    if (!apart || *apart != '/' || !path || !*path ||
        !from_root(a->left, sizeof a->left, directory, path, apart) || !walk(a, apart, a->left, last))
        return errno = saved, false;
    char folder[PATH_MAX]; /* DIR lies in the run's folder, with the recording and what the stand-ins tell */
    snprintf(folder, sizeof folder, "%s", apart);
    *strrchr(folder, '/') = 0;
    a->ours = !below(a->real, folder) && !below(a->real, getenv("VRAMSCOPE_JOURNAL_DIR")) &&
              !below(a->real, getenv("VRAMSCOPE_DRY_COMPILED"));
    for (size_t i = 0; a->ours && i < sizeof kernels / sizeof *kernels; i++)
        a->ours = !below(a->real, kernels[i]) || below(a->real, "/dev/shm");
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

/* A link stays one. */
static int copy(const char *from, const char *to)
{
    struct stat st;
    char target[PATH_MAX];
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, from, target, sizeof target - 1);
    if (length > 0) {
        target[length] = 0;
        return (int)syscall(SYS_symlinkat, target, AT_FDCWD, to);
    }
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
    const char *const places[] = {"/tmp", "/dev/shm", getenv("TMPDIR"), cache, triton};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] && *places[i] == '/' && strcmp(places[i], "/.cache") && below(a->real, places[i]))
            return true;
    return false;
}

/* Made since the run began: what is written to it, or removed, was not there before.  Where the file system
 * does not know when it was made, when it last changed stands for that. */
static bool is_fresh(const struct apart *a)
{
    struct statx file;
    struct stat folder;
    const char *apart = getenv("VRAMSCOPE_DRY_WRITES");
    if (!apart || syscall(SYS_newfstatat, AT_FDCWD, apart, &folder, 0) ||
        syscall(SYS_statx, AT_FDCWD, a->real, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_CTIME, &file))
        return false;
    struct statx_timestamp made = file.stx_mask & STATX_BTIME ? file.stx_btime : file.stx_ctime;
    return made.tv_sec > folder.st_ctim.tv_sec ||
           (made.tv_sec == folder.st_ctim.tv_sec && made.tv_nsec > folder.st_ctim.tv_nsec);
}

static bool is_loose(const struct apart *a)
{
    return !there(a->up) && is_free(a) && (!there(a->real) || is_fresh(a));
}

/* PATH itself, but where a link that lies apart leads elsewhere. */
static const char *as_is(const struct apart *a, const char *path)
{
    return a->other ? a->real : path;
}

const char *apart_to_read(struct apart *a, const char *path)
{
    bool gone = there(a->gone);
    /* a directory that is there has what lies apart beside its own: by name, and not in its list */
    if (there(a->up) && (gone || !S_ISDIR(mode_of(a->up)) || !there(a->real)))
        return a->up;
    if (!gone)
        return as_is(a, path);
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
        return as_is(a, path);
    return way_to(a);
}

/* Whose user may not write there is told so. */
const char *apart_to_write(struct apart *a, const char *path, bool copied)
{
    if (there(a->up))
        return a->up;
    if (is_loose(a))
        return as_is(a, path);
    bool real = there(a->real) && !there(a->gone);
    int type = real ? mode_of(a->real) & S_IFMT : S_IFREG;
    if (type == S_IFDIR) { /* its mode and times; what it has is found beside it */
        syscall(SYS_mkdirat, AT_FDCWD, way_to(a), 0700);
        return a->up;
    }
    if (type != S_IFREG && type != S_IFLNK)
        return as_is(a, path); /* a device, a pipe */
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
