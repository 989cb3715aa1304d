/* unused.c - see unused.h.  Each sentence is one of the row's kind, and true of all programs that have it. */
#include "unused.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "read/stacks.h"

#define B(n)        units_bytes(n, exact).s
#define POOLS_SHOWN 3

/* ---- words ---- */

/* " (1, 0)", as PyTorch writes a pool's number. */
static char *pool_text(uint64_t number)
{
    uint32_t first, second;
    return unused_pool_id(number, &first, &second) ? xformat(" (%" PRIu32 ", %" PRIu32 ")", first, second)
                                                   : xstrdup("");
}

/* An import says no captures: a pool that PyTorch numbered itself is a graph's. */
static bool is_of_graphs(const struct unused_row *r)
{
    uint32_t first, second;
    return r->captured || (unused_pool_id(r->handle, &first, &second) && first > 0);
}

static char *private_name(const struct unused_row *r)
{
    char *number = pool_text(r->handle);
    char *name = xformat("%s%s%s", "private pool", number,
                         is_of_graphs(r) ? " of CUDA graphs"
                         : r->stack      ? ", a MemPool"
                                         : "");
    free(number);
    return name;
}

static char *row_name(const struct unused_row *r)
{
    switch (r->kind) {
    case UNUSED_CACHED:
        return xstrdup("cached, free for other requests");
    case UNUSED_WAITING:
        return r->stream ? xformat("freed, waits for stream %" PRId64, r->stream)
                         : xstrdup("freed, waits for another stream");
    case UNUSED_PRIVATE:
        return private_name(r);
    case UNUSED_GRAPHS:
        return xstrdup("memory nodes of CUDA graphs");
    case UNUSED_POOL:
        return r->count > 1 ? xformat("%" PRId64 " stream-ordered pools", r->count)
                            : xstrdup("stream-ordered pool");
    case UNUSED_ROUNDING:
        return xstrdup("rounding inside blocks");
    case UNUSED_ARENA:
        return xstrdup("the arena's own");
    case UNUSED_LIBRARY:
        return xstrdup("held by libraries' pools, use unknown");
    default:
        return xstrdup("unknown");
    }
}

static char *pieces_text(const struct unused_row *r, bool exact)
{
    if (r->pieces == 1)
        return xstrdup("in one piece");
    return xformat("in %s, the largest of %s", units_count(r->pieces, "piece").s, B(r->largest));
}

/* What the refused request could have had of the row. */
static char *usable_text(const struct unused *u, const struct unused_row *r, bool exact)
{
    if (!u->requested)
        return xstrdup("");
    if (!r->usable)
        return xstrdup("; none of it is for a request of that size, stream and pool");
    struct text usable = units_bytes(r->usable, exact), all = units_bytes(r->bytes, exact);
    if (!strcmp(usable.s, all.s))
        return xstrdup("");
    return xformat("; the request could use %s of it, at most %s in one piece", B(r->usable),
                   B(r->usable_largest));
}

static char *cached_words(const struct unused *u, const struct unused_row *r, bool exact)
{
    char *pieces = pieces_text(r, exact), *use = usable_text(u, r, exact);
    char *text = r->whole > 0
                     ? xformat("%s%s; torch.cuda.empty_cache() gives back %s", pieces, use, B(r->whole))
                     : xformat("%s%s; no segment of it is empty, so that none can go back", pieces, use);
    free(pieces);
    free(use);
    return text;
}

static char *waiting_words(struct trace *t, const struct unused_row *r)
{
    char *place = r->stack > 0 ? stack_where(t, r->stack) : NULL;
    char *text = xformat("%s%s%s; free when that stream has done its work%s",
                         units_count(r->count, "block").s, place ? ", record_stream() at " : "",
                         place ? place : "", place ? "; wait_stream() in its place would keep none" : "");
    free(place);
    return text;
}

static char *private_words(struct trace *t, const struct unused_row *r, bool exact)
{
    bool graphs = is_of_graphs(r);
    char *place = r->stack > 0 ? stack_where(t, r->stack) : NULL, *pieces = pieces_text(r, exact);
    char *captures =
        r->count > 1 ? xformat(" in %s, the first", units_count(r->count, "capture").s) : xstrdup("");
    char *text =
        xformat("%s%s%s%s%s; %s", place ? (graphs ? "captured" : "made") : pieces, place ? captures : "",
                place ? " at " : "", place ? place : "",
                graphs                    ? ""
                : place && r->pieces == 1 ? ", in one piece"
                                          : "",
                graphs ? "their replays use it; it can go back once all graphs of the pool are deleted"
                       : "it is for requests of that pool, and can go back once the pool is deleted");
    free(captures);
    free(pieces);
    free(place);
    return text;
}

static char *graphs_words(struct trace *t, const struct unused_row *r)
{
    char *place = r->stack > 0 ? stack_where(t, r->stack) : NULL;
    char *text =
        xformat("%s%s%s; launches use it; cuDeviceGraphMemTrim() gives back what no launch needs",
                units_count(r->count, "node").s, place ? ", most of them of " : "", place ? place : "");
    free(place);
    return text;
}

