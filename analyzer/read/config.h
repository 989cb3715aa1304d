/*
 * config.h - reads a Hugging Face config.json: the numbers, words and flags of its outermost object, by
 * SQLite's JSON functions.
 *
 * The file is not trusted: it must be a regular file of at most CONFIG_MOST bytes with one object of JSON
 * (RFC 8259).  Of equal names the last counts, as in Python.  Of an array its first text is read, of an
 * object how many members it has.
 */
#ifndef VS_READ_CONFIG_H
#define VS_READ_CONFIG_H

#include "base/base.h"

#define CONFIG_MOST (1 << 20) /* bytes */

struct config_value {
    char *name, *text; /* text: as JSON has it, of a string its characters */
    char kind;         /* 'i'nteger, 'r'eal, 't'ext, 'b'oolean, 'n'ull, 'a'rray, 'o'bject */
};

struct config {
    struct config_value *values;
    size_t count;
};

/* 0, or -1 with the reason, one line, in WHY; then C is empty. */
int config_read(struct config *c, const char *path, char *why, size_t size);
/* The same of an object inside of it, "$.answers[0]" as SQLite writes it, in a file of at most MOST bytes. */
int config_read_part(struct config *c, const char *path, const char *part, size_t most, char *why,
                     size_t size);
void config_free(struct config *c);

/* The value called NAME; NULL: there is none, or it is null. */
const struct config_value *config_find(const struct config *c, const char *name);
/* The whole number called NAME; UNKNOWN where there is none, or it is something else. */
int64_t config_int(const struct config *c, const char *name);
/* The flag called NAME; OTHERWISE where there is none. */
bool config_flag(const struct config *c, const char *name, bool otherwise);
/* The text called NAME; NULL. */
const char *config_text(const struct config *c, const char *name);
/* The first text of the array called NAME; NULL. */
const char *config_first(const struct config *c, const char *name);
/* How many members the object called NAME has; UNKNOWN where there is none. */
int64_t config_members(const struct config *c, const char *name);

#endif
