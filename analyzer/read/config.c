/* config.c - see config.h. */
#include "config.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"

#define VALUES_MOST 4096 /* members of the object */

/* The whole file, NUL-terminated; NULL with WHY. */
static char *read_whole(const char *path, size_t most, char *why, size_t size)
{
    char *text = xrealloc(NULL, most + 2);
    size_t n = 0;
    ssize_t got = 0;
    int fd = guard_open(path);
    if (fd < 0) {
        snprintf(why, size, "%s can't be opened: %s: give a model's config.json", path,
                 errno == EINVAL ? "it is no regular file" : strerror(errno));
        free(text);
        return NULL;
    }
    while (n <= most && (got = read(fd, text + n, most + 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    if (got < 0)
        snprintf(why, size, "%s can't be read: %s", path, strerror(errno));
    else if (n > most)
        snprintf(why, size, "%s has more than %zu MiB: give a model's config.json", path, most >> 20);
    else if (strlen(text) != n)
        snprintf(why, size, "%s is not JSON: give a model's config.json", path);
    else
        return text;
    free(text);
    return NULL;
}

static char kind_of(const char *type)
{
    static const struct {
        const char *type;
        char kind;
    } kinds[] = {{"integer", 'i'}, {"real", 'r'}, {"text", 't'}, {"true", 'b'},
                 {"false", 'b'},   {"null", 'n'}, {"array", 'a'}};
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(type, kinds[i].type))
            return kinds[i].kind;
    return 'o';
}

static void add_member(struct config *c, struct sqlite3_stmt *s)
{
    const char *name = (const char *)sqlite3_column_text(s, 0),
               *type = (const char *)sqlite3_column_text(s, 1);
    char kind = kind_of(type);
    const char *atom = kind == 'b' ? type : (const char *)sqlite3_column_text(s, 2);
    *PUSH(c->values, c->count) =
        (struct config_value){xstrdup(name ? name : ""), xstrdup(atom ? atom : ""), kind};
}

/* Whether PART of TEXT was one object of JSON, whose members are in C then. */
static bool parse(struct config *c, const char *text, const char *part)
{
    sqlite3 *db = NULL;
    struct sqlite3_stmt *s = NULL;
    int code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(
            db,
            "SELECT key, type, CASE type "
            "WHEN 'array' THEN (SELECT atom FROM json_each(e.value) WHERE type = 'text' LIMIT 1) "
            "WHEN 'object' THEN (SELECT count(*) FROM json_each(e.value)) "
            "ELSE atom END FROM json_each(?1, ?2) AS e "
            "WHERE json_valid(?1) AND json_type(?1, ?2) = 'object'",
            -1, &s, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(s, 2, part, -1, SQLITE_STATIC);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(s);
        if (code == SQLITE_ROW && c->count < VALUES_MOST)
            add_member(c, s);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return code == SQLITE_DONE && c->count > 0;
}

int config_read(struct config *c, const char *path, char *why, size_t size)
{
    return config_read_part(c, path, "$", CONFIG_MOST, why, size);
}

int config_read_part(struct config *c, const char *path, const char *part, size_t most, char *why,
                     size_t size)
{
    *c = (struct config){0};
    char *text = read_whole(path, most, why, size);
    if (!text)
        return -1;
    bool good = parse(c, text, part);
    free(text);
    if (good)
        return 0;
    config_free(c);
    snprintf(why, size, "%s is not an object of JSON, or has nothing in it: give a model's config.json",
             path);
    return -1;
}

void config_free(struct config *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->values[i].name);
        free(c->values[i].text);
    }
    free(c->values);
    *c = (struct config){0};
}

const struct config_value *config_find(const struct config *c, const char *name)
{
    for (size_t i = c->count; i-- > 0;)
        if (!strcmp(c->values[i].name, name))
            return c->values[i].kind == 'n' ? NULL : &c->values[i];
    return NULL;
}

int64_t config_int(const struct config *c, const char *name)
{
    const struct config_value *v = config_find(c, name);
    char *end;
    if (!v || v->kind != 'i')
        return UNKNOWN;
    errno = 0;
    long long n = strtoll(v->text, &end, 10);
    return errno || *end || end == v->text ? UNKNOWN : n;
}

bool config_flag(const struct config *c, const char *name, bool otherwise)
{
    const struct config_value *v = config_find(c, name);
    return v && v->kind == 'b' ? !strcmp(v->text, "true") : otherwise;
}

const char *config_text(const struct config *c, const char *name)
{
    const struct config_value *v = config_find(c, name);
    return v && v->kind == 't' ? v->text : NULL;
}

const char *config_first(const struct config *c, const char *name)
{
    const struct config_value *v = config_find(c, name);
    return v && v->kind == 'a' && v->text[0] ? v->text : NULL;
}

int64_t config_members(const struct config *c, const char *name)
{
    const struct config_value *v = config_find(c, name);
    return v && v->kind == 'o' ? strtoll(v->text, NULL, 10) : UNKNOWN;
}
