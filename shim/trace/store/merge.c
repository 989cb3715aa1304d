/*
 * merge.c - adds the recording of another file to a file.
 *
 * Names are looked up (merge_names.c).  Each other table is copied by one INSERT ...  SELECT made of its
 * columns: a table below says which of them are numbers or ids that move; all others stay as they are.
 */
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* What a column holds.  Numbers move up by that kind's offset where they are above 0, as 0, negative numbers
 * and NULL say that there is none; STRINGS, STACKS and TENSORS become the ids that their names have, PHASES
 * the number that the phase of that name has. */
enum moves { STAYS = -1, NUMBERS, KINDS, ACCESS_KINDS, OFFSETS, STRINGS = OFFSETS, STACKS, TENSORS, PHASES };

static const struct {
    const char *columns, *tables; /* between spaces; NULL: of all tables */
    enum moves by;
} moved[] = {
    {" seq by_seq alloc_seq first_seq last_seq from_seq to_seq upto_seq live_seq oom_seq peak_seq ", NULL,
     NUMBERS},
    {" mate range parent stretch ", NULL, NUMBERS},
    {" id ", " rng ", NUMBERS},
    {" id ", " kind ", KINDS},
    {" kind ", " ev ", KINDS},
    {" id ", " access_kind ", ACCESS_KINDS},
    {" kind ", " access ", ACCESS_KINDS},
    {" domain first_by last_by pool ", NULL, STRINGS},
    {" name ", " range_fold rng moment ", STRINGS},
    {" stack ", NULL, STACKS},
    {" tensor ", NULL, TENSORS},
    {" phase first_phase last_phase ", NULL, PHASES},
};

/* The same in every file; copied as names are; or of a writer that goes on, which a file of several processes
 * has none of. */
static bool is_shared(const char *table)
{
    static const char *const shared[] = {"op", "space", "api", "phase", "resume", "element_type"};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strcmp(table, shared[i]) == 0)
            return true;
    return strncmp(table, "sqlite_", 7) == 0 || vs_store_points_has(table) || vs_merge_names_has(table);
}

struct vs_merge {
    sqlite3 *db;
    struct vs_merge_names names;
    int64_t process, by[OFFSETS];
    bool other_phases; /* temp.phase_of has the numbers that differ */
    int64_t steps;     /* that are left */
    const char *sweep; /* what points get as their sweep; NULL: nothing */
    size_t axes_left;  /* of the points, without a column in the views */
    sqlite3_str *into, *select;
    char error[256]; /* the first: what follows it in SQLite clears it there */
};

