/*
 * names.c - the rows that other rows refer to, copied out of the journal's tables as they are needed.
 *
 * Ids are the journal's.  Bit sets remember which rows are written.  After a rollback they are cleared and
 * everything is written again, which INSERT OR IGNORE makes harmless.
 */
#include "internal.h"
#include "trace/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which rows of the journal's tables are in the database already ---- */

bool vs_bits_has(const struct vs_bits *b, uint64_t id)
{
    return id / 64 < b->n && b->words[id / 64] >> (id % 64) & 1;
}

void vs_bits_add(struct vs_bits *b, uint64_t id)
{
    if (id / 64 >= b->n) {
        size_t n = (id / 64 + 1) * 2;
        uint64_t *words = realloc(b->words, n * sizeof *words);
        if (!words)
            return; /* without memory it is written again next time, which is only slower */
        memset(words + b->n, 0, (n - b->n) * sizeof *words);
        b->words = words;
        b->n = n;
    }
    b->words[id / 64] |= 1ull << (id % 64);
}

void vs_bits_clear(struct vs_bits *b)
{
    if (b->words)
        memset(b->words, 0, b->n * sizeof *b->words);
}

/* ---- what never changes ---- */

static int write_element_types(struct vs_store *s)
{
    static const struct {
        const char *name;
        int id, bytes;
    } types[] = {
#define X(n, text, size) {text, n, size},
        VS_ELEMENT_TYPES(X)
#undef X
    };
    char sql[128];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof types / sizeof *types; i++) {
        snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO element_type VALUES(%d,'%s',%d)", types[i].id,
                 types[i].name, types[i].bytes);
        rc = vs_store_exec(s, sql);
    }
    return rc;
}

