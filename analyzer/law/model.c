/*
 * model.c - finds which block of one run is which of another, and a law for each (model.h). Layers are alike:
 * of blocks with the same sizes in every run one law is fitted.
 */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MOST 0x1p46 /* no device has it; sums stay within 64 bits */

/* ---- which block is which ---- */

/* Section by section (runs.h), so that a difference in one step cannot shift another. */
static bool align_run(const struct law_run *a, const struct law_run *b, uint32_t *out)
{
    size_t from_a = 0, from_b = 0, most = a->tape.ids > b->tape.ids ? a->tape.ids : b->tape.ids;
    uint64_t *keys = xrealloc(NULL, (2 * most + 1) * sizeof *keys);
    bool good = true;
    for (size_t s = 0; s < a->steps && good; s++) {
        size_t n = a->ends[s] - from_a, m = b->ends[s] - from_b;
        for (size_t i = 0; i < n; i++)
            keys[i] = a->blocks[from_a + i].key;
        for (size_t i = 0; i < m; i++)
            keys[most + i] = b->blocks[from_b + i].key;
        good = align(keys, n, keys + most, m, out + from_a);
        for (size_t i = 0; i < n && good; i++)
            if (out[from_a + i] != ALIGN_NONE)
                out[from_a + i] += (uint32_t)from_b;
        from_a = a->ends[s];
        from_b = b->ends[s];
    }
    free(keys);
    return good;
}

/* Whether at least half of the blocks of either run are in the other. */
static bool alike(const struct law_run *a, const struct law_run *b, const uint32_t *found)
{
    size_t n = 0, most = a->tape.ids > b->tape.ids ? a->tape.ids : b->tape.ids;
    for (size_t i = 0; i < a->tape.ids; i++)
        n += found[i] != ALIGN_NONE;
    return n * 2 >= most;
}

static void count_missing(struct law_model *m, const struct law_run *run, const uint32_t *found)
{
    uint64_t bytes = 0;
    size_t n = 0, next = 0;
    for (size_t i = 0; i < run->tape.ids; i++) {
        while (next < m->base->tape.ids && (found[next] == ALIGN_NONE || found[next] < i))
            next++;
        if (next < m->base->tape.ids && found[next] == i)
            continue;
        bytes += run->blocks[i].size;
        n++;
    }
    if (n > m->missing)
        m->missing = n;
    if (bytes > m->missing_bytes)
        m->missing_bytes = bytes;
}

static int align_all(struct law_model *m, uint32_t **found)
{
    const struct law_runs *runs = m->runs;
    for (size_t r = 0; r < runs->n; r++) {
        found[r] = xrealloc(NULL, (m->base->tape.ids + 1) * sizeof **found);
        if (!align_run(m->base, &runs->at[r], found[r]) || !alike(m->base, &runs->at[r], found[r]))
            return complain("whatif: %s and %s are not of one program: their blocks have no counterparts",
                            m->base->path, runs->at[r].path);
        count_missing(m, &runs->at[r], found[r]);
        for (size_t i = 0; i < m->base->tape.ids; i++)
            m->places[i] += found[r][i] != ALIGN_NONE;
    }
    return 0;
}

/* ---- laws ---- */

static int by_sizes(const void *a, const void *b, void *context)
{
    const struct law_row *rows = context;
    const struct law_row *x = &rows[*(const uint32_t *)a], *y = &rows[*(const uint32_t *)b];
    int order = memcmp(x->sizes, y->sizes, sizeof x->sizes);
    return order ? order : (x->asked > y->asked) - (x->asked < y->asked);
}

static size_t samples_of(const struct law_model *m, const struct law_row *row, struct law_sample *out)
{
    const struct law_runs *runs = m->runs;
    size_t n = 0;
    for (size_t i = 0; i <= runs->n; i++) { /* the largest run last */
        size_t r = i == runs->n ? runs->largest : i;
        const struct law_run *run = &runs->at[r];
        if (!row->sizes[r] || (i < runs->n && r == runs->largest))
            continue;
        uint64_t over = LAW_ROUND - 1;
        if (!run->requests && !(row->asked >> r & 1) && row->sizes[r] > LAW_UNSPLIT)
            over += LAW_UNSPLIT;
        out[n++] = (struct law_sample){{run->batch, run->seq}, row->sizes[r], over};
    }
    return n;
}

struct known {
    struct law law;
    size_t blocks;
};

static int by_blocks(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    return (x->blocks < y->blocks) - (x->blocks > y->blocks);
}

/* Laws that need no doubt, the most frequent first. */
static struct law *known_laws(const struct law_model *m, size_t *n)
{
    struct known *known = NULL;
    struct law *laws = NULL;
    size_t count = 0;
    for (size_t i = 0; i < m->law_count; i++)
        if (m->laws[i].trust == LAW_EXACT && !m->laws[i].from)
            *PUSH(known, count) = (struct known){m->laws[i], m->blocks_of[i]};
    if (count)
        qsort(known, count, sizeof *known, by_blocks);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        *PUSH(laws, *n) = known[i].law;
    free(known);
    return laws;
}

