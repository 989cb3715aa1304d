/*
 * internal.h - the store's state, shared by its files:
 *
 *      open.c       opening, creating, settings, closing; whether a journal belongs to the file
 *      vfs.c        SQLite's system calls; descriptors.c: the files behind its numbers; heap.c: its memory
 *      batch.c      one transaction, and what continuing the database needs; loss.c: what was lost
 *      names.c      what rows refer to: strings, threads, modules, tensors, kinds, phases
 *      stacks.c     call stacks: their frames, who asked; line.c: the program's own line
 *      rows.c       the batch as a table that SQLite reads: its events go into `ev`
 *      columns.c    the columns of rows that are structs
 *      access.c     when the device used each block
 *      live.c       living allocations, those that lived at the peak, what a framework says of them
 *      oom.c        out-of-memory, and the allocations that lived then
 *      restore.c    a ledger that continues the database
 *      fold*.c      keeping the file below its limit (fold.h)
 *      sql.c        statements, SQLite's errors as ours, how much room the file has
 *      merge*.c     adding another file's recording; points.c: a sweep's points; schema.c (files.h)
 */
#ifndef VS_TRACE_STORE_INTERNAL_H
#define VS_TRACE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "store.h"
#include "trace/ledger/addresses.h"

#define VS_OWN_STRINGS     (1u << 30)         /* string ids from here on are the store's, not the journal's */
#define VS_EVENT_BYTES     192                /* of one event at most: a row, half a range and its peaks */
#define VS_FILE_SHARE(max) ((max) / 100 * 82) /* of the limit; a larger file is folded more */
#define VS_OOMS_MAX        256                /* kept: three per device, two per refused thread */
#define VS_PHASES_MAX      1024               /* phases, VS_PHASE_REST among them */
#define VS_PHASE_REST      "other phases"

/* intern.c: a number for each content, found again by it.  A key is any bytes; it is copied, compared as a
 * whole, and kept until the end. */
struct vs_intern {
    struct vs_intern_entry *entries;
    uint32_t *slots; /* of entries, from 1; 0 empty; as many as a power of two */
    char *bytes;     /* of all keys */
    size_t count, slot_count, used, entry_room, byte_room;
};

/* The id of KEY where it is there, else 0. */
int64_t vs_intern_find(const struct vs_intern *n, const void *key, size_t size);
/* Gives KEY, which is not there, the id ID, above 0.  0, or -ENOMEM. */
int vs_intern_add(struct vs_intern *n, const void *key, size_t size, int64_t id);
/* Where all keys have SIZE bytes, and ids count from 1: KEY's id, which is added where it is not there (0: no
 * memory); and the key of an id, NULL: there is none. */
uint32_t vs_intern_number(struct vs_intern *n, const void *key, size_t size);
const void *vs_intern_key(const struct vs_intern *n, int64_t id, size_t size);
void vs_intern_free(struct vs_intern *n);

struct vs_bits { /* ids that are written */
    uint64_t *words;
    size_t n;
};

struct vs_kind { /* without padding: interned as bytes, as is the next */
    uint64_t stream;
    uint32_t tensor;
    uint16_t api, thread, status, space, context, managed;
};
struct vs_kind_row {
    int64_t id;
    struct vs_kind is;
};

enum { VS_ACCESS_STEPS = 6, VS_ACCESS_COLUMNS = 10, VS_ACCESS_NUMBERS = 4 };

struct vs_access_values { /* a row of access, column by column */
    int64_t value[VS_ACCESS_COLUMNS];
    int64_t number[VS_ACCESS_NUMBERS]; /* what its column `steps` lists; VS_ACCESS_NONE: null */
    bool lists;                        /* it does: value[VS_ACCESS_STEPS] does not count */
};
#define VS_ACCESS_NONE INT64_MIN /* NULL */

struct vs_access_key { /* a row of access_kind: strings, phases by their ids */
    uint32_t first_by, last_by, first_phase, last_phase, kinds;
    uint16_t phases, sure_phases;
};
struct vs_access_kind_row {
    int64_t id;
    struct vs_access_key is;
};

