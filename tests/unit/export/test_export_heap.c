/* test_export_heap.c - what is told of a device's memory fits itself: blocks lie in segments, add up to the
 * recording's totals after every event, and who goes through the changes comes to the segments at the end. */

#include "unit/test.h"
#include "export/heap.h"

#define MIB (INT64_C(1) << 20)

/* ---- a reader that believes what it is told ---- */

enum { MOST = 4096 };
struct span {
    int64_t address, size, stream;
};
static struct {
    struct span segments[MOST], blocks[MOST];
    size_t n_segments, n_blocks;
    int64_t allocated;
    int64_t plain; /* of segments, for who knows only those that are allocated and freed */
} seen;

static size_t find(const struct span *at, size_t n, int64_t address)
{
    for (size_t i = 0; i < n; i++)
        if (at[i].address == address)
            return i;
    return n;
}

static void remove_at(struct span *at, size_t *n, size_t i)
{
    assert_true(i < *n);
    at[i] = at[--*n];
}

static bool inside_segment(const struct span *b)
{
    for (size_t i = 0; i < seen.n_segments; i++) {
        const struct span *s = &seen.segments[i];
        if (s->address <= b->address && b->address + b->size <= s->address + s->size)
            return true;
    }
    return false;
}

/* Joins what is mapped with the neighbours of its stream. */
static void map_span(struct span s)
{
    for (size_t i = 0; i < seen.n_segments;) {
        struct span *other = &seen.segments[i];
        bool before = other->address + other->size == s.address, after = s.address + s.size == other->address;
        if (other->stream != s.stream || (!before && !after)) {
            i++;
            continue;
        }
        s.address = before ? other->address : s.address;
        s.size += other->size;
        remove_at(seen.segments, &seen.n_segments, i);
        i = 0;
    }
    seen.segments[seen.n_segments++] = s;
}

static void unmap_span(struct span s)
{
    for (size_t i = 0; i < seen.n_segments; i++) {
        struct span old = seen.segments[i];
        int64_t end = old.address + old.size;
        if (old.address > s.address || s.address + s.size > end)
            continue;
        remove_at(seen.segments, &seen.n_segments, i);
        if (old.address < s.address)
            seen.segments[seen.n_segments++] =
                (struct span){old.address, s.address - old.address, old.stream};
        if (s.address + s.size < end)
            seen.segments[seen.n_segments++] =
                (struct span){s.address + s.size, end - s.address - s.size, old.stream};
        return;
    }
    fail_msg("unmapped what is not mapped");
}

static void all_blocks_lie_in_segments(void)
{
    for (size_t i = 0; i < seen.n_blocks; i++)
        assert_true(inside_segment(&seen.blocks[i]));
}

static void hear(void *context, const struct heap_change *c)
{
    struct span s = {c->address, c->size, c->stream};
    assert_true(c->size > 0 && seen.n_segments < MOST - 2 && seen.n_blocks < MOST - 2);
    switch (c->action) {
    case HEAP_ALLOC:
        assert_true(inside_segment(&s));
        seen.blocks[seen.n_blocks++] = s;
        seen.allocated += s.size;
        break;
    case HEAP_FREE:
        remove_at(seen.blocks, &seen.n_blocks, find(seen.blocks, seen.n_blocks, s.address));
        seen.allocated -= s.size;
        break;
    case HEAP_SEGMENT_ALLOC:
        assert_int_equal(find(seen.segments, seen.n_segments, s.address), seen.n_segments);
        seen.segments[seen.n_segments++] = s;
        seen.plain += s.size;
        break;
    case HEAP_SEGMENT_FREE:
        remove_at(seen.segments, &seen.n_segments, find(seen.segments, seen.n_segments, s.address));
        seen.plain -= s.size;
        all_blocks_lie_in_segments();
        break;
    case HEAP_SEGMENT_MAP:
        map_span(s);
        break;
    case HEAP_SEGMENT_UNMAP:
        unmap_span(s);
        break;
    }
}

/* ---- events, and the totals after them ---- */

static struct heap heap;
static int64_t seq, framework, direct;

static struct trace_row *row(int op, int64_t address, int64_t size)
{
    static struct trace_row r;
    seq++;
    r = (struct trace_row){
        .seq = seq, .t = seq, .op = op, .address = address, .size = size, .space = VS_SPACE_DEVICE};
    return &r;
}

static int64_t apply(struct trace_row *r)
{
    r->framework = framework;
    r->direct = direct;
    heap_apply(&heap, r);
    if (heap.tell)
        assert_int_equal(seen.allocated, framework + direct);
    return r->seq;
}

static int64_t block(int64_t address, int64_t size)
{
    framework += size;
    return apply(row(VS_OP_BLOCK_ALLOC, address, size));
}