static int run(struct vs_merge *m, const char *sql)
{
    if (sqlite3_exec(m->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    if (!m->error[0])
        snprintf(m->error, sizeof m->error, "%s", sqlite3_errmsg(m->db));
    return -1;
}

static bool holds(const char *words, const char *word)
{
    char spaced[64];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return strstr(words, spaced) != NULL;
}

static enum moves moves_of(const char *table, const char *column)
{
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (holds(moved[i].columns, column) && (!moved[i].tables || holds(moved[i].tables, table)))
            return moved[i].by;
    return STAYS;
}

static bool names_process(const char *table, const char *column)
{
    return !strcmp(column, "process") ||
           (!strcmp(column, "id") && (!strcmp(table, "process") || !strcmp(table, "mark")));
}

/* What is above 0 moves up by OFFSET; of a limit and an overhead ev.mate is no number of an event
 * (schema.sql). */
static void add_number(struct vs_merge *m, const char *table, const char *column, int64_t offset)
{
    sqlite3_str_appendf(m->select, "CASE WHEN \"%w\" > 0", column);
    if (!strcmp(table, "ev") && !strcmp(column, "mate"))
        sqlite3_str_appendf(m->select, " AND op NOT IN (%d, %d)", VS_OP_LIMIT, VS_OP_OVERHEAD);
    sqlite3_str_appendf(m->select, " THEN \"%w\" + %lld ELSE \"%w\" END", column, (long long)offset, column);
}

/* Where the files' phases have other numbers; zone.held has them in lists of [phase, ...] (schema.sql). */
static void add_phase(struct vs_merge *m, const char *column)
{
    if (!strcmp(column, "held"))
        sqlite3_str_appendall(
            m->select,
            "(SELECT json_group_array(json_set(h.value, '$[0]', coalesce((SELECT new FROM temp.phase_of "
            "WHERE old = json_extract(h.value, '$[0]')), json_extract(h.value, '$[0]')))) "
            "FROM json_each(held) h)");
    else
        sqlite3_str_appendf(m->select, "coalesce((SELECT new FROM temp.phase_of WHERE old = \"%w\"), \"%w\")",
                            column, column);
}

static void add_column(struct vs_merge *m, const char *table, const char *column)
{
    static const enum vs_names names[] = {VS_NAMES_STRING, VS_NAMES_STACK, VS_NAMES_TENSOR};
    const char *comma = sqlite3_str_length(m->into) ? ", " : "";
    enum moves by = moves_of(table, column);
    sqlite3_str_appendf(m->into, "%s\"%w\"", comma, column);
    sqlite3_str_appendall(m->select, comma);
    if (names_process(table, column)) /* 0 in meta: of the file */
        add_number(m, table, column, m->process - 1);
    else if (m->other_phases && (by == PHASES || !strcmp(column, "held")))
        add_phase(m, column);
    else if (by >= STRINGS && by <= TENSORS)
        sqlite3_str_appendf(m->select, "moved_name(%d, \"%w\")", names[by - STRINGS], column);
    else if (by >= NUMBERS && by < OFFSETS)
        add_number(m, table, column, m->by[by]);
    else
        sqlite3_str_appendf(m->select, "\"%w\"", column);
}

static int copy_table(struct vs_merge *m, const char *table)
{
    sqlite3_stmt *q;
    m->into = sqlite3_str_new(m->db);
    m->select = sqlite3_str_new(m->db);
    int rc = -1;
    if (sqlite3_prepare_v2(m->db, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &q, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
        while (sqlite3_step(q) == SQLITE_ROW)
            add_column(m, table, (const char *)sqlite3_column_text(q, 0));
        rc = sqlite3_finalize(q) == SQLITE_OK ? 0 : -1;
    }
    char *into = sqlite3_str_finish(m->into), *select = sqlite3_str_finish(m->select);
    char *sql = rc == 0 && into && select
                    ? sqlite3_mprintf("INSERT INTO main.\"%w\"(%s) SELECT %s FROM other.\"%w\"%s", table,
                                      into, select, table, strcmp(table, "meta") ? "" : " WHERE process > 0")
                    : NULL;
    rc = sql ? run(m, sql) : -1;
    sqlite3_free(into);
    sqlite3_free(select);
    sqlite3_free(sql);
    return rc;
}

/* Ids of what is there: the others' come behind the greatest. */
static void measure(struct vs_merge *m)
{
    m->by[NUMBERS] = (m->process - 1) * (INT64_C(1) << 40);
    m->by[KINDS] = vs_first_number(m->db, "SELECT max(id) FROM main.kind", 0);
    m->by[ACCESS_KINDS] = vs_first_number(m->db, "SELECT max(id) FROM main.access_kind", 0);
}

static int copy_all(struct vs_merge *m)
{
    sqlite3_stmt *q;
    int rc = 0;
    /* a table that came later than the other file is missing there */
    if (sqlite3_prepare_v2(
            m->db,
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND (name NOT LIKE 'away%' OR name IN "
            "(SELECT name FROM other.sqlite_master))",
            -1, &q, NULL) != SQLITE_OK)
        return -1;
    while (rc == 0 && sqlite3_step(q) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(q, 0);
        rc = is_shared(table) ? 0 : copy_table(m, table);
    }
    sqlite3_finalize(q);
    return rc;
}

/* Gives the other file's phases numbers of ours: those of phases that we have by name, or new ones. */
static int match_phases(struct vs_merge *m)
{
    if (run(m, "DROP TABLE IF EXISTS temp.phase_of;"
               "INSERT OR IGNORE INTO main.phase(name) SELECT name FROM other.phase o WHERE NOT EXISTS "
               "(SELECT 1 FROM main.phase p WHERE p.id = o.id AND p.name = o.name) ORDER BY id;"
               "CREATE TEMP TABLE phase_of AS SELECT o.id AS old, p.id AS new FROM other.phase o "
               "JOIN main.phase p ON p.name = o.name WHERE p.id <> o.id;"
               "CREATE INDEX temp.phase_of_old ON phase_of(old)"))
        return -1;
    m->other_phases = vs_first_number(m->db, "SELECT count(*) FROM temp.phase_of", 0) > 0;
    return 0;
}

/* The other file is not trusted: what it defines beside tables does nothing here, and copying it ends. */
static int count_down(void *steps)
{
    *(int64_t *)steps -= 1000;
    return *(int64_t *)steps < 0;
}

static int attach(struct vs_merge *m, const char *from)
{
    char *sql = sqlite3_mprintf("ATTACH %Q AS other", from);
    int rc = sql ? run(m, sql) : -1;
    sqlite3_free(sql);
    return rc;
}

static void say(const struct vs_merge *m, const char *into, char *why, size_t size)
{
    const char *text = m->error[0] ? m->error : m->db ? sqlite3_errmsg(m->db) : "out of memory";
    snprintf(why, size, "%s: %s", into, text);
}

/* Of copying names, whose statements are not run(). */
static int copy_names(struct vs_merge *m)
{
    int rc = vs_merge_names_copy(&m->names);
    if (rc && !m->error[0])
        snprintf(m->error, sizeof m->error, "%s", sqlite3_errmsg(m->db));
    return rc;
}

int vs_store_merge_open(struct vs_merge **out, const char *into, char *why, size_t why_size)
{
    struct vs_merge *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) {
        snprintf(why, why_size, "%s: out of memory", into);
        return -1;
    }
    int rc = sqlite3_open_v2(into, &m->db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ? 0 : -1;
    if (rc == 0)
        vs_schema_guard(m->db);
    if (rc == 0)
        rc = run(m, "PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY; PRAGMA journal_mode=MEMORY") ||
             vs_merge_names_open(&m->names, m->db);
    if (rc) {
        say(m, into, why, why_size);
        vs_store_merge_close(m);
    } else {
        *out = m;
    }
    return rc ? -1 : 0;
}

int vs_store_merge_add(struct vs_merge *m, const char *from, int64_t process, int64_t steps, char *why,
                       size_t why_size)
{
    m->process = process;
    m->steps = steps;
    sqlite3_progress_handler(m->db, steps > 0 ? 1000 : 0, count_down, &m->steps);
    int rc = attach(m, from) || run(m, "BEGIN IMMEDIATE");
    if (rc == 0) {
        measure(m);
        rc = match_phases(m) || copy_names(m) || copy_all(m) ||
             vs_store_points_copy(m->db, process, m->sweep, &m->axes_left) || run(m, "COMMIT") ||
             run(m, "DETACH other");
    }
    if (rc)
        say(m, sqlite3_db_filename(m->db, "main"), why, why_size);
    return rc ? -1 : 0;
}

size_t vs_store_merge_axes_left(const struct vs_merge *m)
{
    return m->axes_left;
}

void vs_store_merge_sweep(struct vs_merge *m, const char *sweep)
{
    m->sweep = sweep;
}

void vs_store_merge_close(struct vs_merge *m)
{
    if (!m)
        return;
    sqlite3_close(m->db); /* rolls back what was not committed */
    vs_merge_names_close(&m->names);
    free(m);
}

/* Tables whose rows are found by their process, and of which no key begins with it. */
static const char indices[] =
    "CREATE INDEX merged_kind ON kind(process); CREATE INDEX merged_rng ON rng(process);"
    "CREATE INDEX merged_step ON step(process); CREATE INDEX merged_moment ON moment(process);"
    "CREATE INDEX merged_sample ON sample(process); CREATE INDEX merged_oom ON oom(process);"
    "CREATE INDEX merged_pool_use ON pool_use(process); CREATE INDEX merged_arena ON arena_sample(process);"
    "CREATE INDEX merged_loss ON loss(process); CREATE INDEX merged_mismatch ON mismatch(process);";

int vs_store_merge_begin(const char *into, const char *like, char *why, size_t why_size)
{
    struct vs_merge m = {.db = NULL};
    int rc =
        sqlite3_open_v2(into, &m.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK ? 0 : -1;
    if (rc == 0)
        vs_schema_guard(m.db);
    if (rc == 0)
        rc = run(&m, "PRAGMA synchronous=OFF") || run(&m, vs_schema_sql) || attach(&m, like) ||
             run(&m, "BEGIN IMMEDIATE;"
                     "INSERT INTO main.op SELECT id, name FROM other.op;"
                     "INSERT INTO main.space SELECT id, name FROM other.space;"
                     "INSERT INTO main.api SELECT id, name FROM other.api;"
                     "INSERT INTO main.element_type SELECT id, name, bytes FROM other.element_type;"
                     "INSERT INTO main.phase SELECT id, name FROM other.phase;"
                     "INSERT INTO main.meta(process, key, value) SELECT process, key, value FROM other.meta "
                     "WHERE process = 0 AND key IN ('schema_version', 'version')");
    if (rc == 0 && run(&m, indices) == 0) {
        char *sql = sqlite3_mprintf("PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
                                    VS_APPLICATION_ID, VS_MERGED);
        rc = sql ? run(&m, sql) : -1;
        sqlite3_free(sql);
    } else {
        rc = -1;
    }
    if (rc)
        say(&m, into, why, why_size);
    sqlite3_close(m.db);
    return rc ? -1 : 0;
}
