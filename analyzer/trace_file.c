/*
 * trace_file.c - whether a file is a database that vramscope wrote, and the connection to it.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_sql.h"

/* ---- what the file is ---- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The first 100 bytes say page size and page count (SQLite's file format): a file that is shorter lost its
 * end. */
static bool is_truncated(const unsigned char *head, off_t size, const char *path)
{
    uint32_t page = (uint32_t)head[16] << 8 | head[17];
    uint64_t whole = (uint64_t)(page == 1 ? 65536 : page) * big_endian(head + 28);
    char *wal = xformat("%s-wal", path); /* pages may still stand there */
    bool truncated = (uint64_t)size < whole && access(wal, F_OK);
    free(wal);
    return truncated;
}

/* Reads the head of the file: 1 = empty, 0 = looks like a database, -1 = t->why. */
int trace_inspect(struct trace *t)
{
    unsigned char head[100];
    struct stat st;
    FILE *f = fopen(t->path, "rb");
    if (!f || fstat(fileno(f), &st)) {
        snprintf(t->why, sizeof t->why, "%s can't be opened: %s", t->path, strerror(errno));
        if (f)
            fclose(f);
        return -1;
    }
    size_t n = S_ISREG(st.st_mode) ? fread(head, 1, sizeof head, f) : 0;
    fclose(f);
    if (!S_ISREG(st.st_mode))
        snprintf(t->why, sizeof t->why, "%s is no regular file: give a database that vramscope wrote",
                 t->path);
    else if (st.st_size == 0)
        return 1;
    else if (memcmp(head, "SQLite format 3", n < 16 ? n : 16))
        snprintf(t->why, sizeof t->why, "%s is not a database: give a file that vramscope wrote", t->path);
    else if (n < sizeof head || is_truncated(head, st.st_size, t->path))
        snprintf(t->why, sizeof t->why, "%s is truncated: its end is missing, copy it again", t->path);
    else
        return 0;
    return -1;
}

int trace_connect(struct trace *t)
{
    if (sqlite3_open_v2(t->path, &t->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return trace_sql_error(t);
    sqlite3_busy_timeout(t->db, 5000);
    int code = sqlite3_exec(t->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_READONLY_CANTINIT) {
        /* a WAL file in a directory where we can't write: nobody writes it, so it may be read as it lies */
        sqlite3_close(t->db);
        char *uri = sqlite3_mprintf("file:%s?immutable=1", t->path);
        code = sqlite3_open_v2(uri, &t->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
        sqlite3_free(uri);
    }
    if (code != SQLITE_OK)
        return trace_sql_error(t);
    return 0;
}

void trace_disconnect(struct trace *t)
{
    sqlite3_close(t->db);
    t->db = NULL;
}

int trace_check_schema(struct trace *t)
{
    int64_t tables = trace_sql_one(
        t, "SELECT count(*) FROM sqlite_master WHERE name IN ('meta','ev','phase_stat','zone')");
    int64_t version =
        tables == 4 ? trace_sql_one(t, "SELECT value FROM meta WHERE key = 'schema_version'") : UNKNOWN;
    if (tables == UNKNOWN)
        return trace_sql_error(t);
    if (version == UNKNOWN)
        snprintf(t->why, sizeof t->why, "%s is a database, but none that vramscope wrote", t->path);
    else if (version > TRACE_SCHEMA)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a newer vramscope (schema %lld), this one reads %d: upgrade", t->path,
                 (long long)version, TRACE_SCHEMA);
    else if (version < TRACE_SCHEMA)
        snprintf(t->why, sizeof t->why,
                 "%s was made by a vramscope older than any release (schema %lld), this one reads %d: record "
                 "the run again",
                 t->path, (long long)version, TRACE_SCHEMA);
    else
        return 0;
    return -1;
}

/* A process killed in its first milliseconds leaves a database that has a head and no tables: all that it
 * recorded is in its journal, as with an empty file.  A copy without a journal is then called empty. */
bool trace_has_no_tables(struct trace *t)
{
    if (trace_sql_one(t, "SELECT count(*) FROM sqlite_master") != 0)
        return false;
    trace_disconnect(t);
    return true;
}
