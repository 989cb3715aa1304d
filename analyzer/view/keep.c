/*
 * keep.c - which blocks go into the page (levels.h). Blocks take their places in the order of their sizes, in
 * the tiles that they lived in.  A list says of each full tile which is the next that is not full, so a row
 * costs as much as it has blocks and places.
 */
#include "levels.h"

#include <stdlib.h>
#include <string.h>

static const struct trace_block *sorted; /* for qsort: what the indices stand for */

static int largest_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted[x].size != sorted[y].size)
        return sorted[x].size > sorted[y].size ? -1 : 1;
    return (x > y) - (x < y);
}

static uint32_t *order_of(const struct trace_block *blocks, size_t n)
{
    uint32_t *order = xrealloc(NULL, n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    sorted = blocks;
    qsort(order, n, sizeof *order, largest_first);
    return order;
}

struct row {
    size_t tiles, full, largest;
    int64_t width;
    uint32_t *next; /* of each tile: itself, or one beyond it; behind the last one there is always one more */
    uint32_t *taken;
};

static struct row row_begin(size_t tiles, int64_t last, size_t largest)
{
    struct row r = {tiles, 0, largest, last / (int64_t)tiles + 1, NULL, NULL};
    r.next = xrealloc(NULL, (tiles + 1) * sizeof *r.next);
    r.taken = xrealloc(NULL, tiles * sizeof *r.taken);
    memset(r.taken, 0, tiles * sizeof *r.taken);
    for (size_t i = 0; i <= tiles; i++)
        r.next[i] = (uint32_t)i;
    return r;
}

static void row_end(struct row *r)
{
    free(r->next);
    free(r->taken);
}

static uint32_t open_tile(struct row *r, uint32_t tile)
{
    uint32_t found = tile;
    while (r->next[found] != found)
        found = r->next[found];
    while (r->next[tile] != found && tile != found) {
        uint32_t after = r->next[tile];
        r->next[tile] = found;
        tile = after;
    }
    return found;
}

/* Whether B gets a place in any tile that it lived in. */
static bool take(struct row *r, const struct trace_block *b)
{
    size_t first = (size_t)(b->born / r->width),
           end = b->died == UNKNOWN ? r->tiles - 1 : (size_t)(b->died / r->width);
    bool taken = false;
    if (first >= r->tiles)
        return false;
    end = end < r->tiles ? end : r->tiles - 1;
    for (uint32_t i = open_tile(r, (uint32_t)first); i <= end; i = open_tile(r, i + 1)) {
        taken = true;
        if (++r->taken[i] == r->largest) {
            r->next[i] = i + 1;
            r->full++;
        }
    }
    return taken;
}

/* One row more, if that leaves at most MOST blocks. */
static bool keep_row(struct view_kept *k, const struct trace_block *blocks, const uint32_t *order, size_t n,
                     struct row *r, size_t most)
{
    bool *kept = xrealloc(NULL, n);
    size_t count = k->count;
    memcpy(kept, k->kept, n);
    for (size_t i = 0; i < n && r->full < r->tiles && count <= most; i++)
        if (take(r, &blocks[order[i]]) && !kept[order[i]]) {
            kept[order[i]] = true;
            count++;
        }
    if (count > most) {
        free(kept);
        return false;
    }
    free(k->kept);
    k->kept = kept;
    k->count = count;
    k->tile = r->width;
    return true;
}

struct view_kept view_keep(const struct trace_block *blocks, size_t n, int64_t last, size_t largest,
                           size_t most)
{
    struct view_kept k = {.kept = xrealloc(NULL, n + 1), .tile = UNKNOWN};
    memset(k.kept, n <= most, n + 1);
    if (n <= most) {
        k.count = n;
        k.all = true;
        k.tile = 0;
        return k;
    }
    uint32_t *order = order_of(blocks, n);
    bool more = true;
    for (size_t tiles = 1; more && tiles <= (size_t)1 << 24 && last / (int64_t)tiles > 0; tiles *= 2) {
        struct row r = row_begin(tiles, last, largest);
        more = keep_row(&k, blocks, order, n, &r, most);
        row_end(&r);
    }
    for (size_t i = 0; k.tile == UNKNOWN && i < most; i++)
        k.kept[order[i]] = true;
    k.count = k.tile == UNKNOWN ? most : k.count;
    free(order);
    return k;
}

void view_keep_moment(struct view_kept *k, const struct trace_block *blocks, size_t n, int64_t moment,
                      size_t most)
{
    uint32_t *alive = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (!k->kept[i] && blocks[i].born <= moment && (blocks[i].died == UNKNOWN || blocks[i].died > moment))
            *PUSH(alive, count) = (uint32_t)i;
    sorted = blocks;
    if (count)
        qsort(alive, count, sizeof *alive, largest_first);
    for (size_t i = 0; i < count && k->count < most; i++, k->count++)
        k->kept[alive[i]] = true;
    free(alive);
}

void view_free_kept(struct view_kept *k)
{
    free(k->kept);
    *k = (struct view_kept){0};
}
