/*
 * json.h - writes JSON piece by piece, in the order of the calls.
 *
 *      json_begin(&j, NULL, '{');
 *      json_int(&j, "peak_bytes", n);
 *
 * NAME is NULL inside arrays.  UNKNOWN becomes null.  Bytes that are not UTF-8 become U+FFFD.
 */
#ifndef VS_BASE_JSON_H
#define VS_BASE_JSON_H

#include <stdio.h>

#include "base.h"

struct json {
    FILE *out;
    int depth;
    char kinds[32]; /* closing bracket per depth */
    bool empty[33];
};

/* Of what all commands write: rises when a field goes or changes its meaning, not when one comes
 * (docs/json.md). */
#define JSON_VERSION 1

void json_open(struct json *j, FILE *out);
/* Begins what a command writes: an object whose first member says JSON_VERSION. */
void json_document(struct json *j, FILE *out);
void json_close(struct json *j);                                 /* ends all that was begun, and the line */
void json_begin(struct json *j, const char *name, char bracket); /* '{' or '[' */
void json_end(struct json *j);
void json_text(struct json *j, const char *name, const char *text); /* NULL is null */
void json_int(struct json *j, const char *name, int64_t value);     /* UNKNOWN is null */
void json_ratio(struct json *j, const char *name, double value);    /* NAN is null */
void json_bool(struct json *j, const char *name, bool value);

#endif
