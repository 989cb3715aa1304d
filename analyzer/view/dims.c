/* dims.c - who held the memory, by each dimension, in each state (dims.h). */
#include "dims.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/layers.h"
#include "base/shown.h"

/* ---- blocks' names ---- */

static void fold_layers(struct view_tags *g)
{
    size_t n = g->layers.n;
    uint32_t *owns = xrealloc(NULL, n * sizeof *owns); /* of each of folds one, UINT32_MAX: several */
    g->layer_fold = xrealloc(NULL, n * sizeof *g->layer_fold);
    g->layer_own = xrealloc(NULL, n * sizeof *g->layer_own);
    for (size_t i = 0; i < n; i++) {
        const char *layer = g->layers.at[i];
        size_t own = strlen(layer), before = g->folds.n;
        char *text = i ? part_layer(layer, &own) : xstrdup(layer); /* the first is "no layer" */
        uint32_t fold = texts_index(&g->folds, text, NULL);
        free(text);
        uint32_t name = texts_index_part(&g->owns, layer, own, NULL);
        owns[fold] = fold == before || owns[fold] == name ? name : UINT32_MAX;
        g->layer_fold[i] = fold;
        g->layer_own[i] = name;
    }
    for (size_t i = 0; i < g->folds.n; i++) /* no more are looked up */
        if (owns[i] != UINT32_MAX) {
            free(g->folds.at[i]);
            g->folds.at[i] = xstrdup(g->owns.at[owns[i]]);
        }
    free(owns);
}

struct view_tags view_tags(const struct trace_stacks *s)
{
    struct view_tags g = {.stack_line = xrealloc(NULL, (s->count + 1) * sizeof *g.stack_line),
                          .stack_layer = xrealloc(NULL, (s->count + 1) * sizeof *g.stack_layer)};
    texts_index(&g.lines, "no Python line", NULL);
    texts_index(&g.layers, "no layer", NULL);
    g.stack_line[0] = g.stack_layer[0] = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct trace_stack_row *r = &s->rows[i];
        /* memory that a library asked for by itself is named by the library */
        const char *line = r->line ? r->line : r->owner;
        g.stack_line[i + 1] = line ? texts_index(&g.lines, shown(line), NULL) : 0;
        g.stack_layer[i + 1] = r->layer && r->layer[0] ? texts_index(&g.layers, shown(r->layer), NULL) : 0;
    }
    fold_layers(&g);
    return g;
}

void view_free_tags(struct view_tags *g)
{
    free(g->stack_line);
    free(g->stack_layer);
    free(g->layer_fold);
    free(g->layer_own);
    texts_free(&g->lines);
    texts_free(&g->layers);
    texts_free(&g->folds);
    texts_free(&g->owns);
}

void view_index_stacks(struct trace_block *blocks, size_t n, const struct trace_stacks *s)
{
    for (size_t i = 0; i < n; i++) {
        const struct trace_stack_row *r = trace_find_stack(s, blocks[i].stack);
        blocks[i].stack = r ? (uint32_t)(r - s->rows) + 1 : 0;
    }
}

struct naming {
    const struct view_tags *tags;
    const struct view_asked *asked;
    const char *const *phases;
};

/* A marker that names the block's phase is no layer (analysis/layers.h). */
static uint32_t fold_of(const struct trace_block *b, const struct naming *n)
{
    uint32_t layer = n->tags->stack_layer[b->stack];
    return layer && b->phase && !strcmp(n->tags->layers.at[layer], n->phases[b->phase])
               ? 0
               : n->tags->layer_fold[layer];
}

static uint32_t name_of(const struct trace_block *b, enum view_dim dim, const struct naming *n)
{
    switch (dim) {
    case VIEW_PHASE:
        return b->phase;
    case VIEW_ROLE:
        return b->role;
    case VIEW_LAYER:
        return fold_of(b, n);
    case VIEW_TENSOR:
        return n->asked->name[b->tensor];
    default:
        return n->tags->stack_line[b->stack];
    }
}

/* ---- slots for those that once held most ---- */

/* Sums of what a damaged file says may be beyond any number: they wrap. */
static void add(int64_t *sum, int64_t size, bool born)
{
    *sum = (int64_t)(born ? (uint64_t)*sum + (uint64_t)size : (uint64_t)*sum - (uint64_t)size);
}

struct held {
    int64_t now, most, since; /* bytes, bytes, when NOW began */
    double sum;               /* bytes times nanoseconds, up to then */
};

