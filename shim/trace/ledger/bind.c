/*
 * bind.c - physical memory bound into objects that have no address: sparse arrays, multicast objects, logical
 * endpoints.
 *
 * A binding keeps its physical memory alive as a mapping does, and is found by (object, key).  Few programs
 * have any, so a plain list is enough.  Of a multicast object or an endpoint an unbind ends all of a device
 * in a range, whose keys follow each other as their places do.
 */
#include "internal.h"

/* One of the bindings of OBJECT whose keys are the N from KEY on. */
static size_t find(const struct vs_ledger *l, uint64_t object, uint64_t key, uint64_t n)
{
    size_t i = 0;
    while (i < l->bound.n && (l->bound.at[i].object != object || l->bound.at[i].key - key >= n))
        i++;
    return i;
}

static void add(struct vs_ledger *l, uint64_t object, uint64_t key, uint32_t index)
{
    uint64_t failed = 0;
    vs_list_push(&l->bound, failed, (struct bound){object, key, index});
    if (failed)
        vs_count(l, l->entries.at[index].a.device, VS_COUNT_NO_MEMORY);
    else
        l->entries.at[index].maps++;
}

/* Removes binding I; its memory may end with it.  U, if not NULL, remembers what ended, in case the call
 * fails. */
static void drop(struct vs_ledger *l, const struct vs_event *cause, struct undo *u, size_t i)
{
    struct bound b = l->bound.at[i];
    if (u)
        vs_undo_map(l, u, b.object, b.key, b.index);
    l->bound.at[i] = l->bound.at[--l->bound.n];
    vs_phys_unheld(l, cause, u, b.index);
}

void vs_apply_bind(struct vs_ledger *l, const struct vs_event *e, uint64_t restored_mate)
{
    struct vs_row r;
    uint32_t index = vs_phys_of(l, e->arg0, restored_mate);
    if (index == VS_TABLE_NONE && !restored_mate)
        index = vs_phys_mapped_at(l, e->arg0);
    vs_row_begin(l, &r, e);
    if (e->status == 0 && index != VS_TABLE_NONE) {
        r.mate = l->entries.at[index].a.seq;
        r.device = l->entries.at[index].a.device;
        size_t old = find(l, e->address, e->arg1, 1);
        add(l, e->address, e->arg1, index); /* before the old one goes: it may be the same memory */
        if (old < l->bound.n - 1) {
            vs_row_end(l, &r);
            drop(l, e, NULL, old); /* the call is known to have succeeded */
            return;
        }
    }
    vs_row_end(l, &r);
}

void vs_apply_unbind(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    uint64_t places = e->space == VS_SPACE_MULTICAST && e->size != 0 ? e->size : 1;
    size_t i = find(l, e->address, e->arg1, places);
    vs_row_begin(l, &r, e);
    r.status = 0;
    if (i < l->bound.n) {
        const struct entry *phys = &l->entries.at[l->bound.at[i].index];
        r.mate = phys->a.seq;
        r.device = phys->a.device;
    }
    vs_row_end(l, &r);
    struct undo *u = vs_undo_add(l, &r, e->address);
    while ((i = find(l, e->address, e->arg1, places)) < l->bound.n)
        drop(l, e, u, i);
}

void vs_bind_undo(struct vs_ledger *l, struct undo *u)
{
    for (size_t i = 0; i < u->n_maps; i++) {
        const struct saved_map *m = &u->maps[i];
        uint32_t index = vs_phys_revive(l, &m->phys);
        if (index != VS_TABLE_NONE &&
            find(l, m->start, m->end, 1) == l->bound.n) /* not bound anew meanwhile */
            add(l, m->start, m->end, index);
    }
}

void vs_bind_object_gone(struct vs_ledger *l, const struct vs_event *cause, struct undo *u, uint64_t object)
{
    for (size_t i = l->bound.n; i-- > 0;)
        if (l->bound.at[i].object == object)
            drop(l, cause, u, i);
}
