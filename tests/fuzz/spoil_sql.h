/*
 * spoil_sql.h - a database that SQLite finds in order and that makes no sense: tables dropped or emptied,
 * values of other types and sizes, as four bytes each say.
 */
#ifndef TESTS_FUZZ_SPOIL_SQL_H
#define TESTS_FUZZ_SPOIL_SQL_H

#include <sqlite3.h>

#include "kit.h"

static inline int spoil_pick(sqlite3 *db, char *out, size_t size, const char *sql, const char *of)
{
    sqlite3_stmt *row = NULL;
    int found = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK) {
        if (of)
            sqlite3_bind_text(row, 1, of, -1, SQLITE_STATIC);
        if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0)) {
            snprintf(out, size, "%s", (const char *)sqlite3_column_text(row, 0));
            found = 1;
        }
    }
    sqlite3_finalize(row);
    return found;
}

static inline void spoil_one(sqlite3 *db, const uint8_t *b)
{
    static const char *const values[] = {
        "NULL",   "-1",     "0",          "1",          "9223372036854775807",         "-9223372036854775808",
        "1e300",  "'text'", "x'00ff'",    "4294967296", "printf('%.*c', 100000, 'x')", "'../../../x'",
        "'%s%n'", "c + 1",  "2147483648", "''"};
    char table[128], column[128], pick[160], sql[512];
    snprintf(pick, sizeof pick,
             "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT 1 OFFSET %d",
             b[0] % 40);
    if (!spoil_pick(db, table, sizeof table, pick, NULL))
        return;
    snprintf(pick, sizeof pick, "SELECT name FROM pragma_table_info(?1) LIMIT 1 OFFSET %d", b[1] % 24);
    if (!spoil_pick(db, column, sizeof column, pick, table))
        return;
    if (b[3] == 250)
        snprintf(sql, sizeof sql, "DROP TABLE \"%s\"", table);
    else if (b[3] == 251)
        snprintf(sql, sizeof sql, "DELETE FROM \"%s\"", table);
    else if (b[3] == 252)
        snprintf(sql, sizeof sql, "INSERT INTO \"%s\"(\"%s\") VALUES(%s)", table, column, values[b[2] % 13]);
    else if (b[2] % 16 == 13)
        snprintf(sql, sizeof sql, "UPDATE \"%s\" SET \"%s\" = \"%s\" + %d", table, column, column, b[3]);
    else if (b[3] & 128)
        snprintf(sql, sizeof sql, "UPDATE \"%s\" SET \"%s\" = %s", table, column, values[b[2] % 16]);
    else
        snprintf(sql, sizeof sql,
                 "UPDATE OR IGNORE \"%s\" SET \"%s\" = %s WHERE rowid = (SELECT rowid FROM \"%s\" LIMIT 1 "
                 "OFFSET %d)",
                 table, column, values[b[2] % 16], table, b[3]);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* Writes GOOD, spoiled as DATA says, to PATH: its first byte 0 = in SQL, 1 = in the file's bytes, 2 = DATA is
 * the file. */
static inline void spoil_database(const char *path, struct bytes good, const uint8_t *data, size_t size)
{
    sqlite3 *db = NULL;
    if (data[0] % 3) {
        kit_spoil(path, good, data + 1, size - 1, data[0] % 3 == 2);
        return;
    }
    kit_write(path, good.at, good.n);
    if (sqlite3_open(path, &db) == SQLITE_OK) {
        sqlite3_exec(db,
                     "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = "
                     "OFF; PRAGMA journal_mode = MEMORY",
                     NULL, NULL, NULL);
        for (size_t i = 1; i + 4 <= size && i < 80; i += 4)
            spoil_one(db, data + i);
    }
    sqlite3_close(db);
}

#endif
