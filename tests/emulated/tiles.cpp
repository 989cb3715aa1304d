/*
 * tiles.cpp - how dinput's kernel deals tiles to clusters (product_tiles.cuh), by the very functions that
 * each block calls: all of k is computed once, parts do not overlap and lie in the room that there is, those
 * added up for a tile are its own, in the order of k.  Each part of a tile waits for another number of its
 * parts, and only for one of a cluster that begins first, or of an earlier turn of its own.
 */
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#define __device__
#include "product_tiles.cuh"

using namespace lce;

enum { HEIGHT = 256 };

struct Part {
    int32_t m, n, k_begin, k_end;
};

static int failures;

static void expect(bool right, const char *what, const lce_own_args &a)
{
    if (right || failures++ > 20)
        return;
    printf("%s: %d tokens, n %d, k %d, %d clusters, room for %d, groups of %d\n", what, a.tokens, a.n, a.k,
           a.clusters, a.room, a.group);
}

/* The places of parts, and how often each step of each tile is computed. */
template <int Width>
static std::map<int32_t, Part> deal(const lce_own_args &a, const OwnShape &s, std::vector<int> &steps)
{
    std::map<int32_t, Part> parts;
    for (int32_t cluster = 0; cluster < s.clusters; cluster++)
        for (int32_t turn = cluster; turn < s.turns; turn += s.clusters) {
            const OwnTile t = tile_of<HEIGHT, Width>(s, turn);
            expect(t.none == (t.k_begin >= t.k_end), "a part is empty, or none that has steps", a);
            if (t.none)
                continue;
            const int32_t down = t.m / HEIGHT, right = t.n / Width;
            expect(down < s.rows && right < s.columns && t.k_end <= s.k_steps, "beyond the product", a);
            for (int32_t k = t.k_begin; k < t.k_end; k++)
                steps[static_cast<size_t>((down * s.columns + right) * s.k_steps + k)]++;
            if (t.part < 0)
                continue;
            expect(t.part < a.room, "a part beyond the room", a);
            expect(parts.insert({t.part, {t.m, t.n, t.k_begin, t.k_end}}).second, "two parts in one place",
                   a);
        }
    return parts;
}

/* The order in which parts are added to sums in memory. */
template <int Width> static void check_order(const lce_own_args &a, const OwnShape &s)
{
    std::map<int32_t, std::map<int32_t, int32_t>> clusters; /* by tile, by how many parts are waited for */
    for (int32_t turn = s.whole; turn < s.turns; turn++) {
        const OwnTile t = tile_of<HEIGHT, Width>(s, turn);
        if (!t.none)
            expect(clusters[t.place].insert({t.waits, turn % s.clusters}).second,
                   "two parts wait for as many", a);
    }
    for (const auto &tile : clusters) {
        int32_t waits = 0, before = s.clusters;
        for (const auto &part : tile.second) {
            expect(part.first == waits++, "no part is added after so many", a);
            expect(part.second < before || parts_of(s) > 2, "a part waits for one that begins later", a);
            before = part.second;
        }
        expect(waits == parts_of(s), "another number of parts", a);
    }
}

/* What own_scatter adds up. */
template <int Width>
static void check_sums(const lce_own_args &a, const OwnShape &s, const std::map<int32_t, Part> &parts)
{
    for (int32_t m = 0; m < s.rows * HEIGHT; m += HEIGHT)
        for (int32_t n = 0; n < s.columns * Width; n += Width) {
            const int32_t place = place_of(s, m + HEIGHT - 1, n + Width - 1, HEIGHT, Width);
            int32_t k = 0;
            for (int32_t i = 0; place >= s.whole && i < parts_of(s); i++) {
                const auto part = parts.find(part_of_place(s, place, i));
                const bool there = part != parts.end();
                expect(there && part->second.m == m && part->second.n == n && part->second.k_begin == k,
                       "another tile's part, or out of order", a);
                k = there ? part->second.k_end : k;
            }
            expect(place < s.whole || k == s.k_steps, "the sum of a tile lacks its end", a);
        }
}

/* How its tiles are split: 0 not at all, 1 in whole stints, 2 in stints that give a part away. */
template <int Width> static int check(lce_own_args a)
{
    const OwnShape s = shape_of<false>(a, HEIGHT, Width);
    std::vector<int> steps(static_cast<size_t>(s.rows * s.columns * s.k_steps));
    if (a.room == LCE_TWO_PARTS) {
        expect(s.rest == 0 || parts_of(s) <= 2, "more than two parts", a);
        a.room = 2 * s.clusters;
    }
    const std::map<int32_t, Part> parts = deal<Width>(a, s, steps);
    for (const int times : steps)
        expect(times == 1, "a step is not computed once", a);
    check_sums<Width>(a, s, parts);
    check_order<Width>(a, s);
    return s.rest > 0 ? 1 + (s.batches > 0) : 0;
}

int main()
{
    int shapes = 0, helped = 0, whole = 0;
    srand(1);
    for (; shapes < 4000; shapes++) {
        lce_own_args a = {};
        a.tokens = rand() % 2049;
        a.n = 8 * (1 + rand() % 1024);
        a.k = 1 + rand() % (rand() % 4 ? 60000 : 5000);
        a.clusters = rand() % 3 ? 66 : 1 + rand() % 80;
        a.room = rand() % 3 ? 2 * a.clusters : rand() % 2 ? LCE_TWO_PARTS : rand() % (2 * a.clusters + 1);
        a.group = 1 + rand() % 8;
        const int split = shapes % 2 ? check<LCE_WIDE>(a) : check<LCE_NARROW>(a);
        helped += split == 2;
        whole += split == 1;
    }
    printf("%d shapes, stints that give a part away at %d, whole ones at %d: %d failures\n", shapes, helped,
           whole, failures);
    return failures || helped < 100 || whole < 100;
}
