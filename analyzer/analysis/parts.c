/* parts.c - see parts.h. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

#include "trace/roles.h"

#define MOST_NAMES 4 /* of a path without numbers */
#define DEEPEST    8 /* names of a path, the last of which is the number of a layer */

static bool has_role(const struct trace_live *l)
{
    return vs_role_named(l->role) != VS_ROLE_UNTOLD;
}

const char *part_layer_of(const struct trace_live *l)
{
    bool any = l->layer && l->layer[0], phase = any && l->phase && !strcmp(l->layer, l->phase);
    return any && !phase ? l->layer : NULL;
}

bool parts_have_roles(const struct trace_live *live, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has_role(&live[i]))
            return true;
    return false;
}

bool parts_have_layers(const struct trace_live *live, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (part_layer_of(&live[i]))
            return true;
    return false;
}

char *part_what(const struct trace_live *l)
{
    if (has_role(l))
        return xstrdup(l->role);
    if (l->category && !strcmp(l->category, "before recording"))
        return xstrdup("held before recording");
    if (!l->phase || !strcmp(l->phase, "none"))
        return xstrdup("made outside any phase");
    return xformat("made in %s", l->phase);
}

/* ---- layers ---- */

/* How many digits a name of LENGTH ends with: "7", "layer 7", "block_7".  Where neither a blank nor a line
 * parts them from the rest it is 0: "layer4" is a name. */
static size_t number_at_end(const char *name, size_t length)
{
    size_t digits = 0;
    while (digits < length && name[length - digits - 1] >= '0' && name[length - digits - 1] <= '9')
        digits++;
    if (digits == 0 || digits == length)
        return digits;
    return strchr(" _-#", name[length - digits - 1]) ? digits : 0;
}

/* How many names of LAYER tell what a row is: up to the first that is a number alone, as wrappers and
 * adapters put names in front of a model's own ("PeftModel.base_model.model.model.layers.3"). */
static int names_of(const char *layer)
{
    for (int names = 1; names <= DEEPEST; names++) {
        size_t length = strcspn(layer, "./");
        if (length && strspn(layer, "0123456789") == length)
            return names;
        if (!layer[length])
            break;
        layer += length + 1;
    }
    return MOST_NAMES;
}

char *part_layer(const char *layer, size_t *own)
{
    if (!layer || !layer[0])
        return NULL;
    char *text = xrealloc(NULL, strlen(layer) + DEEPEST + 1);
    size_t n = 0, at = 0;
    for (int names = 0, most = names_of(layer); names < most; names++) {
        size_t length = strcspn(layer + at, "./"), digits = number_at_end(layer + at, length);
        memcpy(text + n, layer + at, length - digits);
        n += length - digits;
        if (digits)
            text[n++] = '*';
        at += length;
        if ((digits && digits == length) || !layer[at] || names + 1 == most)
            break;
        text[n++] = layer[at++];
    }
    text[n] = 0;
    if (own)
        *own = at;
    return text;
}

/* ---- rows ---- */

struct piece {
    struct part part;
    char *own; /* the layer itself */
};

static int compare(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

static int by_name(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = strcmp(x->part.what, y->part.what);
    order = order ? order : compare(x->part.layer, y->part.layer);
    return order ? order : compare(x->own, y->own);
}

static int by_bytes(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    int order = strcmp(x->what, y->what);
    return order ? order : compare(x->layer, y->layer);
}

static struct piece piece_of(const struct trace_live *l)
{
    size_t own = 0;
    const char *path = part_layer_of(l);
    char *layer = part_layer(path, &own);
    return (struct piece){.part = {.what = part_what(l),
                                   .layer = layer,
                                   .layers = layer != NULL,
                                   .bytes = l->size,
                                   .count = l->count},
                          .own = layer ? xformat("%.*s", (int)own, path) : NULL};
}

static bool same_row(const struct part *a, const struct part *b)
{
    return !strcmp(a->what, b->what) && !compare(a->layer, b->layer);
}

/* FROM to TO are one row: its layer is called by its own path where there is one alone. */
static struct part melt(struct piece *pieces, size_t from, size_t to)
{
    struct part row = pieces[from].part;
    for (size_t i = from + 1; i < to; i++) {
        row.bytes += pieces[i].part.bytes;
        row.count += pieces[i].part.count;
        row.layers += compare(pieces[i].own, pieces[i - 1].own) != 0;
        free(pieces[i].part.what);
        free(pieces[i].part.layer);
    }
    if (row.layers == 1) {
        free(row.layer);
        row.layer = xstrdup(pieces[from].own);
    }
    for (size_t i = from; i < to; i++)
        free(pieces[i].own);
    return row;
}

struct part *parts_of(const struct trace_live *live, size_t n, size_t *count)
{
    struct piece *pieces = xrealloc(NULL, n * sizeof *pieces);
    struct part *rows = NULL;
    *count = 0;
    for (size_t i = 0; i < n; i++)
        pieces[i] = piece_of(&live[i]);
    if (n)
        qsort(pieces, n, sizeof *pieces, by_name);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && same_row(&pieces[from].part, &pieces[to].part); to++) {
        }
        struct part row = melt(pieces, from, to);
        *PUSH(rows, *count) = row;
    }
    if (*count)
        qsort(rows, *count, sizeof *rows, by_bytes);
    free(pieces);
    return rows;
}

void parts_free(struct part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(parts[i].what);
        free(parts[i].layer);
    }
    free(parts);
}
