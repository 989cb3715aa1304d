/* peak_groups.c - who held the bytes, by what is asked: groups, their names, their order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/layers.h"
#include "base/units.h"
#include "peak_page.h"
#include "show/report/code.h"
#include "show/report/stack.h"
#include "read/living.h"

const char *const peak_questions[] = {"line",     "layer",   "role",  "tensor",  "phase",
                                      "category", "library", "stack", "capture", NULL};
_Static_assert(sizeof peak_questions / sizeof *peak_questions == PEAK_CAPTURES + 2, "a name each");

static char *nameless(const struct peak_page *p, const struct holder *h)
{
    return holders_nameless(h, p->d->live, p->d->live_count, trace_is_imported(p->t));
}

static char *tensor_name(const struct holder *h)
{
    char *line = h->tensor.line ? line_text(h->tensor.line) : NULL, *name = holders_tensor_name(h, line);
    free(line);
    return name;
}

const struct unused *peak_unused(const struct peak_page *p)
{
    return p->oom ? &p->oom->unused : &p->d->unused;
}

static int64_t captured(const struct unused *u)
{
    int64_t sum = 0;
    for (size_t i = 0; i < u->capture_count; i++)
        sum += u->captures[i].reserved;
    return sum;
}

const struct unused *peak_captures(const struct peak_page *p)
{
    const struct unused *then = peak_unused(p), *most = &p->d->unused_most;
    return !p->oom && captured(most) > captured(then) ? most : then;
}

struct holder *peak_groups(const struct peak_page *p, enum holder_by by, size_t *n)
{
    if (by == BY_TENSOR)
        return holders_of_tensors(p->t, p->d->device, p->oom ? p->oom->lead->seq : UNKNOWN, n);
    return holders_group(p->d->live, p->d->live_count, by, n);
}

char *peak_group_name(const struct peak_page *p, const struct holder *h, enum holder_by by)
{
    switch (by) {
    case BY_LINE:
        return h->line ? report_line_text(h->line, h->role) : holders_lineless(h);
    case BY_LAYER:
        return xstrdup(h->layer ? h->layer : "no layer");
    case BY_ROLE:
        return part_what(&(struct trace_live){.role = h->role, .category = h->category, .phase = h->phase});
    case BY_TENSOR:
        return tensor_name(h);
    case BY_PHASE:
        return xstrdup(h->phase ? h->phase : "unknown");
    case BY_CATEGORY:
        return xstrdup(h->category ? h->category : "unknown");
    case BY_LIBRARY:
        return h->owner ? xstrdup(h->owner) : nameless(p, h);
    case BY_STACK:
        break;
    }
    return h->stack ? xformat("stack %" PRId64, h->stack) : nameless(p, h);
}

char *peak_row_name(const struct peak_page *p, const struct holder *h, enum holder_by by)
{
    char *name = peak_group_name(p, h, by);
    if (by != BY_STACK || !h->stack)
        return name;
    char *place = stack_where(p->t, h->stack), *both = xformat("%s, %s", name, place);
    free(name);
    free(place);
    return both;
}

struct named {
    struct holder group;
    char *name;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int by_count(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = (x->group.count < y->group.count) - (x->group.count > y->group.count);
    return order ? order : by_name(a, b);
}

void peak_sort_groups(const struct peak_page *p, struct holder *groups, size_t n, enum holder_by by)
{
    bool names = choice_sorts(&p->o->choice, "name"), counts = choice_sorts(&p->o->choice, "count");
    if (!n || (!names && !counts))
        return;
    struct named *named = xrealloc(NULL, n * sizeof *named);
    for (size_t i = 0; i < n; i++)
        named[i] = (struct named){groups[i], peak_group_name(p, &groups[i], by)};
    qsort(named, n, sizeof *named, names ? by_name : by_count);
    for (size_t i = 0; i < n; i++) {
        groups[i] = named[i].group;
        free(named[i].name);
    }
    free(named);
}

/* Whether a page has anything to show: lines, layers, roles and tensors exist only in some recordings, and
 * are left out otherwise unless they were requested. */
bool peak_has_any(const struct peak_page *p, enum holder_by by)
{
    const struct device_report *d = p->d;
    if (by == BY_TENSOR)
        return trace_knows_tensors(p->t);
    for (size_t i = 0; i < d->live_count; i++)
        if (by == BY_LINE    ? d->live[i].line
            : by == BY_LAYER ? d->live[i].layer
            : by == BY_ROLE  ? d->live[i].role
                             : "")
            return true;
    return false;
}