int vs_names_static(struct vs_store *s)
{
    char sql[128];
    int rc = 0;
#define X(n, NAME, text)                                                                                     \
    if (rc == 0) {                                                                                           \
        snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO " VS_INTO " VALUES(%d,'%s')", n, text);             \
        rc = vs_store_exec(s, sql);                                                                          \
    }
#define VS_INTO "op"
    VS_OPS(X)
#undef VS_INTO
#define VS_INTO "space"
    VS_SPACES(X)
#undef VS_INTO
#undef X
    for (int i = 1; rc == 0 && i < VS_API_END; i++) {
        if (!vs_api_name((uint64_t)i))
            continue;
        snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO api VALUES(%d,'%s')", i, vs_api_name((uint64_t)i));
        rc = vs_store_exec(s, sql);
    }
    return rc == 0 ? write_element_types(s) : rc;
}

/* ---- strings and phases ---- */

int vs_store_string(struct vs_store *s, uint32_t id)
{
    if (!id || vs_bits_has(&s->strings, id))
        return 0;
    const char *text = vs_journal_get_string(s->journal, id, NULL);
    if (!text)
        return 0;
    int rc = vs_sql_run(s, VS_SQL_STRING, "it", (int64_t)id, text);
    if (rc == 0)
        vs_bits_add(&s->strings, id);
    return rc;
}

static uint32_t known_phase(const struct vs_store *s, const char *name)
{
    uint32_t i = 0;
    while (i < s->phases.n && strcmp(s->phases.at[i], name) != 0)
        i++;
    return i;
}

/* A program that puts a running number into range names would make new phases for days.  So the number of
 * phases is bounded, and all further names are one phase. */
static uint32_t find_phase(struct vs_store *s, const char *name)
{
    uint32_t i = known_phase(s, name);
    if (i < s->phases.n)
        return i;
    if (s->phases.n + 1 >= VS_PHASES_MAX && strcmp(name, VS_PHASE_REST) != 0) {
        if ((i = known_phase(s, VS_PHASE_REST)) < s->phases.n)
            return i;
        vs_store_loss(s, 0, 0, VS_LOSS_PHASE_NAMES, NULL);
        name = VS_PHASE_REST;
    }
    uint64_t failed = 0;
    char *copy = strdup(name);
    if (copy)
        vs_list_push(&s->phases, failed, copy);
    if (!copy || failed) {
        free(copy);
        return VS_PHASE_NONE;
    }
    return (uint32_t)s->phases.n - 1;
}

uint32_t vs_store_phase(struct vs_store *s, uint32_t name)
{
    uint32_t id = vs_table_get(&s->phase_ids, name);
    if (id != VS_TABLE_NONE)
        return id;
    const char *text = vs_journal_get_string(s->journal, name, NULL);
    if (!text)
        return VS_PHASE_NONE;
    id = find_phase(s, text);
    vs_table_put(&s->phase_ids, name, id); /* without memory the name is searched again next time */
    return id;
}

static int write_phases(struct vs_store *s)
{
    for (size_t i = s->phases_written; i < s->phases.n; i++) {
        int rc = vs_sql_run(s, VS_SQL_PHASE, "it", (int64_t)i, s->phases.at[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- threads, contexts, devices, modules ---- */

static int write_thread(struct vs_store *s, uint32_t id)
{
    if (vs_bits_has(&s->threads, id))
        return 0;
    const struct vs_thread_row *t = vs_journal_get_thread(s->journal, id);
    if (!t)
        return 0;
    char name[sizeof t->name + 1];
    snprintf(name, sizeof name, "%.*s", (int)sizeof t->name, t->name);
    int rc = vs_sql_run(s, VS_SQL_THREAD, "iiti", (int64_t)id, (int64_t)t->tid, name,
                        (int64_t)(t->flags & VS_THREAD_AUTOGRAD));
    if (rc == 0)
        vs_bits_add(&s->threads, id);
    return rc;
}

static int write_context(struct vs_store *s, uint32_t id)
{
    const struct vs_context_row *c;
    if (id == 0 || id >= 256 || s->contexts[id / 64] >> (id % 64) & 1 ||
        !(c = vs_journal_get_context(s->journal, id)))
        return 0;
    s->contexts[id / 64] |= 1ull << (id % 64);
    return vs_sql_run(s, VS_SQL_CONTEXT, "iii", (int64_t)id, (int64_t)c->handle, (int64_t)c->device);
}

static int write_device(struct vs_store *s, uint32_t id)
{
    const struct vs_device_row *d;
    if (s->devices >> id & 1 || !(d = vs_journal_get_device(s->journal, id)))
        return 0;
    s->devices |= 1ull << id;
    char uuid[41], name[sizeof d->name + 1];
    const uint8_t *u = d->uuid;
    snprintf(uuid, sizeof uuid, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    snprintf(name, sizeof name, "%.*s", (int)sizeof d->name, d->name);
    return vs_sql_run(s, VS_SQL_DEVICE, "itti", (int64_t)d->ordinal, uuid, name, (int64_t)d->total_bytes);
}

static int write_module(struct vs_store *s, uint32_t id)
{
    const struct vs_module_row *m = vs_journal_get_module(s->journal, id);
    return vs_sql_run(
        s, VS_SQL_MODULE, "ittii", (int64_t)id, vs_journal_get_string(s->journal, m->path, NULL),
        vs_journal_get_string(s->journal, m->build_id, NULL), (int64_t)m->base, (int64_t)(m->end - m->start));
}

/* Whatever was appended since the last batch. */
static int write_appended(struct vs_store *s)
{
    int rc = 0;
    for (uint32_t id = 1; rc == 0 && id < 64; id++)
        rc = write_device(s, id);
    for (uint32_t id = 1; rc == 0 && id < 256 && vs_journal_get_context(s->journal, id); id++)
        rc = write_context(s, id);
    for (; rc == 0 && vs_journal_get_module(s->journal, s->next_module); s->next_module++)
        rc = write_module(s, s->next_module);
    return rc;
}

/* ---- tensors: shapes repeat, so the journal has each once, and rows of ev refer to it by their kind ---- */

#define SHAPE_TEXT (VS_TENSOR_DIMS_MAX * 22 + 3)

/* As a list of JSON, which is how Python prints it too. */
static const char *shape_text(const struct vs_tensor *t, char *text, size_t room)
{
    uint32_t dims = vs_tensor_dims_of(&t->row);
    size_t n = 0;
    if (dims == VS_TENSOR_NO_SHAPE)
        return NULL;
    text[n++] = '[';
    for (uint32_t i = 0; i < dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? ", " : "", t->size[i]);
    if (n + 1 < room)
        snprintf(text + n, room - n, "]");
    return text;
}

static int write_tensor(struct vs_store *s, uint32_t id)
{
    struct vs_tensor t;
    char text[SHAPE_TEXT];
    if (!id || vs_bits_has(&s->tensors, id) || !vs_journal_get_tensor(s->journal, id, &t))
        return 0;
    uint32_t type = vs_tensor_type_of(&t.row);
    int rc =
        vs_sql_run(s, VS_SQL_TENSOR, "iinnt", (int64_t)id, (int64_t)vs_tensor_kind_of(&t.row),
                   type == VS_TENSOR_NO_TYPE ? (int64_t)-1 : (int64_t)type,
                   t.row.request ? (int64_t)t.row.request : (int64_t)-1, shape_text(&t, text, sizeof text));
    if (rc == 0)
        vs_bits_add(&s->tensors, id);
    return rc;
}

/* ---- kinds ---- */

_Static_assert(sizeof(struct vs_kind) == 24, "without padding");

static struct vs_kind kind_of(const struct vs_row *r)
{
    return (struct vs_kind){r->stream, r->tensor, r->api,     r->thread,
                            r->status, r->space,  r->context, r->managed};
}

const struct vs_kind *vs_kind_at(const struct vs_store *s, int64_t id)
{
    return vs_intern_key(&s->kinds, id, sizeof(struct vs_kind));
}

static int write_kinds(struct vs_store *s)
{
    int rc = 0;
    for (size_t id = s->kinds_written + 1; rc == 0 && id <= s->kinds.count; id++)
        rc = vs_put_row(s, VS_SQL_KIND, &(struct vs_kind_row){(int64_t)id, *vs_kind_at(s, (int64_t)id)});
    return rc;
}

/* ---- a batch ---- */

static int names_of_rows(struct vs_store *s, struct vs_output *out)
{
    const struct vs_row *last = NULL;
    struct vs_kind before = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < out->rows.n; i++) {
        struct vs_row *r = &out->rows.at[i];
        struct vs_kind kind = kind_of(r);
        r->kind = last && memcmp(&kind, &before, sizeof kind) == 0
                      ? last->kind
                      : vs_intern_number(&s->kinds, &kind, sizeof kind);
        before = kind;
        last = r;
        if (r->stack && !vs_bits_has(&s->stacks, r->stack))
            rc = vs_store_stack(s, r->stack);
        if (rc == 0 && r->tensor && !vs_bits_has(&s->tensors, r->tensor))
            rc = write_tensor(s, r->tensor);
        if (rc == 0 && !vs_bits_has(&s->threads, r->thread))
            rc = write_thread(s, r->thread);
    }
    return rc;
}

int vs_names_for_batch(struct vs_store *s, struct vs_output *out)
{
    int rc = write_appended(s);
    if (rc == 0)
        rc = names_of_rows(s, out);
    for (size_t i = 0; rc == 0 && i < out->ranges.n; i++) {
        rc = vs_store_string(s, out->ranges.at[i].name);
        if (rc == 0)
            rc = vs_store_string(s, out->ranges.at[i].domain);
        if (rc == 0 && !vs_bits_has(&s->threads, out->ranges.at[i].thread))
            rc = write_thread(s, out->ranges.at[i].thread);
    }
    for (size_t i = 0; rc == 0 && i < out->marks.n; i++)
        rc = vs_store_string(s, out->marks.at[i].name);
    for (size_t i = 0; rc == 0 && i < out->pools.n; i++)
        rc = vs_store_string(s, out->pools.at[i].name);
    for (size_t i = 0; rc == 0 && i < out->facts.n; i++) {
        rc = vs_store_string(s, out->facts.at[i].key);
        if (rc == 0)
            rc = vs_store_string(s, out->facts.at[i].value);
    }
    for (size_t i = 0; rc == 0 && i < out->born.n; i++) /* thinned: their rows may be missing */
        if ((rc = vs_store_stack(s, out->born.at[i].stack)) == 0)
            rc = write_tensor(s, out->born.at[i].tensor);
    if (rc == 0)
        rc = write_kinds(s);
    return rc == 0 ? write_phases(s) : rc;
}

void vs_names_committed(struct vs_store *s)
{
    s->kinds_written = s->kinds.count;
    s->phases_written = s->phases.n;
}

void vs_names_forget(struct vs_store *s)
{
    vs_bits_clear(&s->strings);
    vs_bits_clear(&s->stacks);
    vs_bits_clear(&s->frames);
    vs_bits_clear(&s->tensors);
    vs_bits_clear(&s->threads);
    vs_table_free(&s->owner_ids);
    vs_table_free(&s->file_classes);
    memset(s->contexts, 0, sizeof s->contexts);
    s->devices = 0;
    s->next_module = 1;
}

void vs_names_free(struct vs_store *s)
{
    free(s->strings.words);
    free(s->stacks.words);
    free(s->frames.words);
    free(s->tensors.words);
    free(s->threads.words);
    for (size_t i = 0; i < s->phases.n; i++)
        free(s->phases.at[i]);
    free(s->phases.at);
    free(s->accesses.at);
    vs_intern_free(&s->access_kinds);
    vs_intern_free(&s->kinds);
    vs_table_free(&s->owner_ids);
    vs_table_free(&s->file_classes);
    vs_table_free(&s->phase_ids);
}

/* ---- continuing a database ---- */

static void load_kind(struct vs_store *s, sqlite3_stmt *q)
{
    struct vs_kind_row row = {0};
    vs_get_row(q, VS_SQL_KIND, &row);
    vs_intern_number(&s->kinds, &row.is, sizeof row.is);
}

static void load_access_kind(struct vs_store *s, sqlite3_stmt *q)
{
    struct vs_access_kind_row row = {0};
    vs_get_row(q, VS_SQL_ACCESS_KIND, &row);
    s->access_kinds_written = vs_intern_number(&s->access_kinds, &row.is, sizeof row.is);
}

static void load_phase(struct vs_store *s, sqlite3_stmt *q)
{
    find_phase(s, (const char *)sqlite3_column_text(q, 0));
}

static int load_rows(struct vs_store *s, const char *sql, void (*load)(struct vs_store *s, sqlite3_stmt *q))
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    while (rc == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        load(s, q);
    sqlite3_finalize(q);
    return vs_sqlite_errno(s, rc);
}

static int load_phases(struct vs_store *s)
{
    static const char *const known[] = {"none", "forward", "logits", "backward", "optimizer"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        find_phase(s, known[i]);
    return load_rows(s, "SELECT name FROM phase ORDER BY id", load_phase);
}

int vs_names_load(struct vs_store *s)
{
    int rc = load_phases(s);
    if (rc == 0 && !s->fresh)
        rc = load_rows(s, "SELECT * FROM kind ORDER BY id", load_kind);
    if (rc == 0 && !s->fresh)
        rc = load_rows(s, "SELECT * FROM access_kind ORDER BY id", load_access_kind);
    s->next_module = 1;
    s->next_string =
        (uint32_t)vs_store_number(s, "SELECT max(id)+1 FROM string WHERE id >= 1073741824", VS_OWN_STRINGS);
    if (s->next_string < VS_OWN_STRINGS)
        s->next_string = VS_OWN_STRINGS;
    if (!s->fresh)
        vs_names_committed(s);
    /* a database of a process that was killed before its first commit lacks even the fixed phases */
    s->phases_written = 0;
    return rc;
}
