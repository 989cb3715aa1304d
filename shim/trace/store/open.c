/*
 * open.c - opening, creating and closing the database.
 *
 * An existing file is checked before anything is changed in it.  Then WAL with synchronous=OFF (readers see
 * whole batches at any moment); on network file systems, which have no shared memory between machines, an
 * exclusively locked file with a truncated rollback journal.  Closing leaves one plain file.
 */
#include "core/options.h"
#include "internal.h"
#include "files.h"
#include "vfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- where the file lies ---- */

static bool on_network(const char *path)
{
    static const uint32_t types[] = {
        0x6969,     /* NFS */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x65735546, /* FUSE: sshfs, gcsfuse, ... */
        0x0BD00BD0, /* Lustre */
        0x00C36400, /* Ceph */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x5346414F, /* AFS */
        0x01021997, /* 9p */
        0x7461636F, /* OCFS2 */
        0x01161970, /* GFS2 */
    };
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    struct statfs fs;
    if (statfs(slash ? directory : ".", &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)fs.f_type == types[i])
            return true;
    return false;
}

/* ---- is it ours ---- */

static int say(char *why, size_t why_size, int rc, const char *path, const char *what)
{
    if (rc < 0)
        snprintf(why, why_size, "%s: %s", path, what);
    return rc;
}

/* The file is none that this run can write: what it IS, and what happens now. */
static int refuse(struct vs_store *s, char *why, size_t n, int rc, const char *is)
{
    char text[200];
    snprintf(text, sizeof text, "%s; %s", is,
             s->config.recovered_file ? "the journal stays as it is" : "name another output file");
    return say(why, n, rc, s->config.path, text);
}

static int check_ours(struct vs_store *s, char *why, size_t n)
{
    const char *path = s->config.path;
    int rc = vs_store_exec(s, "SELECT 1 FROM sqlite_master LIMIT 1");
    if (rc == -EINVAL)
        return refuse(s, why, n, rc, "is not a database of vramscope");
    if (rc < 0)
        return say(why, n, rc, path, sqlite3_errmsg(s->db));
    if (vs_store_number(s, "SELECT count(*) FROM sqlite_master", 0) == 0) {
        s->fresh = true;
        return 0;
    }
    if (vs_store_number(s, "PRAGMA application_id", 0) != VS_APPLICATION_ID)
        return refuse(s, why, n, -EINVAL, "is a database of another program");
    int64_t version = vs_store_number(s, "SELECT value FROM meta WHERE key='schema_version'", 0);
    if (version > VS_SCHEMA_VERSION)
        return say(why, n, -EPROTO, path, "was written by a newer vramscope; use that one");
    if (version < VS_SCHEMA_VERSION)
        return say(why, n, -EPROTO, path,
                   "was written by a vramscope older than any release; record again into another file");
    if (vs_store_number(s, "SELECT ifnull(start_realtime_ns,0) FROM process WHERE id=1", -1) !=
        s->start_realtime_ns)
        return refuse(s, why, n, s->config.recovered_file ? -ESTALE : -EINVAL, "holds another run");
    if (!vs_schema_is_ours(s->db))
        return say(
            why, n, -EPROTO, path,
            "has tables that somebody has changed, and is not written to; what is not in it stays in its "
            "journal");
    return 0;
}

/*
 * ---- does the journal belong to it, which a recovery merges into it ----
 *
 * A journal names the database that it completes, and a recovery writes there.  So a database that is not
 * empty must name the journal too, and it must have all events that the journal has handed back.  An older
 * copy or backup lacks some, which are then in neither of the two, and the rows that follow would be about
 * allocations that the database does not have.
 */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Compares file names only, because the journal may have been moved to survive a reboot.  The name contains
 * pid and start time of its process. */
static bool same_journal(const char *named, const char *path)
{
    struct stat a, b;
    if (strcmp(named, path) == 0)
        return true;
    if (stat(named, &a) == 0)
        return stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return strcmp(name_of(named), name_of(path)) == 0;
}

