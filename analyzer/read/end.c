/*
 * end.c - determines whether a file has its run to the end, and merges a journal if necessary.
 *
 * The end is there if the process wrote so (meta.clean_end), or a recovery did with its last transaction
 * (meta.journal_merged; meta.came_to_exit: the process had come to its exit).  While the process is alive the
 * file is called running, and not incomplete.  That the journal is gone proves nothing: it goes with a
 * machine's memory at a reboot, and with a container's /dev/shm.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "leftover.h"
#include "sql.h"
#include "trace/database.h"

static bool meta_is_set(struct trace *t, const char *sql)
{
    return trace_sql_one(t, sql, 0) == 1;
}

static char *text_of(struct trace *t, const char *sql)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 0);
    char *text = NULL;
    if (trace_sql_row(s))
        text = xstrdup((const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return text;
}

/* ---- the sentence ---- */

static void end_as(struct trace *t, enum trace_end end, char *line)
{
    free(t->end_line);
    t->end = end;
    t->end_line = line;
}

static void end_running(struct trace *t)
{
    int64_t pid = trace_sql_one(t, "SELECT pid FROM process ORDER BY id LIMIT 1", 0);
    end_as(t, TRACE_END_RUNNING,
           xformat("still running: %s; what is shown has been written so far", units_pid(pid).s));
}

/* The journal is not on this machine.  If the process ran on another host it may still run, or the journal
 * may be there. */
static void end_without_journal(struct trace *t)
{
    char here[256] = "", *host = text_of(t, "SELECT host FROM process ORDER BY id LIMIT 1");
    gethostname(here, sizeof here - 1);
    if (!t->journal)
        end_as(t, TRACE_END_UNKNOWN,
               xstrdup("INCOMPLETE: the process did not end in good order, and named no journal that would "
                       "have the rest"));
    else if (host && strcmp(host, here) != 0)
        end_as(t, TRACE_END_ELSEWHERE,
               xformat("INCOMPLETE: not at its end: still running on %s, or killed there; then run there: "
                       "vramscope recover %s",
                       host, t->journal));
    else
        end_as(t, TRACE_END_GONE,
               xformat("INCOMPLETE: its journal %s is gone (reboot, container): how much was in it that is "
                       "not in the file is unknown",
                       t->journal));
    free(host);
}

static void end_unmerged(struct trace *t, enum leftover_state state, const char *why)
{
    if (state == LEFTOVER_OTHERS)
        end_as(
            t, TRACE_END_OTHERS,
            xformat("INCOMPLETE: its process still runs, or was killed and left the rest in its journal: %s",
                    why));
    else
        end_as(t, TRACE_END_FAILED,
               xformat("INCOMPLETE: its journal %s can't be merged: %s", t->journal, why));
}

/* ---- the evidence ---- */

/* Determines the end from the file alone; false: its journal must be read. */
static bool end_from_file(struct trace *t)
{
    free(t->journal);
    t->journal = text_of(t, "SELECT value FROM meta WHERE key = 'journal' AND value <> ''");
    t->came_to_exit = UNKNOWN;
    bool clean = meta_is_set(t, "SELECT value FROM meta WHERE key = 'clean_end'");
    if (!clean && !meta_is_set(t, "SELECT value FROM meta WHERE key = 'journal_merged'"))
        return false;
    t->came_to_exit =
        clean ? 1
              : trace_sql_one(t, "SELECT value FROM meta WHERE key = 'came_to_exit' AND value IN (0, 1)", 0);
    end_as(t, clean ? TRACE_END_CLEAN : TRACE_END_MERGED, NULL);
    return true;
}

/* Merges the journal that the file names, and checks the file again. */
static int end_from_journal(struct trace *t)
{
    char why[sizeof t->why];
    int64_t start = trace_sql_one(t, "SELECT start_realtime_ns FROM process ORDER BY id LIMIT 1", 0);
    enum leftover_state state =
        t->journal ? leftover_look(t->journal, start, why, sizeof why) : LEFTOVER_NONE;
    if (state == LEFTOVER_DEAD) {
        trace_disconnect(t);
        state = leftover_merge(t->journal, t->file, &t->recovered, why, sizeof why);
        if (trace_connect(t) || trace_select(t))
            return -1;
    }
    if (end_from_file(t)) /* merged by us, or by another command meanwhile */
        return 0;
    if (state == LEFTOVER_RUNNING)
        end_running(t);
    else if (state == LEFTOVER_NONE)
        end_without_journal(t);
    else
        end_unmerged(t, state, why);
    return 0;
}

