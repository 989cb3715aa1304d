/*
 * schema.c - schema.sql (VS_SCHEMA_FILE, of the build) as a string in the library, and what foreign files are
 * held to.
 */
#include "files.h"

#include <sqlite3.h>
#include <string.h>

__asm__(".pushsection .rodata,\"a\",@progbits\n"
        ".global vs_schema_sql\n"
        ".hidden vs_schema_sql\n"
        ".type vs_schema_sql, @object\n"
        "vs_schema_sql:\n"
        ".incbin \"" VS_SCHEMA_FILE "\"\n"
        ".byte 0\n"
        ".size vs_schema_sql, . - vs_schema_sql\n"
        ".popsection\n");

void vs_schema_guard(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif
}

/* The columns of table NAME, with what is hidden or generated; "" where it is no table, or one of a module.
 * The caller frees it with sqlite3_free. */
static char *columns(sqlite3 *db, const char *name)
{
    static const char sql[] =
        "SELECT (SELECT group_concat(name || ' ' || hidden) FROM (SELECT name, hidden FROM "
        "pragma_table_xinfo(?1) ORDER BY cid)) FROM main.sqlite_master WHERE type = 'table' AND name = ?1 "
        "AND "
        "sql NOT LIKE 'CREATE VIRTUAL%'";
    sqlite3_stmt *s = NULL;
    char *list = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        const char *found = sqlite3_step(s) == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
        list = sqlite3_mprintf("%s", found ? found : "");
    }
    sqlite3_finalize(s);
    return list;
}

static bool same_columns(sqlite3 *db, sqlite3 *ours, const char *name)
{
    char *theirs = columns(db, name), *wanted = columns(ours, name);
    bool same = theirs && wanted && strcmp(theirs, wanted) == 0;
    sqlite3_free(theirs);
    sqlite3_free(wanted);
    return same;
}

bool vs_schema_is_ours(sqlite3 *db)
{
    sqlite3 *ours = NULL;
    sqlite3_stmt *s = NULL;
    int code = SQLITE_ERROR;
    bool same = sqlite3_open_v2(":memory:", &ours, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix") ==
                    SQLITE_OK &&
                sqlite3_exec(ours, vs_schema_sql, NULL, NULL, NULL) == SQLITE_OK &&
                sqlite3_prepare_v2(ours, "SELECT name FROM sqlite_master WHERE type = 'table'", -1, &s,
                                   NULL) == SQLITE_OK;
    while (same && (code = sqlite3_step(s)) == SQLITE_ROW)
        same = same_columns(db, ours, (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    sqlite3_close(ours);
    return same && code == SQLITE_DONE;
}