struct vs_alloc_then { /* that lived at row `then` */
    struct vs_alloc is;
    uint64_t then;
};

/* The number of the process that a store writes.  A recording has a file of its own; other numbers appear
 * only in joined files, which no recording writes to. */
#define VS_PROCESS "1"

#define VS_QUESTION(NAME, column) ",?"

/* Of the rows of away between two numbers those that stay when that stretch is folded: of each device the
 * last and the greatest, and those that held at the moments that remain: of peaks, out-of-memory and zones.
 */
#define VS_AWAY_ENDS                                                                                         \
    "SELECT max(seq) FROM away WHERE seq BETWEEN ?1 AND ?2 GROUP BY device UNION ALL "                       \
    "SELECT seq FROM (SELECT seq, max(away_bytes) FROM away WHERE seq BETWEEN ?1 AND ?2 GROUP BY device) "
#define VS_AWAY_AT(until, moments)                                                                           \
    "UNION ALL SELECT ifnull((SELECT a.seq FROM away a WHERE a.device = z.device AND " until                 \
    " ORDER BY a.seq DESC LIMIT 1), 0) FROM " moments " "
#define VS_AWAY_ZONES                                                                                        \
    "zone z CROSS JOIN json_each(json_array(z.max_allocated_t, z.min_allocated_t, z.max_reserved_t, "        \
    "z.t_last)) m WHERE z.first_seq BETWEEN ?1 AND ?2"
#define VS_AWAYS_KEPT                                                                                        \
    VS_AWAY_ENDS VS_AWAY_AT("a.seq <= z.seq", "peak z WHERE z.seq BETWEEN ?1 AND ?2")                        \
        VS_AWAY_AT("a.seq <= z.seq", "oom z WHERE z.seq BETWEEN ?1 AND ?2")                                  \
            VS_AWAY_AT("a.seq <= ?2 AND a.t_ns <= m.value", VS_AWAY_ZONES)

/* Likewise of away_block: what holds of each block at the end, where most is away, and at peaks and
 * out-of-memory. */
#define VS_AWAY_BLOCKS_KEPT                                                                                  \
    "SELECT max(b.seq) FROM (SELECT ?2 AS seq UNION SELECT seq FROM peak UNION SELECT seq FROM oom UNION "   \
    "SELECT seq FROM (SELECT seq, max(away_bytes) FROM away WHERE seq BETWEEN ?1 AND ?2 GROUP BY device)) "  \
    "m JOIN "                                                                                                \
    "away_block b ON b.seq BETWEEN ?1 AND min(m.seq, ?2) GROUP BY m.seq, b.device, b.alloc_seq"