static struct held *most_held(const struct trace_lives *l, const struct view_names *names, enum view_dim dim,
                              const struct naming *naming)
{
    struct held *held = xrealloc(NULL, names->count * sizeof *held);
    memset(held, 0, names->count * sizeof *held);
    for (size_t i = 0; i < l->change_count; i++) {
        const struct trace_change *c = &l->changes[i];
        if (c->what != CHANGE_BORN && c->what != CHANGE_DIED)
            continue;
        struct held *h = &held[name_of(&l->blocks[c->block], dim, naming)];
        h->sum += (double)h->now * (double)(c->t - h->since);
        h->since = c->t;
        add(&h->now, l->blocks[c->block].size, c->what == CHANGE_BORN);
        h->most = h->now > h->most ? h->now : h->most;
    }
    int64_t last = l->change_count ? l->changes[l->change_count - 1].t : 0;
    for (size_t i = 0; i < names->count; i++)
        held[i].sum += (double)held[i].now * (double)(last - held[i].since);
    return held;
}

/* What is always there lies below what comes and goes: by the mean, as a part of the most. */
static bool lies_below(const struct held *a, const struct held *b)
{
    return a->sum * (double)b->most > b->sum * (double)a->most;
}

static void sort_named(struct view_names *names, const struct held *held)
{
    for (size_t i = 2; i <= names->named_count; i++)
        for (size_t k = i; k > 1 && lies_below(&held[names->named[k]], &held[names->named[k - 1]]); k--) {
            uint32_t name = names->named[k];
            names->named[k] = names->named[k - 1];
            names->named[k - 1] = name;
        }
    for (size_t i = 1; i <= names->named_count; i++)
        names->slot[names->named[i]] = (uint8_t)i;
}

static void give_slots(struct view_names *names, const struct held *held)
{
    names->slot = xrealloc(NULL, names->count);
    memset(names->slot, VIEW_REST, names->count);
    while (names->named_count < VIEW_NAMED) {
        size_t best = 0;
        bool found = false;
        for (size_t i = 0; i < names->count; i++)
            if (names->slot[i] == VIEW_REST && held[i].most > 0 &&
                (!found || held[i].most > held[best].most)) {
                best = i;
                found = true;
            }
        if (!found)
            break;
        names->named[++names->named_count] = (uint32_t)best;
        names->slot[best] = (uint8_t)names->named_count;
    }
    for (size_t i = 0; i < names->count; i++)
        names->rest_names += names->slot[i] == VIEW_REST && held[i].most > 0;
    sort_named(names, held);
}

static void name_phases(struct view_names *names, const char *const *phases, size_t n)
{
    *PUSH(names->texts, names->count) = "no phase";
    for (size_t i = 1; i < n; i++)
        *PUSH(names->texts, names->count) = phases[i] ? shown(phases[i]) : "unknown";
}

static void copy_texts(struct view_names *names, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *PUSH(names->texts, names->count) = texts[i];
}

struct view_dims view_dims(const struct trace_lives *l, const char *const *phases, size_t phase_count,
                           const struct view_tags *g, const struct view_asked *a)
{
    struct view_dims d = {.changes = l->changes, .blocks = l->blocks, .change_count = l->change_count};
    name_phases(&d.names[VIEW_PHASE], phases, phase_count);
    struct naming naming = {g, a, d.names[VIEW_PHASE].texts};
    copy_texts(&d.names[VIEW_ROLE], l->roles, l->role_count);
    copy_texts(&d.names[VIEW_LAYER], (const char *const *)g->folds.at, g->folds.n);
    copy_texts(&d.names[VIEW_LINE], (const char *const *)g->lines.at, g->lines.n);
    copy_texts(&d.names[VIEW_TENSOR], (const char *const *)a->names.at, a->names.n);
    d.slots = xrealloc(NULL, (l->block_count + 1) * sizeof *d.slots);
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        struct held *held = most_held(l, &d.names[dim], dim, &naming);
        give_slots(&d.names[dim], held);
        free(held);
        for (size_t i = 0; i < l->block_count; i++)
            d.slots[i][dim] = d.names[dim].slot[name_of(&l->blocks[i], dim, &naming)];
    }
    return d;
}

void view_free_dims(struct view_dims *d)
{
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        free(d->names[dim].texts);
        free(d->names[dim].slot);
    }
    free(d->slots);
    *d = (struct view_dims){0};
}

/* ---- states ---- */

void view_state_forward(const struct view_dims *d, struct view_state *s, size_t at)
{
    at = at < d->change_count ? at : d->change_count;
    for (; s->at < at; s->at++) {
        const struct trace_change *c = &d->changes[s->at];
        if (c->what != CHANGE_BORN && c->what != CHANGE_DIED)
            continue;
        for (int dim = 0; dim < VIEW_DIMS; dim++)
            add(&s->bytes[dim][d->slots[c->block][dim]], d->blocks[c->block].size, c->what == CHANGE_BORN);
    }
    int64_t allocated = s->at ? d->changes[s->at - 1].allocated : 0;
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        int64_t named = 0;
        for (int slot = 1; slot < VIEW_SLOTS; slot++)
            add(&named, s->bytes[dim][slot], true);
        s->bytes[dim][0] = allocated;
        add(&s->bytes[dim][0], named, false);
    }
}
