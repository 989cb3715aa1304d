/*
 * names.c - see names.h.
 *
 * Only files that no process has open are renamed: those of processes that have ended, without a log beside
 * them.  No file is ever overwritten, and if a step fails the names stay as they were.
 */
#include "names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "read/trace.h"

/* Finds the process of PATH; false: the file is not closed and complete, or does not say which process it is
 * of. */
static bool owner_of(const char *path, struct trace_process *p)
{
    struct trace t;
    char *log = xformat("%s-wal", path);
    bool closed = !trace_open(&t, path);
    if (closed) {
        *p = t.process;
        p->host = p->command = NULL;
        closed = (t.end == TRACE_END_CLEAN || t.end == TRACE_END_MERGED) && p->pid != UNKNOWN;
        trace_close(&t);
    }
    closed = closed && access(log, F_OK);
    free(log);
    return closed;
}

/* The name that the shim chooses for a process if OUTPUT is taken (shim/record/output.c). */
static char *name_beside(const char *output, const struct trace_process *p)
{
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    int stem = dot && dot != name ? (int)(dot - output) : (int)strlen(output);
    if (p->rank == UNKNOWN)
        return xformat("%.*s-pid%" PRId64 "%s", stem, output, p->pid, output + stem);
    return xformat("%.*s-rank%" PRId64 "-pid%" PRId64 "%s", stem, output, p->rank, p->pid, output + stem);
}

static bool move(const char *from, const char *to)
{
    return !renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

/* Exchanges the names of FIRST and OWN. */
static void change_names(char **first, char **own, const struct trace_process *taker)
{
    char *output = xstrdup(*first), *beside = name_beside(output, taker);
    if (move(output, beside)) {
        if (move(*own, output)) {
            free(*first);
            free(*own);
            *first = beside;
            *own = output;
            return;
        }
        move(beside, output);
    }
    free(output);
    free(beside);
}

void run_names_exchange(char **paths, size_t n, const char *output, pid_t command)
{
    struct trace_process taker, own;
    char **first = NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(paths[i], output))
            first = &paths[i];
    if (n < 2 || !first || !owner_of(*first, &taker) || taker.pid == command)
        return;
    for (size_t i = 0; i < n; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, "-pid%ld", (long)command);
        if (&paths[i] != first && strstr(paths[i], suffix) && owner_of(paths[i], &own) &&
            own.pid == command) {
            change_names(first, &paths[i], &taker);
            return;
        }
    }
}