/* X(name, sql) */
#define VS_STATEMENTS(X)                                                                                     \
    X(STRING, "INSERT OR IGNORE INTO string VALUES(?,?)")                                                    \
    X(PHASE, "INSERT OR IGNORE INTO phase VALUES(?,?)")                                                      \
    X(THREAD, "INSERT OR REPLACE INTO thread VALUES(?," VS_PROCESS ",?,?,?)")                                \
    X(CONTEXT, "INSERT OR REPLACE INTO context VALUES(?," VS_PROCESS ",?,?)")                                \
    X(DEVICE, "INSERT OR REPLACE INTO device VALUES(?," VS_PROCESS ",?,?,?)")                                \
    X(MODULE, "INSERT OR IGNORE INTO module VALUES(?,?,?,?,?)")                                              \
    X(FRAME, "INSERT OR IGNORE INTO frame VALUES(?,?,?,?,?,?,?)")                                            \
    X(STACK, "INSERT OR IGNORE INTO stack VALUES(?,?,?,?,?,?,?,?,?,?)")                                      \
    X(KIND, "INSERT OR IGNORE INTO kind VALUES(?," VS_PROCESS ",?,?,?,?,?,?,?,?)")                           \
    X(TENSOR, "INSERT OR IGNORE INTO tensor VALUES(?,?,?,?,?)")                                              \
    X(EV, "INSERT INTO ev SELECT * FROM rows")                                                               \
    X(RANGE, "INSERT OR REPLACE INTO rng VALUES(?," VS_PROCESS ",?,?,?,?,?,?,?,?,?,?,?)")                    \
    X(RANGE_PEAK, "INSERT OR REPLACE INTO range_peak VALUES(?,?,?,?,?)")                                     \
    X(ZONE, "INSERT OR REPLACE INTO zone VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")               \
    X(SAMPLE, "INSERT INTO sample VALUES(" VS_PROCESS ",?,?,?,?,?,?,?,?)")                                   \
    X(ARENA, "INSERT INTO arena_sample VALUES(" VS_PROCESS ",?,?" VS_ARENA_FIGURES(VS_QUESTION) ")")         \
    X(AWAY, "INSERT INTO away VALUES(?,?,?,?)")                                                              \
    X(AWAY_BLOCK, "INSERT INTO away_block VALUES(?,?,?,?,?,?,?,?,?,?)")                                      \
    X(POOL_USE, "INSERT INTO pool_use VALUES(" VS_PROCESS ",?,?,?,?,?,?)")                                   \
    X(STEP, "INSERT INTO step VALUES(" VS_PROCESS ",?,?,?)")                                                 \
    X(MOMENT, "INSERT INTO moment VALUES(" VS_PROCESS ",?,?,?,?,?)")                                         \
    X(MISMATCH, "INSERT INTO mismatch VALUES(" VS_PROCESS ",?,?,?,?,?,?)")                                   \
    X(UPPER_BOUND, "INSERT OR REPLACE INTO upper_bound VALUES(" VS_PROCESS ",?,?,?,?,?,?)")                  \
    X(AMEND, "INSERT OR REPLACE INTO amend VALUES(?,?,?)")                                                   \
    X(PHASE_STAT, "INSERT OR REPLACE INTO phase_stat VALUES(" VS_PROCESS ",?,?,?,?,?,?,?,?,?,?)")            \
    X(PEAK, "INSERT OR REPLACE INTO peak VALUES(" VS_PROCESS ",?,?,?,?,?,?,?)")                              \
    X(COUNTER, "INSERT OR REPLACE INTO counter VALUES(" VS_PROCESS ",?,?,?)")                                \
    X(LOSS, "INSERT INTO loss VALUES(" VS_PROCESS ",?,?,?,?)")                                               \
    X(LIVE, "INSERT OR REPLACE INTO live VALUES(?,?,?,?,?,?,?,?,?,?,?,?)")                                   \
    X(LIVE_GONE, "DELETE FROM live WHERE alloc_seq = ?")                                                     \
    X(PEAK_LIVE, "INSERT OR REPLACE INTO peak_live VALUES(" VS_PROCESS ",?,?,?,?,?,?,?,?,?,?,?,?)")          \
    X(PEAK_LIVE_GONE, "DELETE FROM peak_live WHERE device = ?")                                              \
    X(OOM, "INSERT INTO oom VALUES(" VS_PROCESS                                                              \
           ",?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")                            \
    X(OOM_LIVE, "INSERT OR REPLACE INTO oom_live VALUES(" VS_PROCESS ",?,?,?,?,?,?,?,?,?,?,?)")              \
    X(MARK, "INSERT OR REPLACE INTO mark VALUES(" VS_PROCESS ",?,?,?)")                                      \
    X(RESUME, "INSERT INTO resume VALUES(?,?,?,?,?,?)")                                                      \
    X(META, "INSERT OR REPLACE INTO meta VALUES(?,?," VS_PROCESS ")")                                        \
    X(FACT, "INSERT OR REPLACE INTO meta SELECT k.text, v.text, " VS_PROCESS                                 \
            " FROM string k CROSS JOIN string v WHERE k.id = ? AND v.id = ?")                                \
    X(FRAMEWORK_ROLE, "INSERT OR REPLACE INTO framework_role VALUES(?,?)")                                   \
    X(FRAMEWORK_ROLE_GONE,                                                                                   \
      "DELETE FROM framework_role WHERE alloc_seq = ?1 AND NOT EXISTS (SELECT 1 FROM device d CROSS JOIN "   \
      "peak_live p ON p.process = 1 AND p.device = d.id AND p.alloc_seq = ?1) AND NOT EXISTS (SELECT 1 "     \
      "FROM oom m CROSS JOIN oom_live o ON o.process = 1 AND o.oom_seq = m.seq AND o.alloc_seq = ?1)")       \
    X(FRAMEWORK_ROLE_PEAK_GONE,                                                                              \
      "DELETE FROM framework_role WHERE alloc_seq IN (SELECT alloc_seq FROM peak_live WHERE process = 1 "    \
      "AND device = ?) AND NOT EXISTS (SELECT 1 FROM ev e WHERE e.seq = framework_role.alloc_seq)")          \
    X(ACCESS_KIND, "INSERT OR IGNORE INTO access_kind VALUES(?," VS_PROCESS ",?,?,?,?,?,?,?)")               \
    X(ACCESS, "INSERT OR REPLACE INTO access SELECT * FROM accesses")                                        \
    X(ACCESS_GONE, "DELETE FROM access WHERE alloc_seq = ?1 AND NOT EXISTS (SELECT 1 FROM device d CROSS "   \
                   "JOIN peak_live p "                                                                       \
                   "ON p.process = 1 AND p.device = d.id AND p.alloc_seq = ?1) AND NOT EXISTS (SELECT 1 "    \
                   "FROM oom m CROSS "                                                                       \
                   "JOIN oom_live o ON o.process = 1 AND o.oom_seq = m.seq AND o.alloc_seq = ?1)")           \
    X(ACCESS_PEAK_GONE,                                                                                      \
      "DELETE FROM access WHERE alloc_seq IN (SELECT alloc_seq FROM peak_live WHERE process = 1 AND "        \
      "device = ?) AND NOT EXISTS (SELECT 1 FROM ev e WHERE e.seq = access.alloc_seq)")                      \
    X(EV_GONE, "DELETE FROM ev WHERE rowid = ?")                                                             \
    X(AMEND_GONE, "DELETE FROM amend WHERE seq = ?")                                                         \
    X(FREE_AMENDED, "SELECT 1 FROM amend WHERE seq = ? AND op = 3")                                          \
    X(FOLD_READ, "SELECT rowid,op,device,kind,address,size,range,mate FROM ev WHERE rowid BETWEEN ? AND ?")  \
    X(FOLD_SPAN, "DELETE FROM ev WHERE rowid BETWEEN ? AND ?")                                               \
    X(FOLD_ZONES, "SELECT * FROM zone WHERE first_seq BETWEEN ? AND ? ORDER BY first_seq")                   \
    X(FOLD_ZONES_GONE, "DELETE FROM zone WHERE first_seq BETWEEN ? AND ?")                                   \
    X(FOLD_SAMPLES, "SELECT * FROM sample WHERE seq BETWEEN ? AND ? ORDER BY seq")                           \
    X(SAMPLE_GONE, "DELETE FROM sample WHERE seq = ?")                                                       \
    X(FOLD_AWAYS, "DELETE FROM away WHERE seq BETWEEN ?1 AND ?2 AND seq NOT IN (" VS_AWAYS_KEPT ")")         \
    X(FOLD_AWAY_BLOCKS,                                                                                      \
      "DELETE FROM away_block WHERE seq BETWEEN ?1 AND ?2 AND seq NOT IN (" VS_AWAY_BLOCKS_KEPT ")")         \
    X(FOLD_STEPS, "DELETE FROM step WHERE seq BETWEEN ?1 AND ?2 AND seq < (SELECT max(seq) FROM step WHERE " \
                  "seq BETWEEN ?1 AND ?2)")                                                                  \
    X(FOLD_MOMENTS, "DELETE FROM moment WHERE seq BETWEEN ? AND ? AND source <> 3")                          \
    X(RANGE_READ, "SELECT * FROM rng WHERE id = ?")                                                          \
    X(RANGE_PEAK_READ, "SELECT * FROM range_peak WHERE range = ?")                                           \
    X(RANGE_GONE, "DELETE FROM rng WHERE id = ?")                                                            \
    X(RANGE_PEAK_GONE, "DELETE FROM range_peak WHERE range = ?")                                             \
    X(FOLD_RANGES,                                                                                           \
      "SELECT phase,name,domain,device,ranges,ns,allocated_bytes,t_ns,reserved_bytes FROM range_fold "       \
      "WHERE stretch BETWEEN ? AND ? ORDER BY stretch,phase,name,domain,device")                             \
    X(FOLD_RANGES_GONE, "DELETE FROM range_fold WHERE stretch BETWEEN ? AND ?")                              \
    X(FOLD_RANGE, "INSERT OR REPLACE INTO range_fold VALUES(?,?,?,?,?,?,?,?,?,?)")                           \
    X(STRETCH, "INSERT OR REPLACE INTO stretch VALUES(?,?,?,?,?,?,?,?,?,?,?,?)")                             \
    X(STRETCH_FOLDED, "UPDATE stretch SET folded = ? WHERE first_seq = ?")                                   \
    X(STRETCH_JOIN,                                                                                          \
      "UPDATE stretch SET (last_seq,t_last,last_step,steps,ranges,samples,folded,unwritten,bytes) = "        \
      "(SELECT "                                                                                             \
      "b.last_seq,b.t_last,b.last_step,stretch.steps+b.steps,stretch.ranges+b.ranges,stretch.samples+"       \
      "b.samples,stretch.folded+b.folded,stretch.unwritten+b.unwritten,stretch.bytes+b.bytes FROM stretch "  \
      "b "                                                                                                   \
      "WHERE b.first_seq = ?2) WHERE first_seq = ?1")                                                        \
    X(STRETCH_EXTEND, "UPDATE stretch SET "                                                                  \
                      "last_seq=?2,t_last=?3,last_step=?4,steps=steps+?5,ranges=ranges+?6,samples=samples+?" \
                      "7,unwritten=unwritten+?8,bytes=bytes+?9 WHERE first_seq=?1")                          \
    X(STRETCH_GONE, "DELETE FROM stretch WHERE first_seq = ?")                                               \
    X(STRETCHES, "SELECT first_seq,last_seq,t_first,t_last,first_step,last_step,folded,bytes,"               \
                 "CASE WHEN folded > 0 THEN (SELECT count(*) FROM zone z WHERE z.first_seq BETWEEN "         \
                 "a.first_seq AND a.last_seq) + (SELECT count(*) FROM sample p WHERE p.seq BETWEEN "         \
                 "a.first_seq AND a.last_seq) + (SELECT count(*) FROM range_fold r WHERE r.stretch = "       \
                 "a.first_seq) ELSE 0 END FROM stretch a WHERE folded IS NOT NULL ORDER BY first_seq")       \
    X(THINNED, "UPDATE loss SET events = ? WHERE code = 'thinned'")

