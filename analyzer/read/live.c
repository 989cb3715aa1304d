/* live.c - see live.h. */
#include "live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "core/guard.h"
#include "leftover.h"

#define SILENT_NS                                                                                            \
    UINT64_C(3000000000) /* the drain's idle rounds are 200 ms apart; an SQLite commit may stall */

/* ---- one process ---- */

static int64_t number_of(const struct vs_journal *j, const char *key)
{
    const char *text = vs_journal_fact(j, key);
    return text ? strtoll(text, NULL, 10) : UNKNOWN;
}

static char *text_of(const struct vs_journal *j, const char *key)
{
    const char *text = vs_journal_fact(j, key);
    return text ? xstrdup(text) : NULL;
}

static void cut_short(void *context)
{
    ((struct live *)context)->cut = 1;
}

static void say_why_not(int code, const char *journal, char *why, size_t size)
{
    if ((code == -EPERM || code == -EACCES) && leftover_others(journal, why, size)) {
        struct stat st;
        if (!stat(journal, &st))
            snprintf(why, size, "%s is another user's (uid %u): only that user can look at it", journal,
                     (unsigned)st.st_uid);
        return;
    }
    snprintf(why, size, "%s %s", journal,
             code == -EPROTO    ? "is of a newer vramscope: use that one's top"
             : code == -ENOTSUP ? "is of an older vramscope: use that one"
             : code == -EINVAL
                 ? "is no journal of vramscope, or not finished yet: vramscope top shows all that record"
             : code == -ENOENT ? "is gone: its process has ended"
                               : strerror(-code));
}

bool live_open(struct live *l, const char *journal, char *why, size_t size)
{
    struct vs_journal_stats stats;
    *l = (struct live){.pid = UNKNOWN};
    int code = vs_journal_open(&l->map, journal, false);
    if (code < 0) {
        say_why_not(code, journal, why, size);
        return false;
    }
    vs_guard_install();
    vs_journal_guard(l->map, cut_short, l);
    vs_journal_stats(l->map, &stats);
    l->journal = xstrdup(journal);
    l->database = xstrdup(vs_journal_database(l->map));
    l->pid = stats.pid;
    live_look(l);
    return true;
}

void live_close(struct live *l)
{
    vs_journal_close(l->map);
    free(l->journal);
    free(l->database);
    free(l->command);
    free(l->host);
    *l = (struct live){.pid = UNKNOWN};
}

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A clean end takes the journal away; a kill leaves it.  What is being written just now leaves what was seen
 * before as it was. */
static enum live_state state_of(const struct live *l)
{
    if (l->cut)
        return LIVE_CUT;
    /* first, so that an end between the two is one */
    bool there = access(l->journal, F_OK) == 0, alive = vs_journal_owner_alive(l->map);
    if (!there)
        return alive ? LIVE_REMOVED : LIVE_ENDED;
    if (!alive)
        return LIVE_KILLED;
    if (!l->seen)
        return LIVE_STARTING;
    uint64_t now = clock_ns();
    bool stale = now > l->now.published_ns && now - l->now.published_ns > SILENT_NS;
    return stale ? LIVE_SILENT : LIVE_RUNNING;
}

/* A journal can be found before its process has written these; they are there before its first figures. */
static void learn(struct live *l)
{
    l->rank = number_of(l->map, "rank");
    l->world_size = number_of(l->map, "world_size");
    l->command = l->command ? l->command : text_of(l->map, "command");
    l->host = l->host ? l->host : text_of(l->map, "host");
}

void live_look(struct live *l)
{
    struct vs_now now;
    bool knows = l->seen || l->cut;
    enum vs_now_state seen = l->cut ? VS_NOW_NOTHING : vs_journal_now(l->map, &now);
    if (!knows)
        learn(l);
    if (seen == VS_NOW_SEEN && !l->cut) {
        l->now = now;
        l->seen = true;
        l->dry =
            number_of(l->map, "simulated") == VS_DRIVER_DRY; /* which is known from its first device on */
    }
    l->state = state_of(l);
    l->torn = seen == VS_NOW_TORN;
}

/* Of a process that left its journal. */
static const char *how_it_ended(const struct live *l)
{
    const char *fact = vs_journal_fact(l->map, VS_FACT_CAME_TO_EXIT);
    if (!fact)
        return "has ended";
    return *fact == '1' ? "came to its exit before all was written"
                        : "was killed, or left without its exit handlers";
}

