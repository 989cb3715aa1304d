/*
 * vfs.c - see vfs.h.
 *
 * SQLite keeps the number that open() gave it (the logical number); a slot remembers which file that is and
 * the number that holds it now (the actual one).  They are the same until the host took ours away.  Between
 * the check and the call the host could still close: a window of nanoseconds in our own thread, not closable
 * from here.  SQLite calls fsync directly, not through these: with synchronous=OFF it never does.
 *
 * All this is for threads of the host's, and where the kernel or a filter refuses better: the drain's thread
 * has descriptors of its own (core/own_descriptors.h), which no host can touch, and all signals blocked. Once
 * it has said so (vs_vfs_alone) nothing is asked before a call there, neither whose the descriptor is nor
 * where the limit on file sizes lies.
 *
 * SQLite writes each frame of its log in two calls, 24 bytes and then the page behind them.  The 24 bytes
 * wait for the page here, and both go in one call; any other call on the file would write them first.
 */
#define _GNU_SOURCE
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/rlimits.h"
#include "heap.h"
#include "core/fork.h"

#define SLOTS 64
#define LOCKS 16
#define FRAME 24 /* bytes of a frame's header in SQLite's log */

struct lock {
    off_t start, end;
    short type; /* F_RDLCK, F_WRLCK; 0 cannot be told from F_RDLCK: `end` 0 = none */
};

struct slot {
    bool used;
    int logical, actual, flags;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX]; /* not malloc's: a checker of leaks would not find what points to it */
    struct lock lock[LOCKS];
    bool log;                   /* SQLite's */
    off_t end;                  /* of the last write to it */
    bool waits;                 /* the header of a frame, for the place `end` */
    unsigned char frame[FRAME]; /* that one */
};

/* A fork child would inherit slots of files that are its parent's business: wiped there. */
static struct state {
    /* Held for the look-ups only.  One thread writes databases; the analyzer's readers may be several. */
    atomic_flag busy;
    _Atomic bool gone; /* the shared memory was cut short under us: nothing more is read or written */
    struct slot slot[SLOTS];
} * state;

static __thread bool alone __attribute__((tls_model("initial-exec")));

void vs_vfs_alone(void)
{
    alone = true;
}

static void wipe(void)
{
    memset(state, 0, sizeof *state);
}

static void enter(void)
{
    /* acquire: the slots as the last holder left them */
    while (atomic_flag_test_and_set_explicit(&state->busy, memory_order_acquire)) {
    }
}

static void leave(void)
{
    atomic_flag_clear_explicit(&state->busy, memory_order_release); /* pairs with enter */
}

static struct slot *slot_of(int fd)
{
    for (int i = 0; i < SLOTS; i++)
        if (state->slot[i].used && state->slot[i].logical == fd)
            return &state->slot[i];
    return NULL;
}

static bool still_ours(const struct slot *s)
{
    struct stat st;
    return alone || (fstat(s->actual, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino);
}

/* ---- opening ---- */

static int lowest_number(void)
{
    uint64_t half = vs_limit(VS_LIMIT_FILES) / 2;
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

static bool is_log(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, "-wal") == 0;
}

static void remember(int fd, const char *path, int flags)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (state->slot[i].used)
            continue;
        struct slot *s = &state->slot[i];
        *s = (struct slot){.used = true,
                           .logical = fd,
                           .actual = fd,
                           .flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC),
                           .dev = st.st_dev,
                           .ino = st.st_ino,
                           .log = is_log(path),
                           .end = -1};
        snprintf(s->path, sizeof s->path, "%s", path);
        return;
    }
}

bool vs_vfs_holds(const struct stat *file)
{
    bool held = false;
    enter();
    for (int i = 0; i < SLOTS; i++)
        held |=
            state->slot[i].used && state->slot[i].dev == file->st_dev && state->slot[i].ino == file->st_ino;
    leave();
    return held;
}