static void block_free(int64_t mate, int64_t size)
{
    struct trace_row *r = row(VS_OP_BLOCK_FREE, 0, size);
    framework -= size;
    r->mate = mate;
    apply(r);
}

static int64_t driver(int op, int64_t address, int64_t size, int managed)
{
    struct trace_row *r = row(op, address, size);
    direct += managed ? 0 : size;
    r->managed = managed;
    return apply(r);
}

static void end(int op, int64_t mate, int64_t size, bool counted)
{
    struct trace_row *r = row(op, 0, size);
    direct -= counted ? size : 0;
    r->mate = mate;
    apply(r);
}

static void map_at(int64_t phys, int64_t address, int64_t size)
{
    struct trace_row *r = row(VS_OP_MAP, address, size);
    r->mate = phys;
    apply(r);
}

static int start(void **state)
{
    memset(&seen, 0, sizeof seen);
    seq = framework = direct = 0;
    heap_init(&heap, 3);
    return 0;
}

static int finish(void **state)
{
    heap_free(&heap);
    return 0;
}

static void listen(void)
{
    heap_listen(&heap, hear, NULL, framework + direct);
    assert_int_equal(seen.allocated, framework + direct);
}

/* The state is what the reader has, and blocks and what is free between them fill each segment. */
static void state_is_what_was_told(void)
{
    struct heap_segment *segments;
    const struct holding **blocks;
    size_t n, live = 0;
    int64_t total = 0, last = -1;
    heap_state(&heap, &segments, &n, &blocks);
    assert_int_equal(n, seen.n_segments);
    for (size_t i = 0; i < n; i++) {
        size_t k = find(seen.segments, seen.n_segments, segments[i].address);
        assert_true(k < n && seen.segments[k].size == segments[i].size && segments[i].address > last);
        int64_t at = segments[i].address;
        for (size_t b = segments[i].first; b < segments[i].first + segments[i].count; b++) {
            assert_true(blocks[b]->address >= at);
            assert_true(find(seen.blocks, seen.n_blocks, blocks[b]->address) < seen.n_blocks);
            at = blocks[b]->address + blocks[b]->size;
        }
        assert_true(at <= segments[i].address + segments[i].size);
        last = segments[i].address;
        total += segments[i].size;
        live += segments[i].own ? 1 : segments[i].count;
    }
    assert_int_equal(live, seen.n_blocks);
    assert_int_equal(total, seen.plain);
    free(segments);
    free(blocks);
}

/* ---- the tests ---- */

TEST(blocks_lie_in_the_segment_that_was_carved, start, finish)
{
    listen();
    int64_t segment = driver(VS_OP_ALLOC, 0x10000000, 20 * MIB, 1);
    int64_t a = block(0x10000000, 3 * MIB), b = block(0x10000000 + 3 * MIB, 512);
    assert_int_equal(seen.n_segments, 1);
    state_is_what_was_told();
    block_free(a, 3 * MIB);
    block_free(b, 512);
    end(VS_OP_FREE, segment, 20 * MIB, false);
    assert_true(seen.n_segments == 0 && seen.n_blocks == 0);
    state_is_what_was_told();
}

TEST(memory_of_others_is_a_segment_of_its_own, start, finish)
{
    listen();
    int64_t a = driver(VS_OP_ALLOC, 0x20000000, 5 * MIB, 0);
    int64_t phys = driver(VS_OP_PHYS_CREATE, 0x55, 2 * MIB, 0),
            other = driver(VS_OP_PHYS_CREATE, 0x56, 2 * MIB, 0);
    assert_int_equal(seen.n_segments, 3); /* handles that lie side by side do not overlap as addresses */
    state_is_what_was_told();
    end(VS_OP_PHYS_RELEASE, phys, 2 * MIB, true);
    end(VS_OP_PHYS_FREED, other, 2 * MIB, true);
    end(VS_OP_FREE, a, 5 * MIB, true);
    assert_int_equal(seen.n_segments, 0);
}

TEST(pieces_that_are_mapped_side_by_side_are_one_segment, start, finish)
{
    int64_t base = 0x7000000000, piece[6];
    listen();
    for (int i = 0; i < 6; i++) {
        static const int order[] = {1, 2, 0, 5, 3, 4}; /* grows at both ends, and closes a gap */
        piece[order[i]] = driver(VS_OP_PHYS_CREATE, 100 + i, 20 * MIB, 1);
        map_at(piece[order[i]], base + order[i] * 20 * MIB, 20 * MIB);
        state_is_what_was_told();
    }
    assert_int_equal(seen.n_segments, 1);
    int64_t wide = block(base + 10 * MIB, 75 * MIB); /* over five pieces */
    state_is_what_was_told();
    block_free(wide, 75 * MIB);
    struct trace_row *r = row(VS_OP_UNMAP, base + 40 * MIB, 40 * MIB); /* two in the middle */
    r->device = -1;
    apply(r);
    assert_int_equal(seen.n_segments, 2);
    assert_int_equal(seen.plain, 80 * MIB);
    state_is_what_was_told();
}

