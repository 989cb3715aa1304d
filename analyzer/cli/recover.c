/*
 * recover.c - `vramscope recover`: merges the journals of killed processes into their databases, as every
 * command that opens one does; here all in the usual places, and those whose database was never begun.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/json.h"
#include "read/leftover.h"
#include "base/shown.h"
#include "read/trace.h"
#include "base/units.h"

struct options {
    bool json;
};

static const struct option_row rows[] = {
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-recover(1)"}, {0}};

static void say(struct json *j, const char *journal, const char *database, const char *state, long events,
                const char *why)
{
    if (j) {
        json_begin(j, NULL, '{');
        json_text(j, "journal", journal);
        json_text(j, "file", database);
        json_text(j, "state", state);
        json_int(j, "events", events);
        json_text(j, "why", why);
        json_end(j);
        return;
    }
    if (!strcmp(state, "recovered"))
        printf("%s: %s recovered from %s\n", shown(database), units_count(events, "event").s,
               journal ? shown(journal) : "its journal");
    else if (!strcmp(state, "running"))
        printf("%s: still running, left alone\n", shown(database));
    else if (!strcmp(state, "complete"))
        printf("%s: complete, nothing to recover\n", shown(database));
    else if (!strcmp(state, "removed"))
        printf("%s: removed%s\n", shown(journal),
               why && *why ? "" : ", its process ended before it recorded anything");
    else if (!strcmp(state, "another user's"))
        printf("%s\n", shown(why));
}

/* Reports the result for one journal, which was found or NAMED on the command line. */
static int tell_journal(const char *journal, const char *database, enum leftover_state state, long events,
                        const char *why, struct json *j, bool named)
{
    switch (state) {
    case LEFTOVER_RUNNING:
        say(j, journal, database, "running", 0, NULL);
        return named ? EXIT_INCOMPLETE : EXIT_GOOD;
    case LEFTOVER_DEAD:
    case LEFTOVER_RECOVERED:
        say(j, journal, database, "recovered", events, NULL);
        return EXIT_GOOD;
    case LEFTOVER_REMOVED:
        say(j, journal, database, "removed", 0, why);
        return *why ? complain("%s", why), EXIT_GOOD : EXIT_GOOD;
    case LEFTOVER_OTHERS: /* only root could do anything about it */
        if (j || geteuid() == 0)
            say(j, journal, database, "another user's", 0, why);
        return named ? complain("%s", why) : EXIT_GOOD;
    case LEFTOVER_NONE: /* another recovery has just finished it */
        return named ? complain("%s: no such file: vramscope recover alone finds what is left on this host",
                                journal)
                     : EXIT_GOOD;
    case LEFTOVER_FAILED:
        break;
    }
    say(j, journal, database, "failed", 0, why);
    if (strncmp(why, journal, strlen(journal)) == 0)
        complain("%s", why);
    else
        complain("%s can't be merged: %s", journal, why);
    return named && !database ? EXIT_USAGE : EXIT_INCOMPLETE;
}

static int recover_journal(const char *journal, struct json *j, bool named)
{
    char why[512] = "", *database;
    long events = 0;
    enum leftover_state state = leftover_database(journal, &database, why, sizeof why);
    if (state == LEFTOVER_DEAD)
        state = leftover_merge(journal, NULL, &events, why, sizeof why);
    int status = tell_journal(journal, database, state, events, why, j, named);
    free(database);
    return status;
}

/* Opening the file completes it; then reports the result. */
static int recover_database(const char *path, struct json *j)
{
    struct trace t;
    if (trace_open(&t, path)) {
        say(j, NULL, path, "failed", 0, t.why);
        return complain("%s", t.why);
    }
    bool whole = t.end == TRACE_END_CLEAN || t.end == TRACE_END_MERGED, runs = t.end == TRACE_END_RUNNING;
    say(j, NULL, path,
        runs          ? "running"
        : !whole      ? "incomplete"
        : t.recovered ? "recovered"
                      : "complete",
        t.recovered, t.end_line);
    if (!whole && !runs)
        complain("%s: %s", path, t.end_line);
    trace_close(&t);
    return whole ? EXIT_GOOD : EXIT_INCOMPLETE;
}

static bool is_journal(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".vsj");
}

static int recover_found(struct json *j)
{
    size_t n;
    int status = EXIT_GOOD;
    char **paths = leftover_scan(NULL, &n);
    for (size_t i = 0; i < n; i++) {
        status = exit_worse(status, recover_journal(paths[i], j, false));
        free(paths[i]);
    }
    free(paths);
    if (!n && !j)
        puts("no journal was left behind");
    return status;
}

static int recover_named(const char *path, struct json *j)
{
    return is_journal(path) ? recover_journal(path, j, true) : recover_database(path, j);
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct json j;
    int status = EXIT_GOOD;
    if (o->json) {
        json_document(&j, stdout);
        json_begin(&j, "journals", '[');
    }
    for (int i = 0; i < n; i++)
        status = exit_worse(status, recover_named(operands[i], o->json ? &j : NULL));
    if (n == 0)
        status = recover_found(o->json ? &j : NULL);
    if (o->json)
        json_close(&j);
    return status;
}

const struct command command_recover = {
    "recover",
    "complete the file of a killed process from the journal that it left",
    "[options] [JOURNAL.vsj|FILE...]",
    "Completes databases from the journals that killed processes left behind; nothing that was recorded "
    "is lost.\n"
    "Without operands it looks for journals in VRAMSCOPE_JOURNAL_DIR, /dev/shm and the current directory.\n"
    "Journals of running processes are left alone, and those of other users.\n"
    "Exit status 3: something could not be completed, or the end of a file that was named is not known.",
    rows,
    call,
    COMMAND_OPTIONS()};
