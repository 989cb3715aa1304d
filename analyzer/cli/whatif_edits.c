/*
 * whatif_edits.c - `vramscope whatif`: what the recorded program would take if it were changed (edit/).
 *
 * Without --edit each change is tried alone; with it those that are named, one after the other.  Every change
 * is another program, and independent of the others: as many are worked out at a time as there are
 * processors, where memory allows it.
 */
#include "whatif_edits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "edit/answer.h"
#include "whatif_ends.h"

#define THREADS_MOST  8
#define ONE_AT_A_TIME (UINT64_C(1) << 21) /* events from which memory counts for more than time */

const char *const feed_policy_names[FEED_POLICIES] = {"live", "torch-native", "torch-expandable", "arena"};

struct answered {
    struct edit *edits; /* owned */
    size_t edit_count;
    char *name, *why, *assumes, *cost;
    bool nothing;
    struct answer low, high;
};

struct work {
    const struct program *from;
    const struct edits_question *q;
    struct answered *rows;
    size_t count, next;
    pthread_mutex_t lock;
};

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

/* As answered for one rank: those of the other. */
static void add_others(const struct work *w, struct answered *row, const struct torch_settings *endless)
{
    struct edit *others = xrealloc(NULL, (row->edit_count + 1) * sizeof *others);
    const struct edit **edits = xrealloc(NULL, (row->edit_count + 1) * sizeof *edits);
    struct edit_result r = {.why = NULL};
    bool any = false;
    for (size_t i = 0; i < row->edit_count; i++) {
        others[i] = row->edits[i];
        others[i].other = edit_has_other(&others[i]);
        any = any || others[i].other;
        edits[i] = &others[i];
    }
    if (any)
        r = edit_apply_all(w->from, edits, row->edit_count);
    const struct program *programs[] = {&r.low, &r.high};
    for (size_t i = 0; i < 2; i++)
        if (programs[i]->event_count) {
            struct answer more = answer_of(programs[i], endless, w->q->wanted);
            fit(w, &more, programs[i], r.about ? -ENDS_ABOUT_RESERVED : 0);
            ends_widen(&row->low, &row->high, &more);
            answer_free(&more);
        }
    edit_free_result(&r);
    free(others);
    free(edits);
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
        row->high = answer_of(high, &endless, w->q->wanted);
        fit(w, &row->low, low, r.about ? ENDS_ABOUT_RESERVED : 0);
        fit(w, &row->high, high, r.about ? -ENDS_ABOUT_RESERVED : 0);
        add_others(w, row, &endless);
        ends_about(&row->low, &row->high, r.about);
    }
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

static void work_all(struct work *w)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = processors < 1 ? 1 : processors > THREADS_MOST ? THREADS_MOST : (size_t)processors;
    pthread_t threads[THREADS_MOST];
    size_t started = 0;
    if (w->from->event_count >= ONE_AT_A_TIME)
        n = 1;
    pthread_mutex_init(&w->lock, NULL);
    while (started + 1 < n && pthread_create(&threads[started], NULL, worker, w) == 0)
        started++;
    worker(w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w->lock);
}

/* ---- figures ---- */

static uint64_t allocated(const struct answer *a)
{
    return a->of[FEED_LIVE].peak.allocated;
}

/* Between them is what a change can mean; an edited order may turn its ends round. */
static void ends(uint64_t a, uint64_t b, int64_t *low, int64_t *high)
{
    *low = (int64_t)(a < b ? a : b);
    *high = (int64_t)(a < b ? b : a);
}

static char *between(uint64_t a, uint64_t b, bool exact)
{
    int64_t low, high;
    ends(a, b, &low, &high);
    struct text from = units_bytes(low, exact), to = units_bytes(high, exact);
    if (!strcmp(from.s, to.s))
        return xstrdup(to.s);
    char *unit = strchr(from.s, ' '), *other = strchr(to.s, ' ');
    if (unit && other && !strcmp(unit, other)) /* once for both */
        *unit = '\0';
    return xformat("%s to %s", from.s, to.s);
}

static const char *phase_name(const struct program *p, uint16_t phase)
{
    const char *name = phase && phase < p->facts->phase_count ? p->facts->phase_names[phase] : NULL;
    return name ? name : "no phase";
}

