/* sql.c - SQLite's codes as errno, statements that are prepared once (VS_STATEMENTS), the file's room. */
#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

int vs_sqlite_errno(struct vs_store *s, int rc)
{
    int system = s && s->db ? sqlite3_system_errno(s->db) : 0;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_READONLY: /* or the file has another name by now, or none */
        return s && s->db && sqlite3_extended_errcode(s->db) == SQLITE_READONLY_DBMOVED ? -ENOENT : -EROFS;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:
        return -EINVAL;
    case SQLITE_CANTOPEN:
        return system > 0 ? -system : -EACCES;
    default:
        return system == ENOSPC || system == EDQUOT || system == EFBIG || system == EROFS ? -system : -EIO;
    }
}

int vs_store_exec(struct vs_store *s, const char *sql)
{
    return vs_sqlite_errno(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

int64_t vs_first_number(sqlite3 *db, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *q;
    int64_t value = otherwise;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        return otherwise;
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL)
        value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return value;
}

int64_t vs_store_number(struct vs_store *s, const char *sql, int64_t otherwise)
{
    return vs_first_number(s->db, sql, otherwise);
}

int vs_sql_prepare(struct vs_store *s, enum vs_statement which)
{
    static const char *const text[] = {
#define X(NAME, sql) sql,
        VS_STATEMENTS(X)
#undef X
    };
    return s->sql[which]
               ? 0
               : vs_sqlite_errno(s, sqlite3_prepare_v3(s->db, text[which], -1, SQLITE_PREPARE_PERSISTENT,
                                                       &s->sql[which], NULL));
}

static void bind(sqlite3_stmt *q, int at, char type, va_list *list)
{
    if (type == 't') {
        sqlite3_bind_text(q, at, va_arg(*list, const char *), -1, SQLITE_STATIC); /* NULL binds NULL */
        return;
    }
    int64_t value = va_arg(*list, int64_t);
    if (type == 'n' && value < 0)
        sqlite3_bind_null(q, at);
    else
        sqlite3_bind_int64(q, at, value);
}

int vs_sql_run(struct vs_store *s, enum vs_statement which, const char *types, ...)
{
    int rc = vs_sql_prepare(s, which);
    if (rc < 0)
        return rc;
    sqlite3_stmt *q = s->sql[which];
    va_list list;
    va_start(list, types);
    for (int i = 0; types[i]; i++)
        bind(q, i + 1, types[i], &list);
    va_end(list);
    sqlite3_step(q);
    return vs_sqlite_errno(s, sqlite3_reset(q));
}

/* ---- how much room the file has, and how large batches and stretches are in small files ---- */

uint64_t vs_store_used(struct vs_store *s)
{
    int64_t pages = vs_store_number(s, "PRAGMA page_count", 0),
            spare = vs_store_number(s, "PRAGMA freelist_count", 0);
    return (uint64_t)(pages - spare) * 4096;
}

bool vs_store_fits(struct vs_store *s, uint64_t bytes, uint64_t limit)
{
    return !s->config.max_bytes || vs_store_used(s) + bytes + 65536 <= limit;
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Uses SQLite's own name for the log, because the host may have changed its directory. */
uint64_t vs_store_log_held(struct vs_store *s)
{
    const char *file = s->wal ? sqlite3_db_filename(s->db, "main") : NULL;
    uint64_t log = file ? file_bytes(sqlite3_filename_wal(file)) : 0;
    return log > 4 * s->log_bytes ? log : 0;
}

size_t vs_store_batch(const struct vs_store *s)
{
    uint64_t n = s->config.max_bytes / VS_EVENT_BYTES / 64;
    return !s->config.max_bytes || n > 4096 ? 4096 : n < 256 ? 256 : (size_t)n;
}

/* Small for small files, because folding works in whole stretches. */
uint32_t vs_store_stretch(const struct vs_store *s)
{
    uint64_t n = s->config.max_bytes / 4096;
    return !s->config.max_bytes || n > 16384 ? 16384 : n < 1024 ? 1024 : (uint32_t)n;
}