enum vs_statement {
#define X(NAME, sql) VS_SQL_##NAME,
    VS_STATEMENTS(X)
#undef X
        VS_SQL_END
};

struct vs_store_loss_row {
    int64_t t;
    uint64_t events;
    enum vs_loss what;
    char *why;
};

struct vs_store {
    sqlite3 *db;
    struct vs_journal *journal;
    struct vs_database config; /* the texts in it are not copied */
    bool fresh, wal;
    int64_t start_realtime_ns, start_monotonic_ns; /* the journal's */
    uint64_t log_bytes; /* size at which the WAL is checkpointed, unless a reader holds it */
    sqlite3_stmt *sql[VS_SQL_END];

    const struct vs_row *run; /* what table `rows` shows: rows whose numbers follow each other */
    size_t run_length;
    uint64_t last_ev; /* highest rowid of ev */

    struct vs_bits strings, stacks, frames, threads, tensors;
    uint32_t next_module;
    uint64_t contexts[4], devices;        /* bits */
    uint32_t next_string;                 /* own ids */
    struct vs_table owner_ids;            /* journal string of a library's path -> string id of its name */
    struct vs_table file_classes;         /* string id of a Python file -> what it is (line.c) */
    struct vs_intern kinds, access_kinds; /* struct vs_kind and vs_access_key; ids from 1 */
    size_t kinds_written, access_kinds_written;
    VS_LIST(struct vs_access_values, accesses); /* rows of access that are to be written next */
    VS_LIST(char *, phases);                    /* names, by id */
    size_t phases_written;
    struct vs_table phase_ids; /* journal string -> phase */

