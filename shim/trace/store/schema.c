/*
 * schema.c - schema.sql as a string in the library, so that no file is needed at run time. VS_SCHEMA_FILE is
 * its path, from the build.
 */
#include "schema.h"

__asm__(".pushsection .rodata,\"a\",@progbits\n"
        ".global vs_schema_sql\n"
        ".hidden vs_schema_sql\n"
        ".type vs_schema_sql, @object\n"
        "vs_schema_sql:\n"
        ".incbin \"" VS_SCHEMA_FILE "\"\n"
        ".byte 0\n"
        ".size vs_schema_sql, . - vs_schema_sql\n"
        ".popsection\n");
