/* labels.c - the labels of blocks (snapshot.h). */
#include "snapshot.h"

#include <string.h>

#include "base/base.h"

#define PROBES 16

/* FNV-1a */
static uint64_t hash_of(const struct pickle_value *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (uint32_t i = 0; i < text->length; i++)
        hash = (hash ^ (unsigned char)text->text[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint32_t label_of(struct labels *l, struct snapshot *s, const struct pickle_value *text)
{
    uint64_t key = hash_of(text);
    uint32_t id = VS_TABLE_NONE;
    for (int i = 0; i < PROBES && (id = vs_table_get(&l->texts, key)) != VS_TABLE_NONE; i++, key++)
        if (s->labels[id - 1].length == text->length &&
            memcmp(s->labels[id - 1].text, text->text, text->length) == 0)
            return id;
    *PUSH(s->labels, s->label_count) = (struct snapshot_text){text->text, text->length};
    vs_table_put(&l->texts, key, (uint32_t)s->label_count); /* without memory: only looked for again */
    return (uint32_t)s->label_count;
}

void labels_take(struct labels *l, struct snapshot *s, struct snapshot_event *e,
                 const struct pickle_value *text)
{
    if (e->label || !text || text->kind != PICKLE_TEXT || !text->length)
        return;
    e->label = label_of(l, s, text);
    uint64_t pair = (uint64_t)e->stack << 32 | e->label;
    s->labelled += vs_table_get(&l->pairs, pair) == VS_TABLE_NONE;
    vs_table_put(&l->pairs, pair, 0);
}

void labels_allocated(struct labels *l, const struct snapshot_trace *t, const struct snapshot_event *e)
{
    vs_table_put(&l->last, e->address, (uint32_t)(e - t->at));
}

void labels_annotate(struct labels *l, struct snapshot *s, struct snapshot_trace *t, uint64_t address,
                     const struct pickle_value *text)
{
    uint32_t at = vs_table_get(&l->last, address);
    if (at != VS_TABLE_NONE)
        labels_take(l, s, &t->at[at], text);
}

void labels_end_trace(struct labels *l)
{
    vs_table_free(&l->last);
}

void labels_free(struct labels *l)
{
    vs_table_free(&l->texts);
    vs_table_free(&l->pairs);
    vs_table_free(&l->last);
}
