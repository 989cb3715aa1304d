/* holders.c - see holders.h. */
#include "holders.h"

#include <stdlib.h>
#include <string.h>

#include "trace/roles.h"

int64_t holders_total(const struct trace_live *live, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += live[i].size;
    return sum;
}

static int compare_text(const char *a, const char *b)
{
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

static int by_identity(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    int order = compare_text(x->category, y->category);
    order = order ? order : compare_text(x->phase, y->phase);
    order = order ? order : compare_text(x->owner, y->owner);
    order = order ? order : compare_text(x->line, y->line);
    order = order ? order : compare_text(x->layer, y->layer);
    order = order ? order : compare_text(x->role, y->role);
    order = order ? order : (int)x->no_stack - (int)y->no_stack;
    order = order ? order : (int)x->no_native - (int)y->no_native;
    return order ? order : (x->stack > y->stack) - (x->stack < y->stack);
}

static int by_bytes(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return by_identity(a, b);
}

/* Sorts by identity, merges equal neighbours, sorts by size. */
static size_t melt(struct holder *all, size_t n)
{
    size_t kept = 0;
    if (!n)
        return 0;
    qsort(all, n, sizeof *all, by_identity);
    for (size_t i = 1; i < n; i++) {
        if (by_identity(&all[kept], &all[i])) {
            all[++kept] = all[i];
        } else {
            all[kept].bytes += all[i].bytes;
            all[kept].count += all[i].count;
        }
    }
    qsort(all, kept + 1, sizeof *all, by_bytes);
    return kept + 1;
}

static bool is_framework_category(const char *category)
{
    return category && !strcmp(category, "framework block");
}

static bool is_framework(const struct trace_live *l)
{
    return is_framework_category(l->category);
}

static bool has_stack(const struct trace_live *l)
{
    return l->stack != UNKNOWN && l->stack != 0;
}

/* Without a call stack only the category is known. */
static void take_category(struct holder *h, const struct trace_live *l)
{
    if (!has_stack(l)) {
        h->no_stack = true;
        h->category = l->category;
    }
}

/* By default blocks of a framework have Python frames only, which name no library. */
static void take_library(struct holder *h, const struct trace_live *l)
{
    h->owner = l->owner;
    if (!l->owner && has_stack(l) && l->line && is_framework(l)) {
        h->no_native = true;
        h->category = l->category;
    } else if (!l->owner) {
        take_category(h, l);
    }
}

static struct holder identity(const struct trace_live *l, enum holder_by by)
{
    struct holder h = {.bytes = l->size, .count = l->count};
    switch (by) {
    case BY_LINE:
        h.line = l->line;
        h.category = l->line ? NULL : l->category;
        h.role = l->line && vs_role_named(l->role) == VS_ROLE_WORKSPACE ? l->role : NULL;
        break;
    case BY_LAYER:
        h.layer = l->layer;
        h.category = l->layer ? NULL : l->category;
        break;
    case BY_ROLE: /* without one the phase of its birth (part_what) */
        h.role = vs_role_named(l->role) != VS_ROLE_UNTOLD ? l->role : NULL;
        h.category = h.role || !l->category || strcmp(l->category, "before recording") ? NULL : l->category;
        h.phase = h.role || h.category ? NULL : l->phase;
        break;
    case BY_TENSOR: /* holders_of_tensors */
        break;
    case BY_PHASE:
        h.phase = l->phase;
        break;
    case BY_CATEGORY:
        h.category = l->category;
        break;
    case BY_LIBRARY:
        take_library(&h, l);
        break;
    case BY_STACK:
        h.stack = has_stack(l) ? l->stack : 0;
        h.owner = h.stack ? NULL : l->owner;
        take_category(&h, l);
        break;
    }
    return h;
}

struct holder *holders_group(const struct trace_live *live, size_t n, enum holder_by by, size_t *count)
{
    struct holder *all = xrealloc(NULL, n * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = identity(&live[i], by);
    *count = melt(all, n);
    return all;
}

struct holder *holders_of_tensors(struct trace *t, int64_t device, int64_t oom, size_t *count)
{
    struct trace_tensor *tensors;
    *count = 0;
    if (trace_tensors(t, device, oom, &tensors, count)) {
        *count = 0;
        return NULL;
    }
    struct holder *all = xrealloc(NULL, (*count + 1) * sizeof *all);
    for (size_t i = 0; i < *count; i++)
        all[i] = (struct holder){.category = tensors[i].category,
                                 .bytes = tensors[i].size,
                                 .count = tensors[i].count,
                                 .tensor = tensors[i]};
    free(tensors);
    return all;
}

char *holders_tensor_name(const struct holder *h, const char *line)
{
    const struct trace_tensor *x = &h->tensor;
    const char *comma = line ? ", " : "", *behind = line ? line : "";
    if (!x->made_for)
        return xformat("%s%s%s", is_framework_category(h->category) ? "not known" : h->category, comma,
                       behind);
    char *words = trace_tensor_words(x->made_for, x->element_type, x->shape);
    char *name = xformat("%s%s%s", words, comma, behind);
    free(words);
    return name;
}

struct holder *holders_composition(const struct trace_live *live, size_t n, size_t *count)
{
    struct holder *all = xrealloc(NULL, n * sizeof *all);
    bool any_framework = false;
    for (size_t i = 0; i < n; i++)
        any_framework = any_framework || is_framework(&live[i]);
    for (size_t i = 0; i < n; i++) {
        all[i] = (struct holder){.category = live[i].category, .bytes = live[i].size, .count = live[i].count};
        if (is_framework(&live[i]) || !any_framework)
            all[i].phase = live[i].phase;
        if (!is_framework(&live[i])) {
            all[i].owner = live[i].owner;
            all[i].no_stack = !live[i].owner && !has_stack(&live[i]);
        }
    }
    *count = melt(all, n);
    return all;
}

char *holders_nameless(const struct holder *h, const struct trace_live *live, size_t n, bool imported)
{
    const char *all = imported ? "a snapshot with stacks=\"all\"" : "VRAMSCOPE_STACKS=all";
    bool framework = h->category && !strcmp(h->category, "framework block"), any = false;
    if (h->no_native)
        return xformat("framework (by library: %s)", all);
    if (!h->no_stack)
        return xstrdup("unknown");
    if (h->category && !strcmp(h->category, "before recording"))
        return xstrdup("held before the recording began");
    for (size_t i = 0; i < n; i++)
        any = any || (is_framework(&live[i]) == framework && has_stack(&live[i]));
    const char *kind = framework ? "framework" : h->category ? h->category : "unknown";
    if (any)
        return xformat("%s (no call stack)", kind);
    return xformat("%s (no call stacks: %s)", kind, framework || imported ? all : "VRAMSCOPE_STACKS=driver");
}

char *holders_lineless(const struct holder *h)
{
    bool framework = h->category && !strcmp(h->category, "framework block");
    if (h->category && !strcmp(h->category, "before recording"))
        return xstrdup("held before the recording began");
    return xformat("%s (no Python line)", framework ? "framework" : h->category ? h->category : "unknown");
}
