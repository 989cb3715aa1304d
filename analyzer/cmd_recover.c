/*
 * cmd_recover.c - `vramscope recover`: merges the journals of killed processes into their databases.
 *
 * Every command that opens a database does this of its own accord; this one does it for all that are lying
 * about, and for journals whose database was never begun.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "commands.h"
#include "json.h"
#include "leftover.h"
#include "shown.h"
#include "trace.h"
#include "units.h"

struct options {
    bool json;
};

static const struct option_row rows[] = {
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-recover(1)"},
    {0}};

static const struct command_help help = {
    "recover", "[options] [JOURNAL.vsj|FILE...]",
    "Completes databases from the journals that killed processes left behind; nothing that was recorded is "
    "lost.\n"
    "Without operands it looks for journals in VRAMSCOPE_JOURNAL_DIR, /dev/shm and the current directory.\n"
    "Journals of running processes are left alone.",
    rows, false};

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
        printf("%s: %s recovered from %s\n", database, units_count(events, "event").s,
               journal ? journal : "its journal");
    else if (!strcmp(state, "running"))
        printf("%s: still running, left alone\n", shown(database));
    else if (!strcmp(state, "complete"))
        printf("%s: complete, nothing to recover\n", shown(database));
}

static int recover_journal(const char *journal, struct json *j)
{
    char why[512];
    bool alive = false;
    long events = 0;
    char *database = leftover_database(journal, &alive);
    if (!database) {
        say(j, journal, NULL, "failed", 0, "not a journal");
        return complain("%s is not a journal of vramscope, or damaged", journal);
    }
    enum leftover_state state =
        alive ? LEFTOVER_RUNNING : leftover_merge(journal, NULL, &events, why, sizeof why);
    int status = EXIT_GOOD;
    if (state == LEFTOVER_RUNNING)
        say(j, journal, database, "running", 0, NULL);
    else if (state == LEFTOVER_FAILED)
        status = complain("%s", why);
    else
        say(j, journal, database, "recovered", events, NULL);
    if (state == LEFTOVER_FAILED)
        say(j, journal, database, "failed", 0, why);
    free(database);
    return status;
}

/* Opening completes the file; what is left is to say so. */
static int recover_database(const char *path, struct json *j)
{
    struct trace t;
    if (trace_open(&t, path)) {
        say(j, NULL, path, "failed", 0, t.why);
        return complain("%s", t.why);
    }
    say(j, NULL, path, t.running ? "running" : t.recovered ? "recovered" : "complete", t.recovered, NULL);
    trace_close(&t);
    return EXIT_GOOD;
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
        if (!access(paths[i], R_OK)) /* other users' are none of our business */
            status |= recover_journal(paths[i], j);
        free(paths[i]);
    }
    free(paths);
    if (!n && !j)
        puts("no journal was left behind");
    return status;
}

int cmd_recover(int argc, char **argv)
{
    struct options o = {0};
    char **operands;
    struct json j;
    int status = EXIT_GOOD;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    json_open(&j, stdout);
    if (o.json) {
        json_begin(&j, NULL, '{');
        json_begin(&j, "journals", '[');
    }
    for (int i = 0; i < n; i++) {
        if (is_journal(operands[i]) && access(operands[i], F_OK))
            status |= complain("%s: no such file", operands[i]);
        else if (is_journal(operands[i]))
            status |= recover_journal(operands[i], o.json ? &j : NULL);
        else
            status |= recover_database(operands[i], o.json ? &j : NULL);
    }
    if (n == 0)
        status = recover_found(o.json ? &j : NULL);
    if (o.json) {
        json_end(&j);
        json_end(&j);
        json_close(&j);
    }
    return status;
}
