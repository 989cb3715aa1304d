/* answers.c - makes, replays and measures changes, several at a time (answers.h). */
#include "answers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MOST  8
#define ONE_AT_A_TIME (UINT64_C(1) << 21) /* events from which memory counts for more than time */

struct work {
    const struct program *from;
    const struct edits_question *q;
    struct answered *rows;
    size_t count, next;
    pthread_mutex_t lock;
};

/* ---- between which figures an answer lies ---- */

/* The ends of an interval, which an edited order may turn round, and one part of so many beyond each. */
static void order_two(uint64_t *a, uint64_t *b, int part)
{
    uint64_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = part ? low - low / (uint64_t)part : low;
    *b = part ? high + high / (uint64_t)part : high;
}

/* No allocator reserves less than is allocated. */
static void hold_reserved(const uint64_t *allocated, uint64_t *reserved)
{
    *reserved = *reserved < *allocated ? *allocated : *reserved;
}

/* Puts the lower figures into LOW and the higher ones into HIGH.  PART: reserved may be off by one part of so
 * many (edit_reserved_part), allocated by another (edit_allocated_part); 0: neither is. */
static void ends_about(struct answer *low, struct answer *high, int part)
{
    for (int p = 0; p < FEED_POLICIES; p++) {
        struct answer_policy *a = &low->of[p], *b = &high->of[p];
        if (!a->wanted)
            continue;
        order_two(&a->peak.allocated, &b->peak.allocated, edit_allocated_part(part));
        order_two(&a->peak.reserved, &b->peak.reserved, part && p == FEED_LIVE ? 100 : part);
        hold_reserved(&a->peak.allocated, &a->peak.reserved);
        for (size_t i = 0; i < low->phases; i++) {
            order_two(&a->phase_allocated[i], &b->phase_allocated[i], edit_allocated_part(part));
            order_two(&a->phase_reserved[i], &b->phase_reserved[i], part && p == FEED_LIVE ? 100 : part);
            hold_reserved(&a->phase_allocated[i], &a->phase_reserved[i]);
        }
    }
}

/* ---- the rows ---- */

static char *name_of(const struct edit *edits, size_t n)
{
    char *name = xstrdup(edits[0].text);
    for (size_t i = 1; i < n; i++) {
        char *longer = xformat("%s %s", name, edits[i].text);
        free(name);
        name = longer;
    }
    return name;
}

static struct answered row_of(const struct edit *edits, size_t n)
{
    struct edit *own = xrealloc(NULL, n * sizeof *own);
    memcpy(own, edits, n * sizeof *own);
    return (struct answered){.edits = own, .edit_count = n, .name = name_of(edits, n)};
}

struct answered *answered_rows(const struct arg_list *names, size_t *n)
{
    struct answered *rows = NULL;
    size_t count;
    *n = 0;
    *PUSH(rows, *n) = (struct answered){.name = xstrdup("as recorded")};
    if (!names->count) {
        const struct edit *all = edit_all(&count);
        for (size_t i = 0; i < count; i++)
            *PUSH(rows, *n) = row_of(&all[i], 1);
        return rows;
    }
    struct edit *own = xrealloc(NULL, names->count * sizeof *own);
    char *why;
    for (size_t i = 0; i < names->count; i++)
        edit_parse(names->values[i], &own[i], &why);
    *PUSH(rows, *n) = row_of(own, names->count);
    free(own);
    return rows;
}

/* ---- working it out ---- */

/* PART: of the capacity, that much more than it is there. */
static void fit(const struct work *w, struct answer *a, const struct program *p, int64_t part)
{
    struct torch_settings settings = *w->q->settings;
    if (settings.capacity == UINT64_MAX)
        return;
    if (part)
        settings.capacity = (uint64_t)((int64_t)settings.capacity + (int64_t)settings.capacity / part);
    answer_fit(a, p, &settings);
}

