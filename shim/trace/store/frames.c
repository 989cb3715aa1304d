/*
 * frames.c - see frames.h.
 *
 * All names are written in one short transaction, so no reader and no recording process waits while symbol
 * tables are read.
 */
#include "frames.h"

#include <sqlite3.h>

#include "schema.h"

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
