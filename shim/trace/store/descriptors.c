/*
 * descriptors.c - the files behind SQLite's numbers: opened high and close-on-exec, and opened and locked
 * again where the host closed them.
 */
#define _GNU_SOURCE
#include "vfs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fork.h"
#include "core/procstat.h"

#define FILES 64

/* Wiped in a fork child, which must not use its parent's files. */
static struct state {
    /* Held for look-ups only.  One thread writes databases; the analyzer may have several readers. */
    atomic_flag busy;
    _Atomic bool gone; /* the shared memory was truncated: nothing more is read or written */
    struct vs_descriptor file[FILES];
} * state;

static __thread bool alone __attribute__((tls_model("initial-exec")));

void vs_vfs_alone(void)
{
    alone = true;
}

bool vs_descriptors_alone(void)
{
    return alone;
}

static void wipe(void)
{
    memset(state, 0, sizeof *state);
}

static void enter(void)
{
    /* acquire: sees the table as the last holder left it */
    while (atomic_flag_test_and_set_explicit(&state->busy, memory_order_acquire)) {
    }
}

void vs_descriptor_leave(void)
{
    atomic_flag_clear_explicit(&state->busy, memory_order_release); /* pairs with enter */
}

static struct vs_descriptor *tracked_of(int fd)
{
    for (int i = 0; i < FILES; i++)
        if (state->file[i].used && state->file[i].logical == fd)
            return &state->file[i];
    return NULL;
}

struct vs_descriptor *vs_descriptor_enter(int fd)
{
    enter();
    return tracked_of(fd);
}

static bool still_ours(const struct vs_descriptor *s)
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
    while (high >= 0 && tracked_of(high)) { /* SQLite knows the number as another file */
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
    for (int i = 0; i < FILES; i++) {
        if (state->file[i].used)
            continue;
        struct vs_descriptor *s = &state->file[i];
        *s = (struct vs_descriptor){.used = true,
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
    for (int i = 0; i < FILES; i++)
        held |=
            state->file[i].used && state->file[i].dev == file->st_dev && state->file[i].ino == file->st_ino;
    vs_descriptor_leave();
    return held;
}

int vs_descriptor_open(const char *path, int flags, int mode)
{
    enter();
    int fd = open_high(path, flags, mode);
    int error = errno;
    if (fd >= 0)
        remember(fd, path, flags);
    vs_descriptor_leave();
    errno = error;
    return fd;
}

/* ---- locks ---- */

static int set_lock(int fd, int command, short type, off_t start, off_t end)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
    return fcntl(fd, command, &lock);
}

static void add_lock(struct vs_descriptor *s, struct vs_file_lock lock)
{
    for (int i = 0; i < VS_FILE_LOCKS && lock.start < lock.end; i++) {
        if (s->lock[i].end == 0) {
            s->lock[i] = lock;
            return;
        }
    }
}

/* Keeps the list of locked ranges, so that they can be locked again on a new descriptor. */
static void note_lock(struct vs_descriptor *s, const struct flock *f)
{
    struct vs_file_lock now = {f->l_start, f->l_start + f->l_len, f->l_type};
    for (int i = 0; i < VS_FILE_LOCKS; i++) {
        struct vs_file_lock old = s->lock[i];
        if (old.end <= now.start || old.start >= now.end)
            continue;
        s->lock[i].end = 0;
        add_lock(s, (struct vs_file_lock){old.start, now.start, old.type});
        add_lock(s, (struct vs_file_lock){now.end, old.end, old.type});
    }
    if (f->l_type != F_UNLCK)
        add_lock(s, now);
}

static bool lock_again(const struct vs_descriptor *s, int fd)
{
    for (int i = 0; i < VS_FILE_LOCKS; i++)
        if (s->lock[i].end &&
            set_lock(fd, F_OFD_SETLK, s->lock[i].type, s->lock[i].start, s->lock[i].end) < 0)
            return false;
    return true;
}

/* ---- the actual number ---- */

static int open_again(struct vs_descriptor *s)
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

/* Writes a frame's header that was kept back and whose page has not come. */
static bool write_waiting(struct vs_descriptor *s, int actual)
{
    bool waited = s->waits;
    s->waits = false;
    return !waited || pwrite(actual, s->frame, VS_LOG_FRAME, s->end) == VS_LOG_FRAME;
}

int vs_descriptor(int fd)
{
    enter();
    struct vs_descriptor *s = tracked_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : open_again(s);
    if (s && actual >= 0 && !write_waiting(s, actual))
        actual = -1;
    vs_descriptor_leave();
    return actual;
}

static bool any_used(void)
{
    bool any = false;
    for (int i = 0; i < FILES; i++)
        any |= state->file[i].used;
    return any;
}

bool vs_vfs_gone(void)
{
    return state != NULL && atomic_load(&state->gone);
}

int vs_descriptor_unless_gone(int fd)
{
    if (!vs_vfs_gone())
        return vs_descriptor(fd);
    errno = EIO;
    return -1;
}

void vs_descriptors_cut_short(void *unused)
{
    atomic_store(&state->gone, true);
}

int vs_descriptor_close(int fd)
{
    enter();
    struct vs_descriptor *s = tracked_of(fd);
    int actual = !s ? fd : still_ours(s) ? s->actual : -1;
    if (s) {
        if (actual >= 0)
            write_waiting(s, actual);
        s->used = false;
        if (!any_used())
            atomic_store(&state->gone, false);
    }
    vs_descriptor_leave();
    return actual < 0 ? 0 : close(actual);
}

int vs_descriptor_lock(int fd, int command, struct flock *lock)
{
    int actual = vs_descriptor(fd);
    if (actual < 0)
        return -1;
    lock->l_pid = 0; /* OFD locks require it */
    int rc = fcntl(actual, command == F_GETLK ? F_OFD_GETLK : F_OFD_SETLK, lock);
    if (rc == 0 && command != F_GETLK) {
        enter();
        struct vs_descriptor *s = tracked_of(fd);
        if (s)
            note_lock(s, lock);
        vs_descriptor_leave();
    }
    return rc;
}

int vs_descriptors_prepare(void)
{
    if (state == NULL && (state = vs_fork_wiped_memory(sizeof *state, wipe)) == NULL)
        return -ENOMEM;
    return 0;
}
