/*
 * schema_version.h - the version of schema.sql; each file has it in meta.schema_version.
 *
 * It rises with each change that a reader of the previous version would misread; a file of another version
 * is refused. schema.sql and vramscope(5) repeat it, and tests/e2e/consistency/schema_documented.sh compares
 * them with this header.
 */
#ifndef VS_TRACE_SCHEMA_VERSION_H
#define VS_TRACE_SCHEMA_VERSION_H

#define VS_SCHEMA_VERSION 14
/* What SQLite's header calls application_id (bytes 68 to 71), of every file and every schema: "vscp". */
#define VS_APPLICATION_ID 0x76736370

#endif
