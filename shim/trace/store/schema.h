/* schema.h - schema.sql, embedded. */
#ifndef VS_TRACE_STORE_SCHEMA_H
#define VS_TRACE_STORE_SCHEMA_H

extern const char vs_schema_sql[];

#endif
