/*
 * process.c - shows one process of a file that has several: temporary views over the file's tables have its
 * rows alone, by a column, or by the upper bits of the numbers of events and ranges (schema.sql).
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"

#define SHIFT 40                 /* the process is in the bits of a number from here on: schema.sql */
#define MOST  (INT64_C(1) << 22) /* so that numbers stay positive */

struct part {
    const char *table, *number; /* number NULL: the table has a column `process` */
};

static const struct part parts[] = {
    {"device", NULL},
    {"thread", NULL},
    {"context", NULL},
    {"kind", NULL},
    {"rng", NULL},
    {"phase_stat", NULL},
    {"peak", NULL},
    {"peak_live", NULL},
    {"oom", NULL},
    {"oom_live", NULL},
    {"step", NULL},
    {"moment", NULL},
    {"sample", NULL},
    {"away", "seq"},
    {"away_block", "seq"},
    {"pool_use", NULL},
    {"arena_sample", NULL},
    {"upper_bound", NULL},
    {"loss", NULL},
    {"mismatch", NULL},
    {"counter", NULL},
    {"ev", "seq"},
    {"amend", "seq"},
    {"live", "alloc_seq"},
    {"access", "alloc_seq"},
    {"framework_role", "alloc_seq"},
    {"zone", "first_seq"},
    {"stretch", "first_seq"},
    {"range_fold", "stretch"},
    {"range_peak", "range"},
};

/* Creates a view of one process's part of TABLE, also under the name one_TABLE for relabel.c, which lays a
 * table over it again. */
static int view(struct trace *t, const char *table, const char *columns, const char *where)
{
    return trace_sql_run(t,
                         "CREATE TEMP VIEW one_%s AS SELECT %s FROM main.%s WHERE %s;"
                         "CREATE TEMP VIEW %s AS SELECT * FROM one_%s",
                         table, columns, table, where, table, table);
}

static int select_part(struct trace *t, const struct part *p, int64_t process)
{
    /* rowid: a view has none of its own, and the view `arena` uses the table's */
    const char *columns = strcmp(p->table, "arena_sample") == 0 ? "rowid AS rowid, *" : "*";
    char *where = p->number
                      ? xformat("%s >= %lld AND %s < %lld", p->number, (long long)((process - 1) << SHIFT),
                                p->number, (long long)(process << SHIFT))
                      : xformat("process = %lld", (long long)process);
    int result = view(t, p->table, columns, where);
    free(where);
    return result;
}

static int select_process(struct trace *t, int64_t process)
{
    t->before = (process - 1) << SHIFT;
    char *id = xformat("id = %lld", (long long)process),
         *facts = xformat("process IN (0, %lld)", (long long)process);
    int result = view(t, "process", "*", id) || view(t, "mark", "*", id) || view(t, "meta", "*", facts);
    bool no_away = trace_sql_one(t, "SELECT count(*) FROM temp.sqlite_master WHERE name = 'away'", 0) > 0;
    for (size_t i = 0; !result && i < sizeof parts / sizeof *parts; i++)
        result = no_away && strncmp(parts[i].table, "away", 4) == 0 ? 0 : select_part(t, &parts[i], process);
    free(id);
    free(facts);
    return result ? -1 : 0;
}

/* "1, 2 and 5"; of many processes the first few. */
static char *names_of(const int64_t *ids, size_t n)
{
    enum { SHOWN = 8 };
    char *text = xstrdup("");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        char *longer = xformat("%s%s%lld", text,
                               i == 0       ? ""
                               : i + 1 == n ? " and "
                                            : ", ",
                               (long long)ids[i]);
        free(text);
        text = longer;
    }
    char *whole = n > SHOWN ? xformat("%s, ...", text) : xstrdup(text);
    free(text);
    return whole;
}

int trace_select(struct trace *t)
{
    int64_t *ids = NULL, chosen = t->wanted_process;
    size_t n = 0;
    bool there = false;
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id FROM main.process WHERE id BETWEEN 1 AND ?1 ORDER BY id", 1, MOST - 1);
    while (trace_sql_row(s)) {
        *PUSH(ids, n) = sqlite3_column_int64(s, 0);
        there = there || ids[n - 1] == chosen;
    }
    int result = trace_sql_done(t, s);
    t->processes = (int64_t)n;
    free(t->process_names);
    t->process_names = names_of(ids, n);
    bool strict = n > 1 || strcmp(t->path, t->file) != 0; /* FILE#N means no other process */
    if (!result && n && chosen && !there && strict) {
        snprintf(t->why, sizeof t->why, "%s has no process %lld: it has %s", t->path, (long long)chosen,
                 t->process_names);
        result = -1;
    } else if (!result && n > 1) {
        result = select_process(t, chosen ? chosen : ids[0]);
    }
    free(ids);
    return result;
}