/* What the change saves for certain. */
static int64_t saves(const struct answered *base, const struct answered *row)
{
    int64_t low, high;
    ends(allocated(&row->low), allocated(&row->high), &low, &high);
    return (int64_t)allocated(&base->low) - high;
}

static int by_savings(const void *a, const void *b, void *base)
{
    int64_t x = saves(base, a), y = saves(base, b);
    return x < y   ? 1
           : x > y ? -1
                   : strcmp(((const struct answered *)a)->name, ((const struct answered *)b)->name);
}

/* ---- what fits ---- */

enum fit { FIT_NO, FIT_PERHAPS, FIT_YES };

static bool limited(const struct edits_question *q)
{
    return q->settings->capacity != UINT64_MAX;
}

static enum fit fit_of(const struct answered *row, int policy)
{
    bool low = !row->low.of[policy].ran_out, high = !row->high.of[policy].ran_out;
    return low && high ? FIT_YES : low || high ? FIT_PERHAPS : FIT_NO;
}

/* Whether what the others are compared by is all that was asked about. */
static bool live_alone(const struct edits_question *q)
{
    return !q->wanted[FEED_NATIVE] && !q->wanted[FEED_EXPANDABLE] && !q->wanted[FEED_ARENA];
}

/* "yes", "no", "perhaps", or the allocators that have enough: "native perhaps, arena".  The caller frees it.
 */
static char *fit_text(const struct edits_question *q, const struct answered *row)
{
    static const char *const words[] = {"no", "perhaps", "yes"}, *const names[FEED_POLICIES] = {
                                                                     "live", "native", "expandable", "arena"};
    size_t count[FIT_YES + 1] = {0}, asked = 0;
    char *text = xstrdup("");
    for (int p = live_alone(q) ? FEED_LIVE : FEED_NATIVE; p < FEED_POLICIES; p++) {
        if (!q->wanted[p])
            continue;
        enum fit fit = fit_of(row, p);
        count[fit]++;
        asked++;
        if (fit == FIT_NO)
            continue;
        char *longer =
            xformat("%s%s%s%s", text, *text ? ", " : "", names[p], fit == FIT_PERHAPS ? " perhaps" : "");
        free(text);
        text = longer;
    }
    for (int fit = FIT_NO; fit <= FIT_YES; fit++)
        if (count[fit] == asked) {
            free(text);
            return xstrdup(words[fit]);
        }
    return text;
}

/* The one of both ends that ran out, where one did. */
static const struct answer_policy *out_of(const struct answered *row, int policy)
{
    return row->high.of[policy].ran_out  ? &row->high.of[policy]
           : row->low.of[policy].ran_out ? &row->low.of[policy]
                                         : NULL;
}

static void print_out(const struct program *from, const struct edits_question *q, const struct answered *row)
{
    for (int p = live_alone(q) ? FEED_LIVE : FEED_NATIVE; p < FEED_POLICIES; p++) {
        const struct answer_policy *out = q->wanted[p] ? out_of(row, p) : NULL;
        if (out)
            printf("  %s: %s %s no room for %s in %s, with %s held\n", row->name, feed_policy_names[p],
                   fit_of(row, p) == FIT_NO ? "has" : "perhaps has",
                   units_bytes((int64_t)out->out_size, q->bytes).s, shown(phase_name(from, out->out_phase)),
                   units_bytes((int64_t)out->out_reserved, q->bytes).s);
    }
}

/* ---- text ---- */

static void print_row(struct table *table, const struct edits_question *q, const struct answered *base,
                      const struct answered *row)
{
    table_cell(table, "%s", row->name);
    for (int p = 0; p < FEED_POLICIES; p++) {
        const struct answer_policy *low = &row->low.of[p], *high = &row->high.of[p];
        if (!q->wanted[p])
            continue;
        char *text = between(low->peak.reserved, high->peak.reserved, q->bytes);
        table_cell(table, "%s", text);
        free(text);
    }
    if (row == base)
        table_cell(table, "-");
    else
        table_cell(table, "%s%s", allocated(&row->low) == allocated(&row->high) ? "" : "<= ",
                   units_bytes_change(-saves(base, row), q->bytes).s);
    char *text = fit_text(q, row);
    if (limited(q))
        table_cell(table, "%s", text);
    free(text);
}