    VS_LIST(struct vs_store_loss_row, losses);
    uint64_t live_seq, thinned_from, thinned;
    uint64_t peak_seq[VS_LEDGER_DEVICES];       /* whose peak_live is written */
    uint64_t oom_version, oom_set[VS_OOMS_MAX]; /* as committed; whose oom_live is written */
    size_t oom_sets;
    struct vs_resume_rows {
        struct vs_resume_row *at;
        size_t n, size;
    } resume, resume_next; /* as committed; of the present batch */
    struct vs_fold *fold;
    bool thinned_written, live_incomplete, live_written, amends, simulated_dirty, roles;
    int simulated;
};

/* sql.c */
uint64_t vs_store_used(struct vs_store *s);
/* Whether BYTES more, and some names, stay below LIMIT, a share of max_bytes; true where that is unbounded.
 */
bool vs_store_fits(struct vs_store *s, uint64_t bytes, uint64_t limit);
int vs_sqlite_errno(struct vs_store *s, int rc);
int vs_store_exec(struct vs_store *s, const char *sql);
/* The first column of the first row; OTHERWISE where there is none, or NULL. */
int64_t vs_first_number(sqlite3 *db, const char *sql, int64_t otherwise);
int64_t vs_store_number(struct vs_store *s, const char *sql, int64_t otherwise);

