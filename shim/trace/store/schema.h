/* schema.h - schema.sql, embedded, and what a file that somebody else may have changed is held to. */
#ifndef VS_TRACE_STORE_SCHEMA_H
#define VS_TRACE_STORE_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>

extern const char vs_schema_sql[];

/* For each connection that writes: what the file itself would have run (triggers, functions in its schema) is
 * not run. */
void vs_schema_guard(sqlite3 *db);
/* Whether the tables of DB are those of the schema, column by column; others beside them are somebody's. */
bool vs_schema_is_ours(sqlite3 *db);

#endif