/* A column of each policy; the arena's goes first where the page is narrow. */
static void begin_table(struct table *table, const struct edits_question *q)
{
    static const char *const columns[FEED_POLICIES] = {"ALLOCATED", "NATIVE", "EXPANDABLE", "ARENA"};
    const char *header[FEED_POLICIES + 3] = {"CHANGE"};
    char shape[FEED_POLICIES + 4] = "<";
    static char drops[FEED_POLICIES + 4];
    size_t n = 1;
    drops[0] = '-';
    for (int p = 0; p < FEED_POLICIES; p++)
        if (q->wanted[p]) {
            shape[n] = '>';
            drops[n] = p == FEED_LIVE ? '-' : (char)('1' + FEED_ARENA - p);
            header[n++] = columns[p];
        }
    shape[n] = '>';
    drops[n] = '-';
    header[n++] = "DIFFERENCE";
    if (limited(q)) {
        shape[n] = '<';
        drops[n] = '-';
        header[n++] = "FITS";
    }
    shape[n] = drops[n] = '\0';
    table_init(table, shape, header);
    table_drops(table, drops);
}

static void print_table(const struct edits_question *q, const struct answered *rows, size_t n)
{
    struct table table;
    begin_table(&table, q);
    for (size_t i = 0; i < n; i++)
        if (!rows[i].why)
            print_row(&table, q, rows, &rows[i]);
    table_print(&table, stdout, 2);
    table_free(&table);
}

static void print_note(const struct program *from, const struct edits_question *q, const struct answered *row)
{
    uint16_t phase = row->low.of[FEED_LIVE].peak.phase;
    char *where = phase ? xformat("in %s", shown(phase_name(from, phase))) : xstrdup("outside of any phase");
    printf("  %s: the peak is %s then, its largest part %s (%s)", row->name, where,
           answer_kind(row->low.most), units_bytes((int64_t)row->low.most_bytes, q->bytes).s);
    free(where);
    if (row->cost)
        printf("; costs: %s", row->cost);
    if (row->assumes)
        printf("; if: %s", row->assumes);
    puts("");
}

/* Those that have the same reason, on one line. */
static void print_refused(const struct answered *rows, size_t n)
{
    bool *told = xrealloc(NULL, n);
    memset(told, 0, n);
    for (size_t i = 1; i < n; i++) {
        if (!rows[i].why || told[i])
            continue;
        printf("  %s", rows[i].name);
        for (size_t k = i + 1; k < n; k++)
            if (rows[k].why && !strcmp(rows[k].why, rows[i].why)) {
                printf(", %s", rows[k].name);
                told[k] = true;
            }
        printf(": %s%s\n", rows[i].nothing ? "nothing to change: " : "not known: ", rows[i].why);
    }
    free(told);
}

/* Of one change, or of its two answers, a column each. */
static void print_phases(const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n)
{
    const char *header[] = {"PHASE", "AS RECORDED", "CHANGED", "OR"};
    char *texts[2];
    struct table table;
    size_t answers = n - 1 < 2 ? n - 1 : 2;
    table_init(&table, answers == 2 ? "<>>>" : "<>>", header);
    if (answers == 2)
        printf("  (CHANGED: %s, OR: %s)\n", rows[1].name, rows[2].name);
    for (size_t p = 0; p < rows[1].low.phases; p++) {
        uint64_t was = rows[0].low.of[FEED_LIVE].phase_allocated[p], most = was;
        for (size_t k = 0; k < answers; k++) {
            uint64_t low = rows[k + 1].low.of[FEED_LIVE].phase_allocated[p],
                     high = rows[k + 1].high.of[FEED_LIVE].phase_allocated[p];
            most |= high;
            texts[k] = between(low, high, q->bytes);
        }
        if (most) {
            table_cell(&table, "%s", shown(phase_name(from, (uint16_t)p)));
            table_cell(&table, "%s", units_bytes((int64_t)was, q->bytes).s);
        }
        for (size_t k = 0; k < answers; k++) {
            if (most)
                table_cell(&table, "%s", texts[k]);
            free(texts[k]);
        }
    }
    table_print(&table, stdout, 2);
    table_free(&table);
}