static int vfs_open(const char *path, int flags, int mode)
{
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

/* Writes a frame's header that still waits: its page has not come. */
static bool write_waiting(struct slot *s, int actual)
{
    bool waited = s->waits;
    s->waits = false;
    return !waited || pwrite(actual, s->frame, FRAME, s->end) == FRAME;
}

/* The descriptor behind SQLite's number, or -1 with errno: the file is gone. */
static int real(int fd)
{
    enter();
    struct slot *s = slot_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : open_again(s);
    if (s && actual >= 0 && !write_waiting(s, actual))
        actual = -1;
    leave();
    return actual;
}

static bool any_used(void)
{
    bool any = false;
    for (int i = 0; i < SLOTS; i++)
        any |= state->slot[i].used;
    return any;
}

bool vs_vfs_gone(void)
{
    return state != NULL && atomic_load(&state->gone);
}

/* What is read and written while the shared memory is none: nothing, until SQLite has closed its files. */
static int real_unless_gone(int fd)
{
    if (!vs_vfs_gone())
        return real(fd);
    errno = EIO;
    return -1;
}

static int vfs_close(int fd)
{
    enter();
    struct slot *s = slot_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : -1;
    if (s) {
        if (actual >= 0)
            write_waiting(s, actual);
        s->used = false;
        if (!any_used())
            atomic_store(&state->gone, false);
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
 * on one.  On our own thread it is blocked, and taken back (limited). */
static bool beyond_limit(off_t end)
{
    if (alone || (uint64_t)end <= vs_limit(VS_LIMIT_FILE_SIZE))
        return false;
    errno = EFBIG;
    return true;
}

/* The RESULT of a write.  The signal of one beyond the limit would come when our thread gives the host's
 * signals back; it is the thread's own, which is looked through first. */
static ssize_t limited(ssize_t result)
{
    if (!alone || result >= 0 || errno != EFBIG)
        return result;
    sigset_t size;
    struct timespec now = {0, 0};
    sigemptyset(&size);
    sigaddset(&size, SIGXFSZ);
    sigtimedwait(&size, NULL, &now);
    errno = EFBIG;
    return result;
}

static int vfs_ftruncate(int fd, off_t size)
{
    struct stat st;
    int actual = real(fd);
    if (actual < 0 || (fstat(actual, &st) == 0 && size > st.st_size && beyond_limit(size)))
        return -1;
    return (int)limited(ftruncate(actual, size));
}

static ssize_t vfs_read(int fd, void *to, size_t n)
{
    WITH_REAL(read(actual, to, n));
}

static ssize_t vfs_pread(int fd, void *to, size_t n, off_t offset)
{
    int actual = real_unless_gone(fd);
    return actual < 0 ? -1 : pread(actual, to, n, offset);
}

static ssize_t vfs_write(int fd, const void *from, size_t n)
{
    int actual = real(fd);
    if (actual < 0 || beyond_limit(lseek(actual, 0, SEEK_CUR) + (off_t)n))
        return -1;
    return limited(write(actual, from, n));
}

/* Takes the header of a frame that is appended to the log, to go with its page.  (A header that is written
 * anew, farther to the front, has no page behind it.) */
static bool keep_header(struct slot *s, const void *from, size_t n, off_t offset)
{
    if (!s->log || s->waits || n != FRAME || offset != s->end)
        return false;
    memcpy(s->frame, from, FRAME);
    s->waits = true;
    return true;
}

enum frame_step { PLAIN, KEPT, JOINED };

/* What becomes of a write of SQLite's; JOINED: HEADER goes before it. */
static enum frame_step frame_step(int fd, const void *from, size_t n, off_t offset, unsigned char *header)
{
    enum frame_step step = PLAIN;
    enter();
    struct slot *s = slot_of(fd);
    if (s && keep_header(s, from, n, offset)) {
        step = KEPT;
    } else if (s && s->waits && offset == s->end + FRAME) {
        memcpy(header, s->frame, FRAME);
        s->waits = false;
        step = JOINED;
    }
    if (s && step != KEPT)
        s->end = offset + (off_t)n;
    leave();
    return step;
}

static ssize_t write_frame(int actual, unsigned char *header, const void *page, size_t n, off_t offset)
{
    struct iovec parts[2] = {{header, FRAME}, {(void *)(uintptr_t)page, n}};
    ssize_t got = pwritev(actual, parts, 2, offset - FRAME);
    return got < 0 ? got : got > FRAME ? got - FRAME : 0; /* 0 is a full disk to SQLite */
}

static ssize_t vfs_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    unsigned char header[FRAME];
    if (beyond_limit(offset + (off_t)n))
        return -1;
    enum frame_step step = frame_step(fd, from, n, offset, header);
    int actual = step == KEPT ? -1 : real_unless_gone(fd);
    if (step == KEPT)
        return (ssize_t)n;
    if (actual < 0)
        return -1;
    return limited(step == JOINED ? write_frame(actual, header, from, n, offset)
                                  : pwrite(actual, from, n, offset));
}

static int vfs_fchmod(int fd, mode_t mode)
{
    WITH_REAL(fchmod(actual, mode));
}

static int vfs_fchown(int fd, uid_t user, gid_t group)
{
    WITH_REAL(fchown(actual, user, group));
}

/* In a signal handler. */
static void cut_short(void *unused)
{
    atomic_store(&state->gone, true);
}

static void *vfs_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    int actual = fd < 0 ? fd : real(fd);
    if (fd >= 0 && actual < 0)
        return MAP_FAILED;
    void *m = mmap(at, n, protection, flags, actual, offset);
    if (m != MAP_FAILED && (flags & MAP_SHARED))
        vs_guard_add(m, n, cut_short, NULL);
    return m;
}

static int vfs_munmap(void *at, size_t n)
{
    vs_guard_remove(at);
    return munmap(at, n);
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
        CALL("fchown", vfs_fchown), CALL("mmap", vfs_mmap),           CALL("munmap", vfs_munmap),
#undef CALL
    };
    /* One thread uses this copy: no mutexes, so a fork in the middle leaves the child none that is locked for
     * ever.  Refused, and not needed, where SQLite was in use before (the analyzer, tests). */
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    vs_heap_install();
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    if (!vfs || vfs->iVersion < 3)
        return -ENOSYS;
    if (state == NULL && (state = vs_fork_wiped_memory(sizeof *state, wipe)) == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* SQLITE_NOTFOUND: built without it */
    return 0;
}
