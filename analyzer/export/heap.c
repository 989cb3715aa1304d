/*
 * heap.c - follows segments and blocks through the events (heap.h).
 *
 * The pieces are a sorted array: there are thousands at most and they change seldom, while each block is
 * looked up in them.
 */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#define NOWHERE      (INT64_C(1) << 52) /* above any address; up to twice that a double is exact */
#define NOWHERE_SIZE (INT64_C(1) << 45) /* of each of 128 devices */
#define GRAIN        INT64_C(4096)

void heap_init(struct heap *h, int64_t device)
{
    int64_t base = NOWHERE + device * NOWHERE_SIZE;
    *h = (struct heap){.nowhere = base, .nowhere_base = base};
}

void heap_free(struct heap *h)
{
    free(h->pieces);
    free(h->holdings);
    free(h->holes);
    free(h->undone);
    map_free(&h->by_seq);
    map_free(&h->own_places);
    *h = (struct heap){0};
}

static int64_t address_nowhere(struct heap *h, int64_t size)
{
    int64_t wide = (size + GRAIN - 1) / GRAIN * GRAIN + GRAIN;
    if (size < 0 || wide > NOWHERE_SIZE)
        return h->nowhere_base;
    if (h->nowhere - h->nowhere_base > NOWHERE_SIZE - wide) /* 32 TiB later the first ones are long gone */
        h->nowhere = h->nowhere_base;
    h->nowhere += wide;
    return h->nowhere - wide;
}

static void tell(const struct heap *h, enum heap_action action, int64_t address, int64_t size, int64_t stream,
                 const struct holding *about)
{
    struct heap_change c = {action, address, size, stream, about};
    if (h->tell)
        h->tell(h->context, &c);
}

/* ---- pieces ---- */

/* The first piece that begins behind ADDRESS. */
static size_t piece_after(const struct heap *h, int64_t address)
{
    return FROM(address + 1, h->pieces, h->piece_count, address);
}

/* The piece that ADDRESS lies in; piece_count: none. */
static size_t piece_at(const struct heap *h, int64_t address)
{
    size_t i = piece_after(h, address);
    bool inside = i > 0 && address < h->pieces[i - 1].address + h->pieces[i - 1].size;
    return inside ? i - 1 : h->piece_count;
}

/* Whether [ADDRESS, ADDRESS + SIZE) lies in one segment, of which *FIRST is the first piece. */
static bool is_covered(const struct heap *h, int64_t address, int64_t size, size_t *first)
{
    size_t i = *first = piece_at(h, address);
    if (i == h->piece_count)
        return false;
    while (address + size > h->pieces[i].address + h->pieces[i].size) {
        if (i + 1 == h->piece_count || !heap_adjoin(&h->pieces[i], &h->pieces[i + 1]))
            return false;
        i++;
    }
    return true;
}

/* A block of the pieces from FIRST on came (CHANGE 1) or went (-1). */
static void count_block(struct heap *h, size_t first, const struct holding *block, int change)
{
    for (size_t i = first; i < h->piece_count && h->pieces[i].address < block->address + block->size; i++)
        h->pieces[i].blocks += change;
}

static struct holding about_piece(const struct piece *p)
{
    return (struct holding){.seq = p->seq,
                            .address = p->address,
                            .size = p->size,
                            .stack = p->stack,
                            .pool = p->pool,
                            .kind = HOLDING_SEGMENT};
}

static void tell_piece(const struct heap *h, const struct piece *p)
{
    struct holding about = about_piece(p);
    int64_t stream = p->expandable ? HEAP_MAPPING : p->stream;
    if (!p->expandable || !h->plain)
        tell(h, HEAP_SEGMENT_ALLOC, p->address, p->size, stream, &about);
    if (p->expandable && !h->plain)
        tell(h, HEAP_SEGMENT_UNMAP, p->address, p->size, HEAP_MAPPING, &about);
    if (p->expandable)
        tell(h, HEAP_SEGMENT_MAP, p->address, p->size, p->stream, &about);
}