static void print_text(const struct program *from, const struct edits_question *q,
                       const struct answered *rows, size_t n)
{
    printf("%s: the most that is allocated at once, and what PyTorch's allocators and the arena reserve:\n",
           q->edits->count ? "the program changed" : "changes of the program, each alone");
    if (limited(q))
        printf("  (as much as each takes without an end, and whether %s are enough)\n",
               units_bytes((int64_t)q->settings->capacity, q->bytes).s);
    print_table(q, rows, n);
    if (q->edits->count && n > 1 && !rows[1].why)
        print_phases(from, q, rows, n);
    for (size_t i = 0; i < n; i++)
        if (!rows[i].why)
            print_out(from, q, &rows[i]);
    for (size_t i = 1; i < n; i++)
        if (!rows[i].why)
            print_note(from, q, &rows[i]);
    print_refused(rows, n);
}

/* ---- JSON ---- */

static void json_ends(struct json *j, const char *what, uint64_t a, uint64_t b)
{
    int64_t low, high;
    ends(a, b, &low, &high);
    char *name = xformat("%s_low_bytes", what);
    json_int(j, name, low);
    free(name);
    name = xformat("%s_high_bytes", what);
    json_int(j, name, high);
    free(name);
}

static void print_policy_json(struct json *j, const struct program *from, const struct answered *row, int p)
{
    const struct answer_policy *low = &row->low.of[p], *high = &row->high.of[p];
    json_begin(j, NULL, '{');
    json_text(j, "policy", feed_policy_names[p]);
    json_ends(j, "allocated", low->peak.allocated, high->peak.allocated);
    json_ends(j, "reserved", low->peak.reserved, high->peak.reserved);
    const struct answer_policy *out = out_of(row, p);
    json_bool(j, "fits", fit_of(row, p) == FIT_YES);
    json_bool(j, "may_fit", fit_of(row, p) != FIT_NO);
    json_int(j, "ran_out_request_bytes", out ? (int64_t)out->out_size : UNKNOWN);
    json_int(j, "ran_out_reserved_bytes", out ? (int64_t)out->out_reserved : UNKNOWN);
    json_text(j, "ran_out_phase", !out ? NULL : out->out_phase ? phase_name(from, out->out_phase) : "none");
    json_begin(j, "phases", '[');
    for (size_t i = 0; i < row->low.phases; i++) {
        if (!low->phase_allocated[i] && !high->phase_allocated[i])
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "phase", i ? phase_name(from, (uint16_t)i) : "none");
        json_ends(j, "allocated", low->phase_allocated[i], high->phase_allocated[i]);
        json_ends(j, "reserved", low->phase_reserved[i], high->phase_reserved[i]);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static void print_json(struct json *j, const struct program *from, const struct edits_question *q,
                       const struct answered *rows, size_t n)
{
    json_begin(j, "edits", '[');
    for (size_t i = 0; i < n; i++) {
        const struct answered *row = &rows[i];
        json_begin(j, NULL, '{');
        json_text(j, "edit", i ? row->name : NULL);
        json_text(j, "refused", row->why);
        json_bool(j, "nothing_to_change", row->nothing);
        json_text(j, "assumes", row->assumes);
        json_text(j, "cost", row->cost);
        json_text(j, "peak_phase", row->why ? NULL : phase_name(from, row->low.of[FEED_LIVE].peak.phase));
        json_text(j, "peak_most", row->why ? NULL : answer_kind(row->low.most));
        json_int(j, "peak_most_bytes", row->why ? UNKNOWN : (int64_t)row->low.most_bytes);
        json_int(j, "saves_bytes", row->why ? UNKNOWN : saves(rows, row));
        json_begin(j, "policies", '[');
        for (int p = 0; p < FEED_POLICIES && !row->why; p++)
            if (q->wanted[p])
                print_policy_json(j, from, row, p);
        json_end(j);
        json_end(j);
    }
    json_end(j);
}

/* ---- the command's part ---- */

int edits_check(const struct arg_list *edits)
{
    struct edit *all = xrealloc(NULL, (edits->count + 1) * sizeof *all);
    int status = 0;
    for (size_t i = 0; i < edits->count && !status; i++) {
        char *why = NULL;
        if (edit_parse(edits->values[i], &all[i], &why))
            why = edit_contradiction(all, i + 1);
        if (why)
            status = complain("whatif: --edit %s: %s", shown(edits->values[i]), why);
        free(why);
    }
    free(all);
    return status;
}

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

/* The row of N edits; two, where one of them means two programs that are far from each other. */
static void add_rows(const struct program *from, const struct edit *edits, size_t n, struct answered **rows,
                     size_t *count)
{
    struct answered *row = PUSH(*rows, *count);
    *row = (struct answered){.edits = xrealloc(NULL, n * sizeof *edits), .edit_count = n};
    memcpy(row->edits, edits, n * sizeof *edits);
    for (size_t i = 0; i < n; i++) {
        struct edit other;
        if (!edit_split(from, &row->edits[i], &other))
            continue;
        row->name = name_of(row->edits, n);
        struct answered *second = PUSH(*rows, *count);
        *second = (struct answered){.edits = xrealloc(NULL, n * sizeof *edits), .edit_count = n};
        memcpy(second->edits, edits, n * sizeof *edits);
        second->edits[i] = other;
        second->name = name_of(second->edits, n);
        return;
    }
    row->name = name_of(row->edits, n);
}

static struct answered *rows_of(const struct program *from, const struct arg_list *names, size_t *n)
{
    struct answered *rows = NULL;
    size_t count;
    *n = 0;
    *PUSH(rows, *n) = (struct answered){.name = xstrdup("as recorded")};
    if (!names->count) {
        const struct edit *all = edit_all(&count);
        for (size_t i = 0; i < count; i++)
            add_rows(from, &all[i], 1, &rows, n);
        return rows;
    }
    struct edit *own = xrealloc(NULL, names->count * sizeof *own);
    char *why;
    for (size_t i = 0; i < names->count; i++)
        edit_parse(names->values[i], &own[i], &why);
    add_rows(from, own, names->count, &rows, n);
    free(own);
    return rows;
}

static void free_rows(struct answered *rows, size_t n)
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

/* What lived before the recording began is in no block: a sum without it would be no answer. */
static int refuse_late(const struct edits_question *q, struct json *j)
{
    static const char why[] = "the framework held memory before the recording began";
    if (j) {
        json_begin(j, "edits", '[');
        json_end(j);
        json_text(j, "refusal", NULL);
    } else if (q->edits->count) {
        return complain("whatif: --edit: not known: %s", why);
    } else {
        printf("changes of the program: not known: %s\n", why);
    }
    return 0;
}

int edits_answer(struct trace *t, int64_t device, const struct edits_question *q, struct json *j)
{
    struct edit_facts facts;
    struct program from;
    size_t n;
    if (q->late)
        return refuse_late(q, j);
    if (refusal_ended(t, device))
        return refusal_print(t, device, q, j);
    if (program_read(t, device, SIZE_MAX, q->native, &from, &facts)) {
        complain("whatif: %s", t->why);
        program_free_facts(&facts);
        return EXIT_FAILURE;
    }
    struct answered *rows = rows_of(&from, q->edits, &n);
    struct work w = {.from = &from, .q = q, .rows = rows, .count = n};
    work_all(&w);
    int status = 0;
    if (q->edits->count && rows[1].why) {
        char *names = rows[1].edit_count > 1 ? xstrdup("") : xformat("%s: ", rows[1].name);
        if (!j)
            status =
                complain("whatif: %s%s%s", names, rows[1].nothing ? "nothing to change: " : "", rows[1].why);
        free(names);
    }
    qsort_r(rows + 1, n - 1, sizeof *rows, by_savings, rows);
    if (j)
        print_json(j, &from, q, rows, n);
    else if (!status)
        print_text(&from, q, rows, n);
    free_rows(rows, n);
    program_free(&from);
    program_free_facts(&facts);
    if (j)
        json_text(j, "refusal", NULL);
    return status;
}
