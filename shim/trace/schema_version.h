/*
 * schema_version.h - the version of schema.sql, which is in meta.schema_version of each file.
 *
 * It rises with each change that a reader of the version before would misread; a file of another version is
 * refused. schema.sql and vramscope(5) say it too: tests/e2e/consistency/schema_documented.sh holds them
 * against this.
 */
#ifndef VS_TRACE_SCHEMA_VERSION_H
#define VS_TRACE_SCHEMA_VERSION_H

#define VS_SCHEMA_VERSION 8

#endif