char *live_line(const struct live *l)
{
    long long pid = (long long)l->pid;
    switch (l->state) {
    case LIVE_RUNNING:
        return NULL;
    case LIVE_STARTING:
        return l->torn ? xformat("pid %lld runs, and its figures were being written at each look", pid)
                       : xformat("pid %lld has allocated nothing yet that was written", pid);
    case LIVE_SILENT:
        return xformat(
            "pid %lld runs, but its recording has said nothing for %.0f s: stopped, starved, or its "
            "file can't be written",
            pid, (double)(clock_ns() - l->now.published_ns) / 1e9);
    case LIVE_REMOVED:
        return xformat(
            "pid %lld still runs, but its journal is gone: its recording ends just now, or somebody "
            "removed %s",
            pid, l->journal);
    case LIVE_ENDED:
        return xformat("pid %lld has ended: vramscope report %s", pid, l->database);
    case LIVE_KILLED:
        return xformat("pid %lld %s%s: vramscope report %s completes its file", pid, how_it_ended(l),
                       l->torn ? ", while these figures were written" : "", l->database);
    case LIVE_CUT:
        return xformat("the journal %s of pid %lld was truncated by somebody: nothing more is known of it",
                       l->journal, pid);
    }
    return NULL;
}

const char *live_string(const struct live *l, uint32_t id)
{
    size_t length;
    const char *text = l->cut ? NULL : vs_journal_get_string(l->map, id, &length);
    return text ? text : "";
}

const struct vs_device_row *live_device(const struct live *l, int ordinal)
{
    for (uint32_t id = 1; id < 256 && !l->cut; id++) {
        const struct vs_device_row *row = vs_journal_get_device(l->map, id);
        if (!row)
            return NULL;
        if (row->ordinal == ordinal)
            return row;
    }
    return NULL;
}

/* ---- which processes ---- */

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

static bool inside(const char *path, const char *directory)
{
    char *slash = strrchr(path, '/'),
         *folder = slash ? xformat("%.*s", (int)(slash - path), path) : xstrdup(".");
    bool same = same_file(*folder ? folder : "/", directory);
    free(folder);
    return same;
}

enum operand { OF_HOST, OF_PID, OF_DIRECTORY, OF_DATABASE };

/* Whether a living process's journal is meant.  Another user's is kept where nothing narrower was asked, so
 * that it can be said. */
static bool is_meant(const char *journal, enum operand what, const char *operand)
{
    struct vs_journal *j;
    struct vs_journal_stats stats;
    int code = vs_journal_open(&j, journal, false);
    if (code < 0)
        return what == OF_HOST && (code == -EPERM || code == -EACCES);
    vs_journal_stats(j, &stats);
    bool meant = what == OF_PID         ? stats.pid == strtoll(operand, NULL, 10)
                 : what == OF_DIRECTORY ? inside(vs_journal_database(j), operand)
                 : what == OF_DATABASE  ? same_file(vs_journal_database(j), operand)
                                        : vs_journal_owner_alive(j);
    vs_journal_close(j);
    return meant;
}

static enum operand kind_of(const char *operand, const struct stat *st)
{
    return S_ISDIR(st->st_mode) ? OF_DIRECTORY : OF_DATABASE;
}

static char **one_journal(const char *path, size_t *n)
{
    char **paths = NULL;
    *PUSH(paths, *n) = xstrdup(path);
    return paths;
}

char **live_find(const char *operand, size_t *n, char *why, size_t size)
{
    struct stat st;
    enum operand what = OF_HOST;
    size_t suffix = strlen(VS_JOURNAL_SUFFIX), count = 0;
    *n = 0;
    if (operand && !stat(operand, &st)) {
        size_t length = strlen(operand);
        if (length > suffix && !strcmp(operand + length - suffix, VS_JOURNAL_SUFFIX))
            return one_journal(operand, n);
        what = kind_of(operand, &st);
    } else if (operand && is_number(operand)) {
        what = OF_PID;
    } else if (operand) {
        snprintf(why, size,
                 "%s: no such pid, database, journal or directory: vramscope top shows all that record",
                 operand);
        return NULL;
    }
    char **all = leftover_scan(what == OF_DIRECTORY ? operand : NULL, &count),
         **paths = xrealloc(NULL, sizeof *paths);
    for (size_t i = 0; i < count; i++)
        if (is_meant(all[i], what, operand))
            *PUSH(paths, *n) = all[i];
        else
            free(all[i]);
    free(all);
    return paths;
}