static void tell_piece_gone(const struct heap *h, const struct piece *p)
{
    struct holding about = about_piece(p);
    int64_t stream = p->expandable ? HEAP_MAPPING : p->stream;
    if (p->expandable)
        tell(h, HEAP_SEGMENT_UNMAP, p->address, p->size, p->stream, &about);
    if (p->expandable && !h->plain)
        tell(h, HEAP_SEGMENT_MAP, p->address, p->size, HEAP_MAPPING, &about);
    if (!p->expandable || !h->plain)
        tell(h, HEAP_SEGMENT_FREE, p->address, p->size, stream, &about);
}

static void find_home(const struct heap *h, struct piece *p)
{
    int64_t at = h->homes ? map_get(&h->homes->by_birth, p->seq) : -1;
    if (at < 0)
        return;
    p->stream = h->homes->at[at].stream;
    p->pool = h->homes->at[at].pool;
}

/* Memory that is mapped twice at one address is a damaged file's, or a lost event's: the first stays. */
static void add_piece(struct heap *h, const struct piece *p)
{
    size_t i = piece_after(h, p->address);
    bool overlaps = (i > 0 && h->pieces[i - 1].address + h->pieces[i - 1].size > p->address) ||
                    (i < h->piece_count && p->address + p->size > h->pieces[i].address) ||
                    map_get(&h->own_places, p->address) >= 0;
    if (p->size <= 0 || overlaps)
        return;
    (void)PUSH(h->pieces, h->piece_count);
    memmove(&h->pieces[i + 1], &h->pieces[i], (h->piece_count - 1 - i) * sizeof *h->pieces);
    h->pieces[i] = *p;
    find_home(h, &h->pieces[i]);
    tell_piece(h, &h->pieces[i]);
}

/* ---- what lives ---- */

static void tell_begin(struct heap *h, const struct holding *x)
{
    if (x->kind == HOLDING_OWN || x->kind == HOLDING_REST)
        tell(h, HEAP_SEGMENT_ALLOC, x->address, x->size, x->stream, x);
    tell(h, HEAP_ALLOC, x->address, x->size, x->stream, x);
}

static void tell_end(struct heap *h, const struct holding *x)
{
    tell(h, HEAP_FREE, x->address, x->size, x->stream, x);
    if (x->kind == HOLDING_OWN || x->kind == HOLDING_REST)
        tell(h, HEAP_SEGMENT_FREE, x->address, x->size, x->stream, x);
}

/* Makes X a segment of its own: where it lies, unless something else does (events were lost). */
static void place_own(struct heap *h, struct holding *x)
{
    bool taken = x->address <= 0 || piece_at(h, x->address) < h->piece_count ||
                 map_get(&h->own_places, x->address) >= 0;
    x->kind = HOLDING_OWN;
    x->address = taken ? address_nowhere(h, x->size) : x->address;
    map_put(&h->own_places, x->address, 0);
}

/* Places a block: in the segment that it lies in, or as one of its own. */
static void begin_block(struct heap *h, struct holding *x)
{
    size_t first;
    if (x->kind == HOLDING_BLOCK && is_covered(h, x->address, x->size, &first)) {
        count_block(h, first, x, 1);
        x->pool = h->pieces[first].pool;
        if (h->homes) /* what was recorded is the thread's stream, which the request may not have been for */
            x->stream = h->pieces[first].stream;
    } else {
        place_own(h, x);
    }
    h->known += x->size;
    if (h->late && h->known > h->most) /* what was there before the trace is told by its ends */
        h->most = h->known;
    tell_begin(h, x);
}

static void end_block(struct heap *h, const struct holding *x)
{
    size_t first;
    tell_end(h, x);
    h->known -= x->size;
    if (x->kind == HOLDING_OWN)
        map_remove(&h->own_places, x->address);
    else if (is_covered(h, x->address, x->size, &first))
        count_block(h, first, x, -1);
}

static struct holding *find_holding(const struct heap *h, int64_t seq)
{
    int64_t i = map_get(&h->by_seq, seq);
    return i < 0 ? NULL : &h->holdings[i];
}

const struct holding *heap_find(const struct heap *h, int64_t seq)
{
    return find_holding(h, seq);
}

