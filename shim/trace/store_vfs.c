/*
 * store_vfs.c - see store_vfs.h.
 *
 * SQLite keeps the number that open() gave it (the logical number); a slot remembers which file that is and
 * the number that holds it now (the actual one).  They are the same until the host took ours away.  Between
 * the check and the call the host could still close: a window of nanoseconds in our own thread, not closable
 * from here.  SQLite calls fsync directly, not through these: with synchronous=OFF it never does.
 */
#define _GNU_SOURCE
#include "store_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS 64
#define LOCKS 16

struct lock {
    off_t start, end;
    short type; /* F_RDLCK, F_WRLCK; 0 cannot be told from F_RDLCK: `end` 0 = none */
};

struct slot {
    bool used;
    int logical, actual, flags;
    dev_t dev;
    ino_t ino;
    char *path;
    struct lock lock[LOCKS];
};

static struct slot slots[SLOTS];
static pid_t owner;
/* Held for the look-ups only.  One thread writes databases; the analyzer's readers may be several. */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void enter(void)
{
    /* acquire: the slots as the last holder left them */
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
    }
}

static void leave(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release); /* pairs with enter */
}

/* A fork child inherits slots of files that are its parent's business. */
static void forget_parents_slots(void)
{
    if (owner == getpid())
        return;
    memset(slots, 0, sizeof slots);
    atomic_flag_clear(&busy);
    owner = getpid();
}

static struct slot *slot_of(int fd)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].used && slots[i].logical == fd)
            return &slots[i];
    return NULL;
}

static bool still_ours(const struct slot *s)
{
    struct stat st;
    return fstat(s->actual, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

/* ---- opening ---- */

static int lowest_number(void)
{
    struct rlimit limit;
    rlim_t half = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 128;
    return half < 1000 ? (int)half : 1000;
}

static int open_high(const char *path, int flags, int mode)
{
    int low = open(path, flags | O_CLOEXEC, mode);
    if (low < 0)
        return low;
    int from = lowest_number();
    int high = fcntl(low, F_DUPFD_CLOEXEC, from);
    while (high >= 0 && slot_of(high)) { /* a number that SQLite knows as another file */
        int next = fcntl(low, F_DUPFD_CLOEXEC, high + 1);
        close(high);
        high = next;
    }
    if (high < 0)
        return low;
    close(low);
    return high;
}

static void remember(int fd, const char *path, int flags)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].used)
            continue;
        char *copy = strdup(path);
        if (copy)
            slots[i] = (struct slot){.used = true,
                                     .logical = fd,
                                     .actual = fd,
                                     .flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC),
                                     .dev = st.st_dev,
                                     .ino = st.st_ino,
                                     .path = copy};
        return;
    }
}

bool vs_vfs_holds(const struct stat *file)
{
    bool held = false;
    enter();
    for (int i = 0; i < SLOTS; i++)
        held |= slots[i].used && slots[i].dev == file->st_dev && slots[i].ino == file->st_ino;
    leave();
    return held;
}

static int vfs_open(const char *path, int flags, int mode)
{
    forget_parents_slots();
    enter();
    int fd = open_high(path, flags, mode);
    int error = errno;
    if (fd >= 0)
        remember(fd, path, flags);
    leave();
    errno = error;
    return fd;
}

/* ---- locks ---- */

static int set_lock(int fd, int command, short type, off_t start, off_t end)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
    return fcntl(fd, command, &lock);
}

static void add_lock(struct slot *s, struct lock lock)
{
    for (int i = 0; i < LOCKS && lock.start < lock.end; i++) {
        if (s->lock[i].end == 0) {
            s->lock[i] = lock;
            return;
        }
    }
}

/* Keeps the list of what is locked, so that it can be locked again on a new descriptor. */
static void note_lock(struct slot *s, const struct flock *f)
{
    struct lock now = {f->l_start, f->l_start + f->l_len, f->l_type};
    for (int i = 0; i < LOCKS; i++) {
        struct lock old = s->lock[i];
        if (old.end <= now.start || old.start >= now.end)
            continue;
        s->lock[i].end = 0;
        add_lock(s, (struct lock){old.start, now.start, old.type});
        add_lock(s, (struct lock){now.end, old.end, old.type});
    }
    if (f->l_type != F_UNLCK)
        add_lock(s, now);
}

static bool lock_again(const struct slot *s, int fd)
{
    for (int i = 0; i < LOCKS; i++)
        if (s->lock[i].end &&
            set_lock(fd, F_OFD_SETLK, s->lock[i].type, s->lock[i].start, s->lock[i].end) < 0)
            return false;
    return true;
}

