/*
 * snapshot_host.c - page-locked memory of the host in a snapshot.
 *
 * PyTorch has segments of one block each, registered memory likewise.  Here each piece that the driver gave
 * or registered is such a segment, whoever asked for it.
 */
#include <stdlib.h>

#include "snapshot.h"

struct host {
    struct snapshot_writer *w;
    struct host_segment {
        int64_t address, size, stack;
        bool lives, registered;
    } * at;
    size_t n;
    struct map by_seq; /* of those that live: the place in AT */
};

static void put_entry(struct snapshot_writer *w, const char *action, const struct host_segment *s,
                      bool begins)
{
    snapshot_begin_entry(w, action, s->size, 0, 0, begins ? s->stack : 0);
    snapshot_int(w, "addr", s->address);
    if (s->registered) /* a key of ours: the program's own memory, page-locked */
        snapshot_bool(w, "is_registered", true);
    pickle_text(&w->pickle, "frames");
    if (begins)
        snapshot_stack(w, s->stack);
    else
        snapshot_no_frames(w);
    snapshot_end_entry(w);
}

/* What lived before is in the list of segments alone, or has its ends alone. */
static bool is_told(const struct snapshot_writer *w, const struct trace_row *e)
{
    return e->t >= w->o->from && e->seq >= w->start_seq;
}

static void begin(struct host *h, const struct trace_row *e)
{
    struct host_segment s = {e->address, e->size, e->stack, true, e->space == VS_SPACE_REGISTERED};
    map_put(&h->by_seq, e->seq, (int64_t)h->n);
    *PUSH(h->at, h->n) = s;
    if (!is_told(h->w, e))
        return;
    put_entry(h->w, "segment_alloc", &s, true);
    put_entry(h->w, "alloc", &s, true);
}

static void end(struct host *h, const struct trace_row *e)
{
    int64_t i = e->taken_back ? -1 : map_get(&h->by_seq, e->mate);
    if (i < 0)
        return;
    map_remove(&h->by_seq, e->mate);
    h->at[i].lives = false;
    if (!is_told(h->w, e))
        return;
    put_entry(h->w, "free_requested", &h->at[i], false);
    put_entry(h->w, "free_completed", &h->at[i], false);
    put_entry(h->w, "segment_free", &h->at[i], false);
}

static bool put_row(void *context, const struct trace_row *e)
{
    struct host *h = context;
    bool host = e->space == VS_SPACE_PINNED || e->space == VS_SPACE_REGISTERED;
    if (e->t > h->w->o->to)
        return false;
    h->w->now = e->t;
    if (e->op == VS_OP_ALLOC && host && !e->status && e->size > 0)
        begin(h, e);
    else if (e->op == VS_OP_FREE || e->op == VS_OP_FREE_MISSED || e->op == VS_OP_CONTEXT_FREED)
        end(h, e);
    return !h->w->pickle.out->error;
}

static void put_block(struct snapshot_writer *w, const struct host_segment *s)
{
    pickle_text(&w->pickle, "blocks");
    pickle_list(&w->pickle);
    pickle_dict(&w->pickle);
    snapshot_int(w, "address", s->address);
    snapshot_int(w, "size", s->size);
    snapshot_int(w, "requested_size", s->size);
    snapshot_text(w, "state", "active_allocated");
    pickle_text(&w->pickle, "frames");
    snapshot_stack(w, s->stack);
    pickle_set(&w->pickle);
    pickle_append(&w->pickle);
}

static void put_segment(struct snapshot_writer *w, const struct host_segment *s)
{
    static const char *const sizes[] = {"total_size", "allocated_size", "active_size", "requested_size"};
    pickle_dict(&w->pickle);
    snapshot_int(w, "device", -1);
    snapshot_int(w, "address", s->address);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        snapshot_int(w, sizes[i], s->size);
    snapshot_int(w, "stream", 0);
    snapshot_text(w, "segment_type", "small"); /* as PyTorch says of all */
    snapshot_pool(w, "segment_pool_id", 0);
    snapshot_bool(w, "is_expandable", false);
    if (s->registered)
        snapshot_bool(w, "is_registered", true);
    pickle_text(&w->pickle, "frames");
    snapshot_stack(w, s->stack);
    put_block(w, s);
    pickle_set(&w->pickle);
    snapshot_count(w);
}

int snapshot_host(struct snapshot_writer *w)
{
    struct host h = {.w = w};
    pickle_text(&w->pickle, "host_traces");
    snapshot_begin_list(w);
    int result = trace_rows(w->t, 0, put_row, &h);
    snapshot_end_list(w);
    pickle_text(&w->pickle, "host_segments");
    snapshot_begin_list(w);
    for (size_t i = 0; i < h.n; i++)
        if (h.at[i].lives)
            put_segment(w, &h.at[i]);
    snapshot_end_list(w);
    free(h.at);
    map_free(&h.by_seq);
    return result;
}