/* One row: vs_sql_run(s, VS_SQL_X, "iit", a, b, c): i int64, t text (NULL allowed), n NULL where negative */
int vs_sql_run(struct vs_store *s, enum vs_statement which, const char *types, ...);
int vs_sql_prepare(struct vs_store *s, enum vs_statement which);

/* columns.c: rows whose members are a table's columns; TABLE: the statement that writes one */
int vs_put_row(struct vs_store *s, enum vs_statement table, const void *row);
int vs_put_rows(struct vs_store *s, enum vs_statement table, const void *rows, size_t n, size_t bytes);
/* false: it has a name that is not known */
bool vs_get_row(sqlite3_stmt *q, enum vs_statement table, void *row);

/* rows.c */
int vs_rows_open(struct vs_store *s);
/* Rows of ev, in the order of their numbers, which may have gaps. */
int vs_rows_write(struct vs_store *s, const struct vs_row *row, size_t n);
int64_t vs_x512(uint64_t bytes);
uint64_t vs_from_x512(int64_t value);

/* names.c */
int vs_names_static(struct vs_store *s); /* op, space, api */
int vs_names_for_batch(struct vs_store *s, struct vs_output *out);
void vs_names_forget(struct vs_store *s); /* after a rollback: write them again */
void vs_names_committed(struct vs_store *s);
int vs_names_load(struct vs_store *s);
void vs_names_free(struct vs_store *s);
const struct vs_kind *vs_kind_at(const struct vs_store *s, int64_t id); /* NULL: there is none */

/* For the type n of vs_sql_run: an id that is 0 is NULL. */
static inline int64_t vs_or_null(uint32_t id)
{
    return id ? (int64_t)id : -1;
}

bool vs_bits_has(const struct vs_bits *b, uint64_t id);
void vs_bits_add(struct vs_bits *b, uint64_t id);
void vs_bits_clear(struct vs_bits *b);