TEST(what_was_taken_for_direct_becomes_a_segment, start, finish)
{
    listen();
    int64_t a = driver(VS_OP_ALLOC, 0x30000000, 20 * MIB, 0);
    struct trace_row *r = row(VS_OP_RECLASSIFY, 0x30000000, 20 * MIB);
    r->mate = a;
    direct -= 20 * MIB;
    apply(r);
    assert_true(seen.n_segments == 1 && seen.n_blocks == 0);
    block(0x30000000 + MIB, MIB);
    assert_int_equal(seen.n_segments, 1);
    state_is_what_was_told();
}

TEST(what_no_event_explains_is_the_rest, start, finish)
{
    framework = 7 * MIB; /* held before the recording */
    listen();
    assert_int_equal(seen.n_blocks, 1);
    int64_t a = block(0x40000000, MIB);
    framework -= 3 * MIB; /* frees of blocks that nobody saw made */
    apply(row(VS_OP_BLOCK_FREE, 0x99, 3 * MIB));
    assert_int_equal(heap.rest.size, 4 * MIB);
    block_free(a, MIB);
    framework = 0;
    apply(row(VS_OP_BLOCK_FREE, 0x98, 4 * MIB));
    assert_int_equal(seen.n_blocks, 0);
    assert_int_equal(heap.most, 8 * MIB);
}

TEST(a_free_that_failed_gives_the_bytes_back, start, finish)
{
    listen();
    int64_t a = driver(VS_OP_ALLOC, 0x50000000, MIB, 0);
    struct trace_row *r = row(VS_OP_FREE, 0x50000000, MIB);
    r->mate = a;
    r->taken_back = r->seq + 1;
    direct -= MIB;
    apply(r);
    r = row(VS_OP_FREE_FAILED, 0x50000000, MIB);
    direct += MIB;
    apply(r);
    assert_int_equal(heap.rest.size, 0);
    end(VS_OP_FREE, a, MIB, true);
    assert_int_equal(seen.n_segments, 0);
}

TEST(who_comes_later_is_told_what_lives, start, finish)
{
    driver(VS_OP_ALLOC, 0x10000000, 20 * MIB, 1);
    int64_t a = block(0x10000000, MIB);
    block(0x10000000 + MIB, MIB);
    driver(VS_OP_ALLOC, 0x20000000, MIB, 0);
    block_free(a, MIB);
    listen();
    assert_true(seen.n_segments == 2 && seen.n_blocks == 2);
    state_is_what_was_told();
}

TEST(blocks_outlive_a_segment_whose_free_came_too_early, start, finish)
{
    listen();
    int64_t segment = driver(VS_OP_ALLOC, 0x10000000, 20 * MIB, 1);
    int64_t a = block(0x10000000 + MIB, MIB);
    end(VS_OP_FREE, segment, 20 * MIB, false);
    assert_true(seen.n_segments == 1 && seen.n_blocks == 1);
    state_is_what_was_told();
    block_free(a, MIB);
    assert_int_equal(seen.n_segments, 0);
}

/* Sizes and addresses of a damaged file: whatever they are, what is told fits itself. */
TEST(nothing_that_a_file_may_say_breaks_it, start, finish)
{
    static const int ops[] = {VS_OP_ALLOC,        VS_OP_FREE,       VS_OP_PHYS_CREATE, VS_OP_PHYS_RELEASE,
                              VS_OP_MAP,          VS_OP_UNMAP,      VS_OP_BLOCK_ALLOC, VS_OP_BLOCK_FREE,
                              VS_OP_RECLASSIFY,   VS_OP_PHYS_FREED, VS_OP_FREE_FAILED, VS_OP_BLOCK_ALLOC,
                              VS_OP_CONTEXT_FREED};
    uint32_t dice = 11;
    heap_listen(&heap, hear, NULL, 0);
    for (int i = 0; i < 6000; i++) {
        int64_t v[4];
        for (int k = 0; k < 4; k++) {
            dice = dice * 1664525 + 1013904223;
            v[k] = dice >> 10;
        }
        struct trace_row *r =
            row(ops[v[0] % (int64_t)(sizeof ops / sizeof *ops)], v[1] % 64 * MIB + MIB, v[2] % 5 * MIB);
        r->managed = (int)(v[3] % 3);
        r->mate = seq - v[3] % 40;
        r->taken_back = v[2] % 7 == 0 ? seq + v[2] % 3 : 0;
        r->framework = heap.known;
        heap_apply(&heap, r);
        assert_true(seen.allocated >= heap.known);
    }
}