static void fit_rows(struct law_model *m, const struct law_row *rows, const uint32_t *order)
{
    const struct law_row *before = NULL;
    size_t n = 0;
    struct law_sample samples[LAW_RUNS_MOST];
    for (size_t i = 0; i < m->base->tape.ids; i++) {
        const struct law_row *row = &rows[order[i]];
        if (!before || before->asked != row->asked || memcmp(before->sizes, row->sizes, sizeof row->sizes)) {
            *PUSH(m->rows, n) = *row;
            n--;
            *PUSH(m->blocks_of, n) = 0;
            n--;
            *PUSH(m->laws, n) = law_fit(samples, samples_of(m, row, samples), NULL, 0);
        }
        before = row;
        m->law_of[order[i]] = (uint32_t)(n - 1);
        m->blocks_of[n - 1]++;
    }
    m->law_count = n;
    size_t known_count;
    struct law *known = known_laws(m, &known_count);
    for (size_t i = 0; i < n; i++)
        if (m->laws[i].trust != LAW_EXACT)
            m->laws[i] = law_fit(samples, samples_of(m, &m->rows[i], samples), known, known_count);
    free(known);
}

static void fit_all(struct law_model *m, uint32_t **found)
{
    size_t n = m->base->tape.ids;
    struct law_row *rows = xrealloc(NULL, (n + 1) * sizeof *rows);
    uint32_t *order = xrealloc(NULL, (n + 1) * sizeof *order);
    memset(rows, 0, (n + 1) * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        order[i] = rows[i].block = (uint32_t)i;
        for (size_t r = 0; r < m->runs->n; r++)
            if (found[r][i] != ALIGN_NONE) {
                const struct law_block *b = &m->runs->at[r].blocks[found[r][i]];
                rows[i].sizes[r] = b->size;
                rows[i].asked |= (uint32_t)b->asked << r;
            }
    }
    qsort_r(order, n, sizeof *order, by_sizes, rows);
    fit_rows(m, rows, order);
    for (size_t i = 0; i < n; i++) {
        m->by_trust[m->laws[m->law_of[i]].trust]++;
        m->switching += m->laws[m->law_of[i]].from > 0;
        m->some += m->places[i] < m->runs->n;
    }
    free(rows);
    free(order);
}

/* Whether every block has the same size in runs A and B. */
static bool same_sizes(const struct law_model *m, size_t a, size_t b)
{
    for (size_t i = 0; i < m->law_count; i++)
        if (m->rows[i].sizes[a] != m->rows[i].sizes[b])
            return false;
    return true;
}

/* If runs at different sizes have the same blocks no law says anything.  Then they were not at these sizes,
 * or the program's memory does not depend on them (it pads to one length, say). */
static int check_sizes(const struct law_model *m)
{
    const struct law_run *runs = m->runs->at;
    for (size_t a = 0; a < m->runs->n; a++)
        for (size_t b = a + 1; b < m->runs->n; b++)
            if ((runs[a].batch != runs[b].batch || runs[a].seq != runs[b].seq) && same_sizes(m, a, b))
                return complain(
                    "whatif: %s and %s have blocks of the same sizes, though one is said to be of "
                    "batch=%" PRId64 ",seq=%" PRId64 " and one of batch=%" PRId64 ",seq=%" PRId64
                    ": give each the sizes that it was recorded at; if they are right, the program's memory "
                    "does not depend on them",
                    runs[a].path, runs[b].path, runs[a].batch, runs[a].seq, runs[b].batch, runs[b].seq);
    return 0;
}

static uint64_t unit_of(const struct law_runs *runs)
{
    for (size_t r = 0; r < runs->n; r++)
        for (size_t i = 0; i < runs->at[r].tape.ids; i++)
            if (runs->at[r].blocks[i].size % LAW_ROUND)
                return 1;
    return LAW_ROUND;
}

/* Sizes of blocks are rounded, too: at another size a law gives one that is not. */
static struct torch_settings settings_of(const struct trace_tape *tape)
{
    struct torch_settings s;
    replay_settings(tape, &s);
    s.roundup = tape->roundup > 0 ? (uint32_t)tape->roundup : 0;
    s.gc_threshold = 0;
    return s;
}

/* Of recordings under a limit the device's memory; the capacity is the limit then.  An expandable segment has
 * addresses for the whole device, and not for the limit alone, so free memory at its start is taken less
 * often.  0: of other recordings, whose capacity is the device's. */