/* ---- the number that is used ---- */

static int open_again(struct slot *s)
{
    struct stat st;
    int fd = open_high(s->path, s->flags, 0);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_dev != s->dev || st.st_ino != s->ino || !lock_again(s, fd)) {
        close(fd);
        errno = EIO;
        return -1;
    }
    s->actual = fd;
    return fd;
}

/* The descriptor behind SQLite's number, or -1 with errno: the file is gone. */
static int real(int fd)
{
    forget_parents_slots();
    enter();
    struct slot *s = slot_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : open_again(s);
    leave();
    return actual;
}

static int vfs_close(int fd)
{
    forget_parents_slots();
    enter();
    struct slot *s = slot_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : -1;
    if (s) {
        free(s->path);
        s->used = false;
    }
    leave();
    return actual < 0 ? 0 : close(actual);
}

static int vfs_lock(int fd, int command, struct flock *lock)
{
    int actual = real(fd);
    if (actual < 0)
        return -1;
    lock->l_pid = 0; /* what OFD locks ask for */
    int rc = fcntl(actual, command == F_GETLK ? F_OFD_GETLK : F_OFD_SETLK, lock);
    if (rc == 0 && command != F_GETLK) {
        enter();
        struct slot *s = slot_of(fd);
        if (s)
            note_lock(s, lock);
        leave();
    }
    return rc;
}

static int vfs_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK)
        return vfs_lock(fd, command, argument);
    int actual = real(fd);
    return actual < 0 ? -1 : fcntl(actual, command, argument);
}

/* ---- the rest goes to the real number ---- */

#define WITH_REAL(call)                                                                                      \
    int actual = real(fd);                                                                                   \
    return actual < 0 ? -1 : call

static int vfs_fstat(int fd, struct stat *st)
{
    WITH_REAL(fstat(actual, st));
}

/* Beyond a `ulimit -f` the kernel's answer is a signal, which would wait for the host's thread where we work
 * on one. */
static bool beyond_limit(off_t end)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (rlim_t)end <= limit.rlim_cur)
        return false;
    errno = EFBIG;
    return true;
}

static int vfs_ftruncate(int fd, off_t size)
{
    struct stat st;
    int actual = real(fd);
    if (actual < 0 || (fstat(actual, &st) == 0 && size > st.st_size && beyond_limit(size)))
        return -1;
    return ftruncate(actual, size);
}

static ssize_t vfs_read(int fd, void *to, size_t n)
{
    WITH_REAL(read(actual, to, n));
}

static ssize_t vfs_pread(int fd, void *to, size_t n, off_t offset)
{
    WITH_REAL(pread(actual, to, n, offset));
}

static ssize_t vfs_write(int fd, const void *from, size_t n)
{
    int actual = real(fd);
    if (actual < 0 || beyond_limit(lseek(actual, 0, SEEK_CUR) + (off_t)n))
        return -1;
    return write(actual, from, n);
}

static ssize_t vfs_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    if (beyond_limit(offset + (off_t)n))
        return -1;
    WITH_REAL(pwrite(actual, from, n, offset));
}

static int vfs_fchmod(int fd, mode_t mode)
{
    WITH_REAL(fchmod(actual, mode));
}

static int vfs_fchown(int fd, uid_t user, gid_t group)
{
    WITH_REAL(fchown(actual, user, group));
}

static void *vfs_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int actual = fd < 0 ? fd : real(fd);
    if (fd >= 0 && actual < 0)
        return MAP_FAILED;
    return mmap(at, n, protection, flags, actual, offset);
}

int vs_vfs_install(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
#define CALL(name, function) {name, (sqlite3_syscall_ptr)function}
        CALL("open", vfs_open),     CALL("close", vfs_close),         CALL("fcntl", vfs_fcntl),
        CALL("fstat", vfs_fstat),   CALL("ftruncate", vfs_ftruncate), CALL("read", vfs_read),
        CALL("pread", vfs_pread),   CALL("pread64", vfs_pread),       CALL("write", vfs_write),
        CALL("pwrite", vfs_pwrite), CALL("pwrite64", vfs_pwrite),     CALL("fchmod", vfs_fchmod),
        CALL("fchown", vfs_fchown), CALL("mmap", vfs_mmap),
#undef CALL
    };
    /* One thread uses this copy: no mutexes, so a fork in the middle leaves the child none that is locked for
     * ever.  Refused, and not needed, where SQLite was in use before (the analyzer, tests). */
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    if (!vfs || vfs->iVersion < 3)
        return -ENOSYS;
    forget_parents_slots();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* SQLITE_NOTFOUND: built without it */
    return 0;
}