static struct holding *keep(struct heap *h, const struct holding *x)
{
    size_t i = h->holding_count;
    if (x->seq <= 0 || find_holding(h, x->seq))
        return NULL;
    if (h->hole_count)
        i = h->holes[--h->hole_count];
    else
        (void)PUSH(h->holdings, h->holding_count);
    h->holdings[i] = *x;
    map_put(&h->by_seq, x->seq, (int64_t)i);
    return &h->holdings[i];
}

static void drop(struct heap *h, struct holding *x)
{
    map_remove(&h->by_seq, x->seq);
    *PUSH(h->holes, h->hole_count) = (size_t)(x - h->holdings);
    *x = (struct holding){0};
}

/* Blocks that live in a piece which goes away (events were lost) have segments of their own from now on. */
static void rehome(struct heap *h, const struct piece *p)
{
    for (size_t i = 0; i < h->holding_count; i++) {
        struct holding *x = &h->holdings[i];
        bool lies_in = x->seq && x->kind == HOLDING_BLOCK && x->address < p->address + p->size &&
                       x->address + x->size > p->address;
        if (!lies_in)
            continue;
        end_block(h, x);
        x->kind = HOLDING_OWN;
        begin_block(h, x);
    }
}

static void remove_piece(struct heap *h, size_t i)
{
    struct piece p = h->pieces[i];
    if (p.blocks > 0)
        rehome(h, &p);
    tell_piece_gone(h, &p);
    h->piece_count--;
    memmove(&h->pieces[i], &h->pieces[i + 1], (h->piece_count - i) * sizeof *h->pieces);
}

/* The pieces of SEQ that lie in [ADDRESS, ADDRESS + SIZE); SEQ 0: all that are mapped. */
static void remove_pieces(struct heap *h, int64_t address, int64_t size, int64_t seq)
{
    size_t i = piece_after(h, address - 1);
    while (i < h->piece_count && h->pieces[i].address < address + size)
        if (seq ? h->pieces[i].seq == seq : h->pieces[i].expandable)
            remove_piece(h, i);
        else
            i++;
}

static void begin_holding(struct heap *h, struct holding *x)
{
    struct piece piece = {
        .address = x->address, .size = x->size, .seq = x->seq, .stack = x->stack, .stream = x->stream};
    if (heap_is_block(x))
        begin_block(h, x);
    else if (x->kind == HOLDING_SEGMENT)
        add_piece(h, &piece);
    else if (x->kind == HOLDING_PHYSICAL && x->mapped)
        add_piece(h, &(struct piece){.address = x->mapped,
                                     .size = x->mapped_size,
                                     .seq = x->seq,
                                     .stack = x->stack,
                                     .expandable = true});
}

static void end_holding(struct heap *h, const struct holding *x)
{
    if (heap_is_block(x))
        end_block(h, x);
    else if (x->kind == HOLDING_SEGMENT)
        remove_pieces(h, x->address, x->size, x->seq);
    else if (x->mapped)
        remove_pieces(h, x->mapped, x->mapped_size, x->seq);
}

/* ---- events ---- */

static bool in_totals(int space)
{
    return space == VS_SPACE_DEVICE || space == VS_SPACE_POOL || space == VS_SPACE_ARRAY ||
           space == VS_SPACE_GRAPH || space == VS_SPACE_ARENA;
}

static void apply_begin(struct heap *h, const struct trace_row *e)
{
    struct holding x = {.seq = e->seq,
                        .address = e->address,
                        .size = e->size == UNKNOWN ? 0 : e->size,
                        .stack = e->stack,
                        .stream = e->stream,
                        .tensor = e->tensor,
                        .op = e->op,
                        .space = e->space};
    bool is_handle = e->op == VS_OP_PHYS_CREATE || e->space == VS_SPACE_ARRAY;
    if (e->status || x.size <= 0 || (e->op != VS_OP_BLOCK_ALLOC && !in_totals(e->space)))
        return;
    if (e->op == VS_OP_BLOCK_ALLOC)
        x.kind = HOLDING_BLOCK;
    else if (!e->managed)
        x.kind = HOLDING_OWN;
    else
        x.kind = e->op == VS_OP_PHYS_CREATE ? HOLDING_PHYSICAL : HOLDING_SEGMENT;
    if (is_handle && x.kind == HOLDING_OWN)
        x.address = address_nowhere(h, x.size);
    struct holding *kept = keep(h, &x);
    if (kept)
        begin_holding(h, kept);
}