/* An empty file does not name its journal, so search for it. */
static int fill_empty(struct trace *t)
{
    char why[sizeof t->why] = "", *journal = leftover_find(t->file);
    enum leftover_state state =
        journal ? leftover_merge(journal, t->file, &t->recovered, why, sizeof why) : LEFTOVER_NONE;
    free(journal);
    if (state == LEFTOVER_RECOVERED)
        return trace_connect(t) || trace_check_schema(t) ? -1 : 0;
    if (state == LEFTOVER_RUNNING)
        snprintf(t->why, sizeof t->why, "%s is still empty: its process has just begun, try again", t->path);
    else if (state == LEFTOVER_NONE && leftover_others(t->file, why, sizeof why))
        snprintf(t->why, sizeof t->why, "%s is empty: only its owner can find its journal: %.400s", t->path,
                 why);
    else if (state == LEFTOVER_NONE)
        snprintf(
            t->why, sizeof t->why,
            "%s is empty, and this host has no journal of it: where it was recorded, vramscope recover %s; "
            "if the journal is gone there too (reboot, container), record again with vramscope run",
            t->path, t->path);
    else
        snprintf(t->why, sizeof t->why, "%s is empty, and its journal can't be merged: %.400s", t->path, why);
    return -1;
}

int trace_complete(struct trace *t, bool empty)
{
    if (empty && fill_empty(t))
        return -1;
    return end_from_file(t) ? 0 : end_from_journal(t);
}

/* ---- for readers ---- */

bool trace_is_imported(const struct trace *t)
{
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].code && !strcmp(t->losses[i].code, vs_loss_code(VS_LOSS_IMPORTED)))
            return true;
    return false;
}

bool trace_has_loss(const struct trace *t, enum trace_loss_kind kind)
{
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].kind == kind)
            return true;
    return false;
}

bool trace_mismatch_is_late(const struct trace_mismatch *m)
{
    return m->what && (!strcmp(m->what, "late_allocated") || !strcmp(m->what, "late_reserved"));
}

size_t trace_disagreements(const struct trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->mismatch_count; i++)
        n += !trace_mismatch_is_late(&t->mismatches[i]);
    return n;
}

static bool has_end(const struct trace *t)
{
    return t->end == TRACE_END_CLEAN || t->end == TRACE_END_MERGED;
}

bool trace_whole(const struct trace *t)
{
    return trace_not_whole(t) == NULL;
}

const char *trace_not_whole(const struct trace *t)
{
    if (t->end == TRACE_END_RUNNING)
        return "still running";
    if (!has_end(t))
        return "INCOMPLETE";
    return trace_has_loss(t, LOSS_EVENTS) ? "events lost"
           : trace_has_loss(t, LOSS_GAP)  ? "calls not covered"
                                          : NULL;
}

char *trace_not_whole_line(const struct trace *t)
{
    if (t->end_line)
        return xstrdup(t->end_line);
    if (!trace_not_whole(t))
        return NULL;
    return xstrdup(trace_has_loss(t, LOSS_EVENTS)
                       ? "events were lost: vramscope report says how many"
                       : "calls may have gone past the recording: vramscope report says which");
}

const char *trace_no_device(const struct trace *t)
{
    return trace_whole(t) ? "no device memory was ever allocated"
                          : "no allocation of device memory is in the file";
}

const char *trace_end_name(const struct trace *t)
{
    static const char *const names[] = {[TRACE_END_CLEAN] = "clean",
                                        [TRACE_END_MERGED] = "merged",
                                        [TRACE_END_RUNNING] = "running",
                                        [TRACE_END_UNKNOWN] = "unknown",
                                        [TRACE_END_GONE] = "journal gone",
                                        [TRACE_END_ELSEWHERE] = "journal elsewhere",
                                        [TRACE_END_OTHERS] = "journal of another user",
                                        [TRACE_END_FAILED] = "journal not merged"};
    return names[t->end];
}
