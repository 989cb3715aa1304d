/* replace.c - see replace.h. */
#include "replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"
#include "trace.h"
#include "trace/database.h"

/* What SQLite leaves beside a database whose writer was killed, and applies to what it finds there. */
static const char *const logs[] = {"-wal", "-journal"};
#define LOGS (sizeof logs / sizeof *logs)

bool replace_has_log(const char *path)
{
    struct stat st;
    bool has = false;
    for (size_t i = 0; !has && i < LOGS; i++) {
        char *name = xformat("%s%s", path, logs[i]);
        has = stat(name, &st) == 0 && st.st_size > 0;
        free(name);
    }
    return has;
}

bool replace_is_recording(const char *path)
{
    unsigned char head[72] = {0};
    static const unsigned char none[4],
        ours[4] = {VS_APPLICATION_ID >> 24 & 255, VS_APPLICATION_ID >> 16 & 255, VS_APPLICATION_ID >> 8 & 255,
                   VS_APPLICATION_ID & 255};
    int fd = guard_open(path);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof head && !memcmp(head, "SQLite format 3", 16) &&
           (!memcmp(head + 68, ours, 4) || (!memcmp(head + 68, none, 4) && replace_has_log(path)));
}

int replace_check(const char *path, bool force, char *why, size_t why_size)
{
    struct trace t;
    if (!replace_is_recording(path))
        return 0;
    if (!force) {
        snprintf(why, why_size, "%s is a recording, never replaced without --force: give another -o", path);
        return -1;
    }
    if (trace_open(&t, path)) /* of another schema, or damaged: nobody writes it */
        return 0;
    bool running = t.end == TRACE_END_RUNNING;
    trace_close(&t);
    if (running)
        snprintf(why, why_size,
                 "%s is still being written: --force replaces what is complete: give another -o", path);
    return running ? -1 : 0;
}

/* 0, or errno */
static int remove_beside(const char *path, const char *ending)
{
    char *name = xformat("%s%s", path, ending);
    int error = unlink(name) && errno != ENOENT ? errno : 0;
    free(name);
    return error;
}

int replace_begin(const char *path)
{
    int error = 0;
    for (size_t i = 0; !error && i < LOGS; i++)
        error = remove_beside(path, logs[i]);
    return error ? error : remove_beside(path, "-shm");
}
