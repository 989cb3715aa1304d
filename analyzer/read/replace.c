/* replace.c - see replace.h. */
#include "replace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"
#include "trace.h"
#include "trace/schema_version.h"

/* What was written last may still be in SQLite's log: a new recording's id, too. */
static bool has_log(const char *path)
{
    struct stat st;
    char *name = xformat("%s-wal", path);
    bool has = stat(name, &st) == 0 && st.st_size > 0;
    free(name);
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
           (!memcmp(head + 68, ours, 4) || (!memcmp(head + 68, none, 4) && has_log(path)));
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
        snprintf(why, why_size, "%s is still being written: --force replaces what is complete", path);
    return running ? -1 : 0;
}

void replace_end(const char *path)
{
    static const char *const parts[] = {"-wal", "-shm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *name = xformat("%s%s", path, parts[i]);
        unlink(name);
        free(name);
    }
}