static bool names_journal(sqlite3 *db, const char *journal)
{
    sqlite3_stmt *q;
    bool same = false;
    if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key='journal'", -1, &q, NULL) != SQLITE_OK)
        return false;
    const char *named = sqlite3_step(q) == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    same = named && same_journal(named, journal);
    sqlite3_finalize(q);
    return same;
}

/* Whether the database is a copy: then the journal's own database is another file, which also names the
 * journal. */
static bool is_copy(struct vs_store *s)
{
    const char *original = vs_journal_database(s->journal);
    struct stat st;
    sqlite3 *db = NULL;
    if (stat(original, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 ||
        (st.st_dev == s->config.recovered_file->st_dev && st.st_ino == s->config.recovered_file->st_ino))
        return false;
    bool copy = sqlite3_open_v2(original, &db, SQLITE_OPEN_READONLY, "unix") == SQLITE_OK &&
                names_journal(db, s->config.journal_path);
    sqlite3_close(db);
    return copy;
}

/* Sequences below the ring's tail were committed to some database, or belong to slots that were killed
 * unread. */
static bool older_than_journal(struct vs_store *s)
{
    struct vs_journal_stats j;
    uint64_t upto = s->fresh ? 0 : (uint64_t)vs_store_number(s, "SELECT ring_seq FROM mark", 0);
    vs_journal_stats(s->journal, &j);
    return j.tail > upto + 1 + j.dead;
}

bool vs_store_merged(struct vs_store *s)
{
    return !s->fresh &&
           vs_store_number(s, "SELECT max(value) FROM meta WHERE key = 'journal_merged'", 0) == 1;
}

/* 0, or -ESTALE with the reason in WHY. */
static int check_journal(struct vs_store *s, char *why, size_t n)
{
    if (!s->fresh && !names_journal(s->db, s->config.journal_path))
        return say(why, n, -ESTALE, s->config.path, "does not name this journal: it is another run's");
    if (is_copy(s))
        return say(why, n, -ESTALE, s->config.path,
                   "is a copy: the journal completes the original, recover that");
    if (!older_than_journal(s))
        return 0;
    return say(why, n, -ESTALE, s->config.path,
               s->fresh
                   ? "is empty, but the journal continues a database: if that was moved, name the file "
                     "that it is now"
                   : "lacks events that the journal has handed back: it is a copy, recover the original");
}

/* ---- settings ---- */

static int settings(struct vs_store *s)
{
    int rc = vs_store_exec(
        s,
        "PRAGMA page_size=4096; PRAGMA synchronous=OFF; PRAGMA secure_delete=OFF; PRAGMA temp_store=MEMORY;"
        "PRAGMA cache_spill=OFF; PRAGMA foreign_keys=OFF");
    if (rc == 0 && !s->wal)
        return vs_store_exec(s, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=TRUNCATE");
    if (rc == 0)
        rc = vs_store_exec(s, "PRAGMA journal_mode=WAL");
    /* small files get a small WAL, so that both together stay near the limit as well */
    uint64_t pages = s->config.max_bytes ? s->config.max_bytes / 4096 / 16 : 1000;
    int checkpoint = pages > 1000 ? 1000 : pages < 32 ? 32 : (int)pages;
    char sql[96];
    s->log_bytes = (uint64_t)checkpoint * 4096;
    /* a reader that stays in one transaction makes the WAL grow.  Thinning would not help, because it writes
     * table live with each commit.  So the reader is only reported (vs_store_log_held), and the file shrinks
     * when it has gone */
    snprintf(sql, sizeof sql, "PRAGMA wal_autocheckpoint=%d; PRAGMA journal_size_limit=%d", checkpoint,
             checkpoint * 2 * 4096);
    return rc == 0 ? vs_store_exec(s, sql) : rc;
}

static int limit_size(struct vs_store *s)
{
    if (!s->config.max_bytes)
        return 0;
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA max_page_count=%" PRIu64, s->config.max_bytes / 4096);
    return vs_store_exec(s, sql);
}

/* ---- a new database ---- */

static int number_or_null(int32_t value, char *out, size_t n)
{
    return value == INT32_MIN ? snprintf(out, n, "NULL") : snprintf(out, n, "%d", value);
}

static int insert_process(struct vs_store *s)
{
    const struct vs_database *c = &s->config;
    char pid[16], rank[16], local_rank[16], world_size[16];
    number_or_null(c->pid > 0 ? c->pid : INT32_MIN, pid, sizeof pid); /* of a damaged journal, perhaps */
    number_or_null(c->rank, rank, sizeof rank);
    number_or_null(c->local_rank, local_rank, sizeof local_rank);
    number_or_null(c->world_size, world_size, sizeof world_size);
    char *sql = sqlite3_mprintf("INSERT INTO process VALUES(" VS_PROCESS
                                ",%Q,%Q,%s,%s,%s,%s,%Q,nullif(%lld,0),NULL,%d)",
                                c->host, c->boot_id, pid, rank, local_rank, world_size, c->command,
                                (long long)s->start_realtime_ns, c->simulated);
    int rc = sql ? vs_store_exec(s, sql) : -ENOMEM;
    sqlite3_free(sql);
    return rc;
}

static int insert_meta(struct vs_store *s)
{
    const struct vs_database *c = &s->config;
    char *sql = sqlite3_mprintf(
        "INSERT INTO meta VALUES('schema_version',%d,0),('version',%Q,0),"
        "('start_realtime_ns',nullif(%lld,0)," VS_PROCESS "),('start_monotonic_ns',%lld," VS_PROCESS "),"
        "('max_bytes',%lld," VS_PROCESS "),('clean_end',0," VS_PROCESS ");"
        "INSERT INTO meta SELECT 'limit',%Q," VS_PROCESS " WHERE %d;"
        "INSERT INTO mark VALUES(" VS_PROCESS ",0,NULL,0)",
        VS_SCHEMA_VERSION, c->version ? c->version : "", (long long)s->start_realtime_ns,
        (long long)s->start_monotonic_ns, (long long)c->max_bytes, c->limit, c->limit != NULL);
    int rc = sql ? vs_store_exec(s, sql) : -ENOMEM;
    sqlite3_free(sql);
    if (rc == 0 && c->journal_path)
        rc = vs_sql_run(s, VS_SQL_META, "tt", "journal", c->journal_path);
    return rc;
}

/* A row of meta for each: "label.batch". */
static int insert_labels(struct vs_store *s)
{
    const char *list = s->config.labels ? s->config.labels : "";
    struct vs_label label;
    int rc = 0;
    while (rc == 0 && vs_label_next(&list, &label)) {
        char *sql = sqlite3_mprintf("INSERT OR IGNORE INTO meta VALUES('label.%.*q',%.*Q," VS_PROCESS ")",
                                    (int)label.name_length, label.name, (int)label.value_length, label.value);
        rc = sql ? vs_store_exec(s, sql) : -ENOMEM;
        sqlite3_free(sql);
    }
    return rc;
}

static int create(struct vs_store *s)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d", VS_APPLICATION_ID);
    int rc = vs_store_exec(s, "BEGIN IMMEDIATE");
    if (rc == 0)
        rc = vs_store_exec(s, sql);
    if (rc == 0)
        rc = vs_store_exec(s, vs_schema_sql);
    if (rc == 0)
        rc = vs_names_static(s);
    if (rc == 0)
        rc = insert_process(s);
    if (rc == 0)
        rc = insert_meta(s);
    if (rc == 0)
        rc = insert_labels(s);
    return rc == 0 ? vs_store_exec(s, "COMMIT") : rc;
}

static void load_state(struct vs_store *s)
{
    s->last_ev = (uint64_t)vs_store_number(s, "SELECT max(seq) FROM ev", 0);
    s->live_seq = (uint64_t)vs_store_number(s, "SELECT live_seq FROM mark", 0);
    s->thinned_from = (uint64_t)vs_store_number(s, "SELECT value FROM meta WHERE key='thinned_from_seq'", 0);
    s->thinned = vs_store_lost(s, VS_LOSS_THINNED);
    s->thinned_written = s->thinned_from != 0;
    s->roles = vs_store_number(s, "SELECT 1 FROM framework_role LIMIT 1", 0) != 0;
    s->amends = vs_store_number(s, "SELECT 1 FROM amend LIMIT 1", 0) != 0;
    s->live_incomplete = vs_store_number(s, "SELECT value FROM meta WHERE key='live_incomplete'", 0) != 0;
}

static int start(struct vs_store *s, char *why, size_t n)
{
    int rc = check_ours(s, why, n);
    if (rc == 0 && s->config.recovered_file)
        rc = check_journal(s, why, n);
    if (rc < 0)
        return rc;
    rc = settings(s);
    if (rc == 0)
        rc = vs_fold_open(s);
    if (rc == 0)
        rc = vs_rows_open(s);
    if (rc == 0 && s->fresh)
        rc = create(s);
    if (rc == 0)
        rc = limit_size(s);
    if (rc == 0)
        rc = vs_names_load(s);
    if (rc == 0)
        load_state(s);
    return say(why, n, rc, s->config.path, rc < 0 && s->db ? sqlite3_errmsg(s->db) : "");
}

static void release(struct vs_store *s)
{
    for (int i = 0; i < VS_SQL_END; i++)
        sqlite3_finalize(s->sql[i]);
    sqlite3_close_v2(s->db);
    vs_names_free(s);
    vs_fold_free(s);
    vs_resume_free(s);
    vs_losses_written(s);
    free(s->losses.at);
    free(s);
}

int vs_store_open(struct vs_store **out, const struct vs_database *config, struct vs_journal *journal,
                  char *why, size_t why_size)
{
    struct vs_store *s = calloc(1, sizeof *s);
    if (!s)
        return say(why, why_size, -ENOMEM, config->path, "out of memory");
    s->config = *config;
    s->journal = journal;
    struct vs_journal_stats stats;
    vs_journal_stats(journal, &stats);
    s->start_realtime_ns = (int64_t)stats.start_realtime_ns;
    s->start_monotonic_ns = (int64_t)stats.start_ns;
    s->wal = !config->network && !on_network(config->path);
    int flags = config->recovered_file ? SQLITE_OPEN_NOFOLLOW : SQLITE_OPEN_CREATE;
    int rc = vs_vfs_install();
    if (rc == 0)
        rc = vs_sqlite_errno(s, sqlite3_open_v2(config->path, &s->db,
                                                flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix"));
    if (rc == 0 && config->recovered_file && !vs_vfs_holds(config->recovered_file))
        rc = -ESTALE; /* the name leads to another file by now */
    if (rc < 0) {
        say(why, why_size, rc, config->path, strerror(-rc));
    } else {
        sqlite3_busy_timeout(s->db, 250);
        vs_schema_guard(s->db);
        rc = start(s, why, why_size);
    }
    if (rc < 0) {
        release(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- the end ---- */

static int write_end(struct vs_store *s, int64_t end_ns)
{
    char sql[192];
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE; UPDATE process SET end_ns=%" PRId64
             "; UPDATE meta SET value=1 WHERE key='clean_end'; COMMIT",
             end_ns);
    return vs_store_exec(s, sql);
}

int vs_store_close(struct vs_store *s, int64_t end_ns)
{
    int rc = end_ns >= 0 ? write_end(s, end_ns) : 0;
    for (int i = 0; i < VS_SQL_END; i++) {
        sqlite3_finalize(s->sql[i]);
        s->sql[i] = NULL;
    }
    int mode = s->wal ? vs_store_exec(s, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE")
                      : vs_store_exec(s, "PRAGMA journal_mode=DELETE; PRAGMA locking_mode=NORMAL");
    release(s);
    /* the WAL stays if a reader is still there; the last one to close checkpoints it */
    return rc == 0 && mode != -EBUSY ? mode : rc;
}