/* stacks.c */
int vs_store_stack(struct vs_store *s, uint32_t id); /* its rows, and those of its callers */

/* line.c: the frames of a stack, innermost first, and by which lines it is shown */
enum { VS_LINE_PACKAGES = 16 };
struct vs_line {
    uint32_t frame, depth; /* frame 0: none */
    bool forward;          /* it did not run then: it made the autograd node that did */
};
struct vs_line_package {
    uint32_t class;
    struct vs_line innermost;
};
struct vs_line_search {
    struct vs_line own, inner, outside, any;
    struct vs_line_package package[VS_LINE_PACKAGES];
    size_t packages;
    uint32_t depth, pending; /* frames so far; the class of the file of the last forward */
    bool module;             /* one that is not torch's is open */
};
void vs_line_see(struct vs_store *s, struct vs_line_search *l, uint32_t frame, const struct vs_frame_row *f,
                 bool forward);
/* CALLER: a frame id, 0: none. */
struct vs_line vs_line_found(const struct vs_line_search *l, uint32_t *caller);

/* access.c */
int vs_access_write(struct vs_store *s, const struct vs_commit *c);
int vs_access_gone(struct vs_store *s, uint64_t alloc);
void vs_access_forget(struct vs_store *s); /* after a rollback: its kinds are written again */

int vs_roles_gone(struct vs_store *s, uint64_t alloc);
int vs_roles_peak_gone(struct vs_store *s, int device); /* what is kept for the sake of a former peak alone */
/* names.c */
int vs_store_string(struct vs_store *s, uint32_t id); /* its row; 0 or an error */

/* live.c */
int vs_live_write(struct vs_store *s, const struct vs_commit *c);
int vs_live_peaks_before(struct vs_store *s, const struct vs_commit *c, uint64_t seq);

/* loss.c */
int vs_losses_write(struct vs_store *s, const struct vs_commit *c);
int vs_thinning_write(struct vs_store *s, const struct vs_commit *c);
void vs_losses_written(struct vs_store *s); /* or never to be: forgets them */

/* oom.c */
int vs_oom_write(struct vs_store *s, const struct vs_commit *c);
int vs_oom_before(struct vs_store *s, const struct vs_commit *c, uint64_t seq);

/* batch.c */
void vs_resume_free(struct vs_store *s);

/* fold.c */
int vs_fold_open(struct vs_store *s);
int vs_fold_load(struct vs_store *s);
int vs_fold_commit(struct vs_store *s, const struct vs_commit *c); /* after all else of the batch */
void vs_fold_forget(struct vs_store *s);                           /* after a rollback: load it again */
void vs_fold_free(struct vs_store *s);

/* merge_names.c: the rows of string, module, frame, stack and tensor of several files, each content once */
enum vs_names { VS_NAMES_STRING, VS_NAMES_MODULE, VS_NAMES_FRAME, VS_NAMES_STACK, VS_NAMES_TENSOR, VS_NAMES };

struct vs_moved_id {
    int64_t was, is;
};

struct vs_merge_names {
    sqlite3 *db;
    struct vs_intern rows[VS_NAMES];     /* what is in main */
    int64_t last[VS_NAMES];              /* greatest id there */
    struct vs_moved_id *moved[VS_NAMES]; /* of the other file, by what it was */
    size_t moved_count[VS_NAMES];
};

/* Makes the SQL function moved_name(KIND, ID), of enum vs_names: the id in main of what the other file calls
 * ID; what is not above 0 stays, and what the other file lacks is 0.  Reads the names of main.  0, or -1 with
 * the error in DB. */
int vs_merge_names_open(struct vs_merge_names *n, sqlite3 *db);
/* Copies the names of the attached file `other` which main has not. */
int vs_merge_names_copy(struct vs_merge_names *n);
void vs_merge_names_close(struct vs_merge_names *n);
/* Whether TABLE is one of them. */
bool vs_merge_names_has(const char *table);

#endif