static void work_out(const struct work *w, struct answered *row)
{
    struct torch_settings endless = *w->q->settings;
    endless.capacity = UINT64_MAX;
    const struct edit **edits = xrealloc(NULL, (row->edit_count + 1) * sizeof *edits);
    for (size_t i = 0; i < row->edit_count; i++)
        edits[i] = &row->edits[i];
    struct edit_result r = edit_apply_all(w->from, edits, row->edit_count);
    row->why = r.why ? xstrdup(r.why) : NULL;
    row->nothing = r.nothing;
    if (!row->why) {
        const struct program *low = row->edit_count ? &r.low : w->from;
        row->assumes = xstrdup(r.assumes);
        row->cost = xstrdup(r.costs);
        const struct program *high = r.high.event_count ? &r.high : low;
        row->low = answer_of(low, &endless, w->q->wanted);
        row->high = high == low ? answer_copy(&row->low) : answer_of(high, &endless, w->q->wanted);
        fit(w, &row->low, low, edit_reserved_part(&r));
        fit(w, &row->high, high, -edit_reserved_part(&r));
    }
    if (!row->why)
        ends_about(&row->low, &row->high, edit_reserved_part(&r));
    edit_free_result(&r);
    free(edits);
}

static void *worker(void *context)
{
    struct work *w = context;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        size_t i = w->next++;
        pthread_mutex_unlock(&w->lock);
        if (i >= w->count)
            return NULL;
        work_out(w, &w->rows[i]);
    }
}

void answered_work(const struct program *from, const struct edits_question *q, struct answered *rows,
                   size_t n)
{
    struct work work = {.from = from, .q = q, .rows = rows, .count = n}, *w = &work;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : processors > THREADS_MOST ? THREADS_MOST : (size_t)processors;
    pthread_t threads[THREADS_MOST];
    size_t started = 0;
    if (w->from->event_count >= ONE_AT_A_TIME)
        most = 1;
    pthread_mutex_init(&w->lock, NULL);
    while (started + 1 < most && pthread_create(&threads[started], NULL, worker, w) == 0)
        started++;
    worker(w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w->lock);
}

void answered_free(struct answered *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        answer_free(&rows[i].high);
        answer_free(&rows[i].low);
        free(rows[i].edits);
        free(rows[i].name);
        free(rows[i].why);
        free(rows[i].assumes);
        free(rows[i].cost);
    }
    free(rows);
}

/* ---- figures ---- */

uint64_t answered_allocated(const struct answer *a)
{
    return a->of[FEED_LIVE].peak.allocated;
}

void answered_ends(uint64_t a, uint64_t b, int64_t *low, int64_t *high)
{
    *low = (int64_t)(a < b ? a : b);
    *high = (int64_t)(a < b ? b : a);
}

const char *answered_phase(const struct program *p, uint16_t phase)
{
    const char *name = phase && phase < p->facts->phase_count ? p->facts->phase_names[phase] : NULL;
    return name ? name : "no phase";
}

int64_t answered_reserved(const struct answered *row, enum feed_policy policy)
{
    int64_t low, high;
    answered_ends(row->low.of[policy].peak.reserved, row->high.of[policy].peak.reserved, &low, &high);
    return high;
}

int64_t answered_saves(const struct answered *base, const struct answered *row)
{
    int64_t low, high;
    answered_ends(answered_allocated(&row->low), answered_allocated(&row->high), &low, &high);
    return (int64_t)answered_allocated(&base->low) - high;
}

enum fit answered_fit(const struct answered *row, int policy)
{
    bool low = !row->low.of[policy].ran_out, high = !row->high.of[policy].ran_out;
    return low && high ? FIT_YES : low || high ? FIT_PERHAPS : FIT_NO;
}

const struct answer_policy *answered_out(const struct answered *row, int policy)
{
    return row->high.of[policy].ran_out  ? &row->high.of[policy]
           : row->low.of[policy].ran_out ? &row->low.of[policy]
                                         : NULL;
}