/* "prog, made to grow by pool.c:5 main" */
static char *pool_owner(struct trace *t, int64_t stack)
{
    char *place = stack > 0 ? stack_where(t, stack) : NULL;
    const char *owner = stack > 0 ? trace_owner(t, stack) : NULL;
    char *text = xformat("%s%s%s", owner ? shown(owner) : "an unknown library",
                         place ? ", made to grow by " : "", place ? place : "");
    free(place);
    return text;
}

/* Of several pools each one's whole, of which a part is allocated. */
static char *pool_words(struct trace *t, const struct unused *u, const struct unused_row *r, bool exact)
{
    static const char trim[] = "cuMemPoolTrimTo() gives back what no allocation uses";
    char *text = xstrdup("");
    for (size_t i = 0; i < u->pool_count && i < POOLS_SHOWN; i++) {
        char *owner = pool_owner(t, u->pools[i].stack), *longer;
        longer = r->count > 1 ? xformat("%s%s held for %s; ", text, B(u->pools[i].held), owner)
                              : xformat("of %s; ", owner);
        free(owner);
        free(text);
        text = longer;
    }
    char *more =
        u->pool_count > POOLS_SHOWN ? xformat("%zu more; ", u->pool_count - POOLS_SHOWN) : xstrdup("");
    char *whole = xformat("%s%s%s", text, more, trim);
    free(more);
    free(text);
    return whole;
}

static char *row_words(struct trace *t, const struct unused *u, const struct unused_row *r, bool exact)
{
    switch (r->kind) {
    case UNUSED_CACHED:
        return cached_words(u, r, exact);
    case UNUSED_WAITING:
        return waiting_words(t, r);
    case UNUSED_PRIVATE:
        return private_words(t, r, exact);
    case UNUSED_GRAPHS:
        return graphs_words(t, r);
    case UNUSED_POOL:
        return pool_words(t, u, r, exact);
    case UNUSED_ROUNDING:
        return xstrdup("between what was requested and the ends of blocks; goes with the blocks");
    case UNUSED_ARENA:
        return xstrdup("idle, waiting or partly used chunks");
    case UNUSED_LIBRARY:
        return xstrdup("");
    default:
        return xstrdup("the pieces in the file do not add up to it");
    }
}

/* ---- text ---- */

static void print_sizes(const struct unused_row *r, FILE *out, bool exact)
{
    static const char *const names[UNUSED_SIZES] = {"up to 1 MiB", "up to 10 MiB", "up to 100 MiB",
                                                    "up to 1 GiB", "above 1 GiB"};
    char *text = NULL;
    for (size_t i = 0; i < UNUSED_SIZES; i++) {
        if (!r->of_size[i])
            continue;
        char *longer = xformat("%s%s%s %s", text ? text : "", text ? ", " : "", B(r->of_size[i]), names[i]);
        free(text);
        text = longer;
    }
    if (text)
        wrap_print(out, 8, 10, "in pieces of these sizes: %s", text);
    free(text);
}

static char *row_text(struct trace *t, const struct unused *u, const struct unused_row *r, bool exact)
{
    char *name = row_name(r), *words = row_words(t, u, r, exact);
    char *text = xformat("%s (%s) %s%s%s", B(r->bytes), units_share(r->bytes, u->reserved).s, name,
                         *words ? ": " : "", words);
    free(words);
    free(name);
    return text;
}

static void print_row(struct trace *t, const struct unused *u, const struct unused_row *r, bool all,
                      FILE *out, bool exact)
{
    char *text = row_text(t, u, r, exact);
    wrap_print(out, 6, 8, "%s", text);
    free(text);
    if (all && r->kind == UNUSED_CACHED && r->pieces > 1)
        print_sizes(r, out, exact);
}

/* 0: there is nothing to say of it. */
static int64_t smallest_row(const struct unused *u, int least)
{
    int64_t smallest = least ? u->reserved / least : 1;
    if (!u->count || u->rows[0].bytes < smallest ||
        (least && u->rows[0].kind == UNUSED_UNKNOWN && u->count == 1))
        return 0;
    return smallest > 0 ? smallest : 1;
}

static char *head_of(const struct unused *u, const char *when, bool exact)
{
    return xformat("of %s reserved %s %s were not allocated:", B(u->reserved), when, B(u->bytes));
}

void report_unused_text(struct trace *t, const struct unused *u, const char *when, int least, FILE *out,
                        bool exact)
{
    int64_t smallest = smallest_row(u, least), shown = 0;
    if (!smallest)
        return;
    char *head = head_of(u, when, exact);
    wrap_print(out, 4, 6, "%s", head);
    free(head);
    for (size_t i = 0; i < u->count && u->rows[i].bytes >= smallest; i++) {
        print_row(t, u, &u->rows[i], !least, out, exact);
        shown += u->rows[i].bytes;
    }
    if (shown < u->bytes)
        wrap_print(out, 6, 8, "%s in smaller parts", B(u->bytes - shown));
}