static void apply_end(struct heap *h, const struct trace_row *e)
{
    struct holding *x = find_holding(h, e->mate);
    if (!x || (e->op == VS_OP_PHYS_RELEASE && e->size == 0))
        return;
    if (e->taken_back)
        *PUSH(h->undone, h->undone_count) = (struct undone){e->taken_back, *x};
    end_holding(h, x);
    drop(h, x);
}

/* An unmap ends several at once. */
static void apply_failed(struct heap *h, const struct trace_row *e)
{
    size_t left = 0;
    for (size_t i = 0; i < h->undone_count; i++) {
        const struct undone u = h->undone[i];
        if (u.by != e->seq) {
            h->undone[left++] = u;
            continue;
        }
        struct holding *kept = keep(h, &u.holding);
        if (kept)
            begin_holding(h, kept);
    }
    h->undone_count = left;
}

static void apply_map(struct heap *h, const struct trace_row *e)
{
    struct holding *x = e->status ? NULL : find_holding(h, e->mate);
    if (!x || e->size == UNKNOWN || x->op != VS_OP_PHYS_CREATE)
        return;
    x->mapped = e->address;
    x->mapped_size = e->size;
    if (x->kind == HOLDING_PHYSICAL)
        begin_holding(h, x);
}

/* Memory that was taken for direct turned out to be a caching allocator's. */
static void apply_reclassify(struct heap *h, const struct trace_row *e)
{
    struct holding *x = find_holding(h, e->mate);
    if (!x || x->kind != HOLDING_OWN || x->op == VS_OP_BLOCK_ALLOC)
        return;
    end_block(h, x);
    x->kind = x->op == VS_OP_PHYS_CREATE ? HOLDING_PHYSICAL : HOLDING_SEGMENT;
    begin_holding(h, x);
}

/* Makes the rest what TOTAL has beyond what is known to live. */
static void fit_rest(struct heap *h, int64_t total)
{
    int64_t rest = total > h->known ? total - h->known : 0;
    if (rest != h->rest.size) {
        if (h->rest.size)
            tell_end(h, &h->rest);
        h->rest = (struct holding){.kind = HOLDING_REST, .size = rest};
        if (rest) {
            h->rest.address = address_nowhere(h, rest);
            tell_begin(h, &h->rest);
        }
    }
    int64_t sum = h->known + h->rest.size;
    h->most = sum > h->most ? sum : h->most;
}

void heap_apply(struct heap *h, const struct trace_row *e)
{
    switch (e->op) {
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
    case VS_OP_BLOCK_ALLOC:
        apply_begin(h, e);
        break;
    case VS_OP_FREE:
    case VS_OP_PHYS_RELEASE:
    case VS_OP_BLOCK_FREE:
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        apply_end(h, e);
        break;
    case VS_OP_FREE_FAILED:
        apply_failed(h, e);
        break;
    case VS_OP_MAP:
        apply_map(h, e);
        break;
    case VS_OP_UNMAP:
        if (!e->taken_back && e->size != UNKNOWN)
            remove_pieces(h, e->address, e->size, 0);
        break;
    case VS_OP_RECLASSIFY:
        apply_reclassify(h, e);
        break;
    default:
        break;
    }
    if (h->tell && trace_row_counts(e))
        fit_rest(h, e->framework + e->direct);
}

void heap_listen(struct heap *h, heap_tell *listener, void *context, int64_t total)
{
    size_t n;
    const struct holding **blocks = heap_blocks(h, HOLDING_REST, HEAP_BY_SEQ, &n);
    h->tell = listener;
    h->context = context;
    for (size_t i = 0; i < h->piece_count; i++)
        tell_piece(h, &h->pieces[i]);
    for (size_t i = 0; i < n; i++)
        tell_begin(h, blocks[i]);
    free(blocks);
    fit_rest(h, total);
}

void heap_follow(struct heap *h, heap_tell *listener, void *context)
{
    h->tell = listener;
    h->context = context;
    h->most = h->known > h->most ? h->known : h->most;
}
