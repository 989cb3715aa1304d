/*
 * stacks.c - writes call stacks: their frames, and facts about whole stacks, so that no query must walk them.
 *
 *      owner   the library that made the request: the file of the first native frame outward that is not part
 *              of CUDA
 *      line    the line of Python that it is shown by, and its caller, the program's own (line.c)
 *      node    the autograd node that was running
 *      layer   where the program was in its modules or ranges
 *
 * A stack is the path from its row to the root.  A row is written once, after the rows of its callers, and
 * all facts follow from the frames alone.
 */
#include "files.h"
#include "internal.h"

#include <string.h>

#define DEPTH_MAX 512

/* ---- the owner ---- */

static bool passes_requests_on(const char *name)
{
    static const char *const between[] = {"libvramscope", "libcuda.so", "libcudart", "libc.so",
                                          "libpthread",   "ld-linux",   "libdl.so",  "libcudart_static"};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        if (strncmp(name, between[i], strlen(between[i])) == 0)
            return true;
    return false;
}

static const char *name_in_path(const struct vs_store *s, uint32_t string)
{
    const char *path = vs_journal_get_string(s->journal, string, NULL);
    return path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

/* The string id of the file name of PATH, a journal's string; 0 for the driver, the runtime, libc and
 * vramscope. */
static uint32_t owner_of_path(struct vs_store *s, uint32_t string)
{
    uint32_t id = vs_table_get(&s->owner_ids, string);
    if (id != VS_TABLE_NONE)
        return id;
    const char *name = name_in_path(s, string);
    if (!name)
        return 0;
    id = passes_requests_on(name) ? 0 : s->next_string++;
    if (id && vs_sql_run(s, VS_SQL_STRING, "it", (int64_t)id, name) < 0)
        return 0;
    vs_table_put(&s->owner_ids, string, id);
    return id;
}

/* The journal's string with the path of a frame's library; 0: it is of none.  An imported trace may know the
 * source of native code and not its library. */
static uint32_t library_of_frame(const struct vs_store *s, const struct vs_frame_row *f)
{
    if (f->kind == VS_FRAME_ADDRESS) {
        const struct vs_module_row *m = f->module ? vs_journal_get_module(s->journal, f->module) : NULL;
        return m ? m->path : 0;
    }
    const char *file = f->kind == VS_FRAME_NATIVE ? vs_journal_get_string(s->journal, f->file, NULL) : NULL;
    return file && strstr(file, ".so") ? f->file : 0;
}

static uint32_t owner_of_stack(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *node;
    for (int depth = 0; depth < DEPTH_MAX && (node = vs_journal_get_stack(s->journal, id));
         depth++, id = node->parent) {
        const struct vs_frame_row *f = vs_journal_get_frame(s->journal, node->frame);
        uint32_t library = f ? library_of_frame(s, f) : 0, owner = library ? owner_of_path(s, library) : 0;
        if (owner)
            return owner;
    }
    return 0;
}

const char *vs_store_owner(const struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *node;
    for (int depth = 0; depth < DEPTH_MAX && (node = vs_journal_get_stack(s->journal, id));
         depth++, id = node->parent) {
        const struct vs_frame_row *f = vs_journal_get_frame(s->journal, node->frame);
        uint32_t library = f ? library_of_frame(s, f) : 0;
        const char *name = library ? name_in_path(s, library) : NULL;
        if (name && !passes_requests_on(name))
            return name;
    }
    return NULL;
}

/* ---- facts about a whole stack ---- */

/* All but `forward` are frame ids, 0: none. */
struct stack_facts {
    uint32_t line, caller, node, layer;
    bool forward, again;
};

static struct stack_facts facts_of(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *row;
    struct stack_facts facts = {0};
    struct vs_line_search search = {0};
    for (int depth = 0; depth < DEPTH_MAX && (row = vs_journal_get_stack(s->journal, id));
         depth++, id = row->parent) {
        const struct vs_frame_row *f = vs_journal_get_frame(s->journal, row->frame);
        if (f && f->kind == VS_FRAME_PYTHON) {
            vs_line_see(s, &search, row->frame, f, facts.node != 0);
        } else if (f && f->kind == VS_FRAME_NODE) {
            facts.again = facts.again || (!facts.node && facts.layer);
            facts.node = facts.node ? facts.node : row->frame;
        } else if (f && f->kind == VS_FRAME_LAYER && !facts.layer) {
            facts.layer = row->frame;
        }
    }
    struct vs_line line = vs_line_found(&search, &facts.caller);
    facts.line = line.frame;
    facts.forward = line.forward;
    return facts;
}

/* ---- rows ---- */

static int write_address(struct vs_store *s, uint32_t id, const struct vs_frame_row *f)
{
    const struct vs_module_row *m = vs_journal_get_module(s->journal, f->module);
    return vs_sql_run(s, VS_SQL_FRAME, "iiiittn", (int64_t)id, (int64_t)f->kind, (int64_t)f->module,
                      (int64_t)(f->address - (m ? m->base : 0)), NULL, NULL, (int64_t)-1);
}

static int64_t kind_in_database(const struct vs_frame_row *f)
{
    return f->kind == VS_FRAME_NATIVE ? VS_FRAME_ADDRESS : f->kind;
}

static int write_named(struct vs_store *s, uint32_t id, const struct vs_frame_row *f)
{
    return vs_sql_run(s, VS_SQL_FRAME, "iinnttn", (int64_t)id, kind_in_database(f),
                      f->kind == VS_FRAME_NATIVE ? (int64_t)0 : (int64_t)-1, (int64_t)-1,
                      vs_journal_get_string(s->journal, f->function, NULL),
                      vs_journal_get_string(s->journal, f->file, NULL),
                      f->line ? (int64_t)f->line : (int64_t)-1);
}

static int write_frame(struct vs_store *s, uint32_t id)
{
    const struct vs_frame_row *f;
    if (!id || vs_bits_has(&s->frames, id) || !(f = vs_journal_get_frame(s->journal, id)))
        return 0;
    int rc = f->kind == VS_FRAME_ADDRESS ? write_address(s, id, f) : write_named(s, id, f);
    if (rc == 0)
        vs_bits_add(&s->frames, id);
    return rc;
}

int vs_store_stack(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *node;
    for (int depth = 0; id && depth < DEPTH_MAX && !vs_bits_has(&s->stacks, id); depth++, id = node->parent) {
        if (!(node = vs_journal_get_stack(s->journal, id)))
            return 0;
        int rc = write_frame(s, node->frame);
        uint32_t owner = owner_of_stack(s, id);
        struct stack_facts facts = facts_of(s, id);
        if (rc == 0)
            rc = vs_sql_run(s, VS_SQL_STACK, "iiinninnin", (int64_t)id, (int64_t)node->parent,
                            (int64_t)node->frame, vs_or_null(owner), vs_or_null(facts.line),
                            (int64_t)facts.forward, vs_or_null(facts.node), vs_or_null(facts.layer),
                            (int64_t)facts.again, vs_or_null(facts.caller));
        if (rc < 0)
            return rc;
        vs_bits_add(&s->stacks, id);
    }
    return 0;
}

/*
 * ---- names of native frames, in a finished database ----
 *
 * All are written in one short transaction, so no reader and no recording process waits while symbol tables
 * are read.
 */

#define BUSY_MS 1000

int vs_frames_open(sqlite3 **db, const char *path)
{
    int code = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        return code;
    vs_schema_guard(*db);
    sqlite3_busy_timeout(*db, BUSY_MS);
    return SQLITE_OK;
}

static int write_name(sqlite3_stmt *update, const struct vs_frame_name *n)
{
    sqlite3_bind_text(update, 1, n->function, -1, SQLITE_STATIC);
    sqlite3_bind_text(update, 2, n->file, -1, SQLITE_STATIC);
    if (n->file)
        sqlite3_bind_int(update, 3, n->line);
    else
        sqlite3_bind_null(update, 3);
    sqlite3_bind_int64(update, 4, n->frame);
    int code = sqlite3_step(update);
    sqlite3_reset(update);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int vs_frames_name(sqlite3 *db, const struct vs_frame_name *names, size_t count, bool all)
{
    sqlite3_stmt *update = NULL;
    int named = 0;
    if (sqlite3_db_readonly(db, "main") == 1 ||
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return 0;
    int code = sqlite3_prepare_v2(db, "UPDATE frame SET function = ?1, file = ?2, line = ?3 WHERE id = ?4",
                                  -1, &update, NULL);
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        code = write_name(update, &names[i]);
        named += names[i].function != NULL;
    }
    sqlite3_finalize(update);
    if (code == SQLITE_OK && all) /* frames without a name are not looked up again */
        code = sqlite3_exec(db, "INSERT OR REPLACE INTO meta SELECT 'named_frames', count(id), 0 FROM frame",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return named;
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return 0;
}