char *unused_paragraph(struct trace *t, const struct unused *u, const char *when, int least, bool exact)
{
    int64_t smallest = smallest_row(u, least);
    char *text = smallest ? head_of(u, when, exact) : NULL;
    for (size_t i = 0; smallest && i < u->count && u->rows[i].bytes >= smallest; i++) {
        char *row = row_text(t, u, &u->rows[i], exact), *longer = xformat("%s%s %s", text, i ? ";" : "", row);
        free(row);
        free(text);
        text = longer;
    }
    return text;
}

/* ---- JSON ---- */

static void sizes_json(const struct unused_row *r, struct json *j)
{
    json_begin(j, "sizes", '[');
    for (size_t i = 0; r->kind == UNUSED_CACHED && i < UNUSED_SIZES; i++) {
        if (!r->of_size[i])
            continue;
        json_begin(j, NULL, '{');
        json_int(j, "up_to_bytes", i + 1 < UNUSED_SIZES ? unused_sizes[i] : UNKNOWN);
        json_int(j, "size_bytes", r->of_size[i]);
        json_end(j);
    }
    json_end(j);
}

static void row_json(struct trace *t, const struct unused *u, const struct unused_row *r, struct json *j)
{
    bool pieces = r->pieces > 0, private = r->kind == UNUSED_PRIVATE, cached = r->kind == UNUSED_CACHED;
    char *number = private ? pool_text(r->handle) : NULL;
    json_begin(j, NULL, '{');
    json_text(j, "kind", unused_names[r->kind]);
    json_int(j, "size_bytes", r->bytes);
    json_int(j, "pieces", pieces ? r->pieces : UNKNOWN);
    json_int(j, "largest_bytes", pieces ? r->largest : UNKNOWN);
    json_int(j, "in_empty_segments_bytes", private || cached ? r->whole : UNKNOWN);
    json_int(j, "usable_bytes", u->requested && (private || cached) ? r->usable : UNKNOWN);
    json_int(j, "stream", r->kind == UNUSED_WAITING && r->stream ? r->stream : UNKNOWN);
    json_text(j, "pool", number && *number ? number + 1 : NULL);
    json_int(j, "captures", private ? r->count : UNKNOWN);
    json_int(j, "pools", r->kind == UNUSED_POOL ? r->count : UNKNOWN);
    json_int(j, "blocks", r->kind == UNUSED_WAITING ? r->count : UNKNOWN);
    json_int(j, "nodes", r->kind == UNUSED_GRAPHS ? r->count : UNKNOWN);
    json_text(j, "line", r->stack > 0 ? trace_line(t, r->stack) : NULL);
    json_int(j, "stack", r->stack > 0 ? r->stack : UNKNOWN);
    sizes_json(r, j);
    json_end(j);
    free(number);
}

static void pools_json(struct trace *t, const struct unused *u, struct json *j)
{
    json_begin(j, "stream_ordered_pools", '[');
    for (size_t i = 0; i < u->pool_count; i++) {
        int64_t stack = u->pools[i].stack;
        json_begin(j, NULL, '{');
        json_int(j, "held_bytes", u->pools[i].held);
        json_text(j, "line", stack > 0 ? trace_line(t, stack) : NULL);
        json_int(j, "stack", stack > 0 ? stack : UNKNOWN);
        json_end(j);
    }
    json_end(j);
}

void report_unused_json(struct trace *t, const struct unused *u, const char *name, struct json *j)
{
    json_begin(j, name, '{');
    json_int(j, "reserved_bytes", u->reserved);
    json_int(j, "allocated_bytes", u->allocated);
    if (u->away > 0)
        json_int(j, "away_bytes", u->away);
    json_int(j, "not_allocated_bytes", u->bytes);
    json_begin(j, "rows", '[');
    for (size_t i = 0; i < u->count; i++)
        row_json(t, u, &u->rows[i], j);
    json_end(j);
    pools_json(t, u, j);
    json_end(j);
}

char *unused_capture_name(struct trace *t, const struct unused_capture *c)
{
    char *place = c->stack > 0 ? stack_where(t, c->stack) : xstrdup("an unknown line"),
         *pool = pool_text(c->pool);
    char *text = xformat("%s%s%s", place, *pool ? ", pool" : "", pool);
    free(place);
    free(pool);
    return text;
}

void report_captures_json(struct trace *t, const struct unused *u, struct json *j)
{
    json_begin(j, "captures", '[');
    for (size_t i = 0; i < u->capture_count; i++) {
        const struct unused_capture *c = &u->captures[i];
        char *number = pool_text(c->pool);
        json_begin(j, NULL, '{');
        json_text(j, "line", c->stack > 0 ? trace_line(t, c->stack) : NULL);
        json_text(j, "pool", *number ? number + 1 : NULL);
        json_int(j, "reserved_bytes", c->reserved);
        json_int(j, "allocated_bytes", c->allocated);
        json_end(j);
        free(number);
    }
    json_end(j);
}
