/*
 * align.c - the shortest edit script between two sequences (Myers 1986): of edits D = 0, 1, 2 ... the
 * furthest place that each diagonal k = x - y can reach.  Runs of one program at two sizes differ in a few
 * elements, so D is small and the time near n.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

struct search {
    const uint64_t *a, *b;
    int64_t n, m;
    int32_t *reach[ALIGN_MOST + 1]; /* of D edits: the x of diagonals -D, -D + 2, ... D */
};

static int32_t get(const struct search *s, int d, int64_t k)
{
    return s->reach[d][(k + d) / 2];
}

/* Whether diagonal K is best reached from K + 1, by an element of B, in edit D. */
static bool comes_down(const struct search *s, int d, int64_t k)
{
    return k == -d || (k != d && get(s, d - 1, k - 1) < get(s, d - 1, k + 1));
}

static int64_t start_of(const struct search *s, int d, int64_t k)
{
    if (d == 0)
        return 0;
    return comes_down(s, d, k) ? get(s, d - 1, k + 1) : get(s, d - 1, k - 1) + 1;
}

/* The number of edits; -1: too many. */
static int search_forward(struct search *s)
{
    for (int d = 0; d <= ALIGN_MOST; d++) {
        s->reach[d] = xrealloc(NULL, (size_t)(d + 1) * sizeof **s->reach);
        for (int64_t k = -d; k <= d; k += 2) {
            int64_t x = start_of(s, d, k), y = x - k;
            while (x < s->n && y >= 0 && y < s->m && s->a[x] == s->b[y])
                x++, y++;
            s->reach[d][(k + d) / 2] = (int32_t)x;
            if (x >= s->n && y >= s->m)
                return d;
        }
    }
    return -1;
}

static void walk_back(const struct search *s, int d, uint32_t *out)
{
    int64_t x = s->n, k = s->n - s->m;
    for (; d >= 0; d--) {
        int64_t from = start_of(s, d, k);
        for (; x > from; x--)
            out[x - 1] = (uint32_t)(x - 1 - k);
        if (d > 0 && comes_down(s, d, k)) {
            k++;
        } else if (d > 0) {
            k--;
            x--;
        }
    }
}

bool align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, uint32_t *out)
{
    memset(out, 0xff, n * sizeof *out);
    if (n > INT32_MAX / 2 || m > INT32_MAX / 2)
        return false;
    struct search *s = xrealloc(NULL, sizeof *s);
    *s = (struct search){a, b, (int64_t)n, (int64_t)m, {NULL}};
    int d = search_forward(s);
    if (d >= 0)
        walk_back(s, d, out);
    for (int i = 0; i <= ALIGN_MOST; i++)
        free(s->reach[i]);
    free(s);
    return d >= 0;
}