static uint64_t memory_of(const struct law_runs *runs)
{
    const struct trace_device *device = trace_find_device(&runs->at[runs->largest].t, runs->device);
    bool limited = replay_last_limit(&runs->at[runs->largest].tape, device) != UNKNOWN;
    return limited && device && device->total_bytes > 0 ? (uint64_t)device->total_bytes : 0;
}

int law_model(struct law_model *m, const struct law_runs *runs)
{
    uint32_t *found[LAW_RUNS_MOST] = {NULL};
    *m = (struct law_model){.runs = runs, .base = &runs->at[runs->largest]};
    m->law_of = xrealloc(NULL, (m->base->tape.ids + 1) * sizeof *m->law_of);
    m->places = xrealloc(NULL, (m->base->tape.ids + 1) * sizeof *m->places);
    memset(m->places, 0, (m->base->tape.ids + 1) * sizeof *m->places);
    m->unit = unit_of(runs);
    m->settings = settings_of(&m->base->tape);
    m->settings.memory = memory_of(runs);
    int bad = align_all(m, found);
    if (!bad) {
        fit_all(m, found);
        bad = check_sizes(m);
        m->work = m->base->tape;
        m->work.at = xrealloc(NULL, (m->work.n + 1) * sizeof *m->work.at);
        memcpy(m->work.at, m->base->tape.at, m->work.n * sizeof *m->work.at);
    }
    for (size_t r = 0; r < runs->n; r++)
        free(found[r]);
    return bad;
}

void law_free_model(struct law_model *m)
{
    free(m->law_of);
    free(m->laws);
    free(m->rows);
    free(m->blocks_of);
    free(m->places);
    free(m->work.at);
    *m = (struct law_model){0};
}

/* ---- at a size ---- */

static uint64_t round_up(double bytes, uint64_t unit)
{
    bytes = bytes < BLOCK_MOST ? bytes : BLOCK_MOST;
    uint64_t whole = (uint64_t)ceil(bytes - 1e-6 * (bytes < 1e6 ? 1 : bytes / 1e6));
    return whole < 1 ? unit : (whole + unit - 1) / unit * unit;
}

/* Bytes of a block of LAW at AT: what it says, or towards the end LEAN of what is not known of it. */
static double leaning(const struct law *law, struct law_point at, double lean)
{
    double bytes = lean < 0 ? law_bytes_least(law, at.batch, at.seq) : law_bytes(law, at.batch, at.seq);
    if (law->trust != LAW_NONE || lean == 0)
        return bytes;
    return (1 + ((lean < 0 ? law->least : law->most) - 1) * fabs(lean)) * bytes;
}

static void set_sizes(struct law_model *m, struct law_point at)
{
    uint64_t *sizes = xrealloc(NULL, (m->law_count + 1) * sizeof *sizes);
    for (size_t i = 0; i < m->law_count; i++)
        sizes[i] = round_up(leaning(&m->laws[i], at, m->in_turn && i % 2 ? -m->lean : m->lean), m->unit);
    for (size_t i = 0; i < m->work.n; i++)
        if (m->work.at[i].what == TAPE_ALLOC || m->work.at[i].what == TAPE_FREE)
            m->work.at[i].size = sizes[m->law_of[m->work.at[i].id]];
    free(sizes);
}

struct law_answer law_play(struct law_model *m, struct law_point at, enum feed_policy policy,
                           uint64_t capacity)
{
    struct torch_settings s = m->settings;
    struct replay_result r;
    set_sizes(m, at);
    s.expandable = policy == FEED_EXPANDABLE;
    s.capacity = capacity ? capacity : UINT64_MAX;
    if (policy == FEED_LIVE)
        replay_live(&m->work, capacity, &r);
    else if (policy == FEED_ARENA)
        replay_arena(&m->work, capacity, &r);
    else
        replay_torch(&m->work, &s, false, &r);
    uint64_t allocated = policy == FEED_LIVE ? r.reserved : r.blocks_most;
    return (struct law_answer){r.reserved, allocated, r.retries, !r.ran_out};
}

struct law_span law_play_span(struct law_model *m, struct law_point at, enum feed_policy policy)
{
    uint64_t bytes = law_play(m, at, policy, 0).bytes;
    struct law_span span = {bytes, bytes};
    static const struct {
        double lean;
        bool in_turn;
    } tried[] = {{-1, false}, {1, false}, {-0.5, false}, {0.5, false}, {-1, true}, {1, true}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried && (m->by_trust[LAW_NONE] || m->switching); i++) {
        m->lean = tried[i].lean;
        m->in_turn = tried[i].in_turn;
        bytes = law_play(m, at, policy, 0).bytes; /* an allocator may hold less of larger blocks */
        span.least = bytes < span.least ? bytes : span.least;
        span.most = bytes > span.most ? bytes : span.most;
    }
    m->lean = 0;
    m->in_turn = false;
    return span;
}
