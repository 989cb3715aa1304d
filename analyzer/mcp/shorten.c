/* shorten.c - a document, or a part of it, that is no larger than somebody can read. */
#include <stdlib.h>
#include <string.h>

#include "mcp.h"

/* ---- a part ---- */

/* The member or item that *PATH begins with; *PATH gets what follows. */
static json_t *one_down(const json_t *v, const char **path)
{
    char *end;
    if (**path == '[') {
        long long i = strtoll(*path + 1, &end, 10);
        bool good = *end == ']' && end > *path + 1 && i >= 0;
        *path = end + good;
        return good ? json_array_get(v, (size_t)i) : NULL;
    }
    *path += **path == '.';
    size_t length = strcspn(*path, ".[");
    char *name = xformat("%.*s", (int)length, *path);
    json_t *found = json_object_get(v, name);
    *path += length;
    free(name);
    return found;
}

json_t *shorten_part(json_t *document, const char *path)
{
    json_t *v = document;
    for (const char *at = path; *at && v;)
        v = one_down(v, &at);
    return v ? json_pack("{s:s, s:O}", "part", path, "value", v) : NULL;
}

/* ---- a shorter one ---- */

/* How many items a list keeps: one whose items have lists of their own, and any other. */
struct keep {
    size_t outer, inner;
};

static bool has_lists(json_t *v)
{
    const char *name;
    json_t *item;
    bool found = json_is_array(v);
    json_object_foreach(v, name, item) found = found || has_lists(item);
    return found;
}

static json_t *with(json_t *v, size_t most, const struct keep *k)
{
    const char *name;
    json_t *item, *copy = json_is_object(v)  ? json_object()
                          : json_is_array(v) ? json_array()
                                             : json_incref(v);
    size_t i;
    json_array_foreach(v, i, item) if (i < most) json_array_append_new(copy, with(item, SIZE_MAX, k));
    json_object_foreach(v, name, item)
    {
        size_t n = json_array_size(item), keep = has_lists(json_array_get(item, 0)) ? k->outer : k->inner;
        json_object_set_new(copy, name, with(item, keep, k));
        if (n > keep) {
            char *mark = xformat("%s_left_out", name);
            json_object_set_new(copy, mark, json_integer((json_int_t)(n - keep)));
            free(mark);
        }
    }
    return copy;
}

/* The inner lists are cut first. */
static bool less(struct keep *k)
{
    size_t *which = k->inner ? &k->inner : &k->outer;
    bool more = *which;
    *which /= 2;
    return more;
}

char *shorten(json_t *document, size_t most)
{
    static const char how[] =
        "to keep this within max_bytes, lists were cut: NAME_left_out is how many items list NAME lost. Ask "
        "again with the same arguments and part, such as \"a[0].b\" for list b alone, and from=N for its "
        "items "
        "from N on; or with a larger max_bytes";
    struct keep k = {256, 256};
    bool fits = json_dumpb(document, NULL, 0, MCP_FLAGS) <= most;
    char *text = fits ? json_dumps(document, MCP_FLAGS) : NULL;
    for (bool more = !fits; more && !text; more = less(&k)) {
        json_t *shorter = with(document, SIZE_MAX, &k);
        json_object_set_new(shorter, "left_out", json_string(how));
        if (json_dumpb(shorter, NULL, 0, MCP_FLAGS) <= most)
            text = json_dumps(shorter, MCP_FLAGS);
        json_decref(shorter);
    }
    return text;
}
