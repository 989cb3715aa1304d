/* guard.c - see guard.h. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALUE_BYTES  (1 << 20) /* command lines, paths and the names of functions have at most 4 KiB */
#define ROUND        10000     /* steps between two checks of the budget */
#define STEPS_LEAST  INT64_C(10000000) /* of SQLite's virtual machine: a tenth of a second */
#define STEPS_RATIO  200 /* steps for each byte; a report takes half a step, --phases some more */
#define MOST_BYTES   (INT64_C(1) << 50)
#define MEMORY_LEAST (INT64_C(768) << 20)
#define MEMORY_RATIO 32

int guard_open(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

void guard_begin(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

void guard_connection(struct sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif
#ifdef SQLITE_DBCONFIG_ENABLE_VIEW
    if (sqlite3_libversion_number() >= 3035000) /* older versions also disable temporary views */
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
#endif
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_BYTES);
}

static int count_down(void *steps)
{
    *(int64_t *)steps -= ROUND;
    return *(int64_t *)steps < 0;
}

void guard_steps(struct sqlite3 *db, int64_t *steps)
{
    sqlite3_progress_handler(db, ROUND, count_down, steps);
}

/* Not under sanitizers, whose own memory counts as data and exceeds any limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static struct rlimit before; /* rlim_max 0: not read yet */

static void set_limit(rlim_t bytes)
{
    struct rlimit now = before;
    now.rlim_cur = bytes < before.rlim_cur ? bytes : before.rlim_cur;
    setrlimit(RLIMIT_DATA, &now);
}

/* Limits this process's memory, so that an array filled from an endless table ends with "out of memory"
 * before the machine runs out. */
static void guard_memory(int64_t bytes)
{
#ifndef SANITIZED
    static int64_t taken;
    if (before.rlim_max == 0 && getrlimit(RLIMIT_DATA, &before) != 0)
        return;
    taken += MEMORY_RATIO * bytes;
    set_limit((rlim_t)(MEMORY_LEAST + taken));
#endif
}

void guard_memory_end(void)
{
    if (before.rlim_max)
        set_limit(RLIM_INFINITY);
}

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

int64_t guard_budget(const char *path)
{
    char wal[4200];
    snprintf(wal, sizeof wal, "%s-wal", path);
    int64_t bytes = size_of(path) + size_of(wal);
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    guard_memory(bytes);
    return STEPS_LEAST + STEPS_RATIO * bytes;
}
