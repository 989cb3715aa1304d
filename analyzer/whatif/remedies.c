/* remedies.c - what a person could do about a run's memory (remedies.h). */
#include "remedies.h"

#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "edit/refusal.h"
#include "read/tape.h"
#include "replay/replay.h"

#define LEAST 50 /* a gain of less than a 50th of what is reserved is none */
#define SURE  10 /* one of a 10th holds with other sizes, and is not tried with them */

/* ---- of a request that was refused ---- */

/* Of "states=8bit checkpoint=2" both. */
static void take_edits(struct remedy *r)
{
    char *words = xstrdup(r->name), *second = strchr(words, ' ');
    if (second)
        *second++ = '\0';
    const struct edit *one = edit_named(words), *other = second ? edit_named(second) : NULL;
    r->edit = one ? *one : (struct edit){.text = r->name};
    if (other)
        r->and = *other;
    free(words);
}

static void add_policies(const struct refusal_answer *a, struct remedies *out)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        const char *cure = refusal_cure((enum feed_policy)i);
        if (!cure || i == (int)a->policy || !a->of[i].asked || a->of[i].verdict != REFUSAL_PASSES)
            continue;
        *PUSH(out->rows, out->count) = (struct remedy){.name = xstrdup(cure), .then = a->of[i].room};
    }
}

/* Settings come first, as they cost nothing, PyTorch's own before others; of changes the one that leaves
 * most. */
static int by_left(const void *a, const void *b)
{
    const struct remedy *x = a, *y = b;
    if (!x->edit.text != !y->edit.text)
        return x->edit.text ? 1 : -1;
    if (!x->edit.text)
        return strcmp(x->name, y->name);
    if (x->not_made != y->not_made)
        return x->not_made ? -1 : 1;
    return x->then > y->then ? -1 : x->then < y->then ? 1 : strcmp(x->name, y->name);
}

/* Whether a replay takes longer than a page is to take. */
static bool is_long(const struct trace *t, int64_t most, struct remedies *out)
{
    *out = (struct remedies){.now = UNKNOWN};
    if (t->events > most)
        out->why = xstrdup("the recording has too many events for this page");
    return out->why;
}

int remedies_of_refusal(struct trace *t, const struct trace_oom_kept *o, int64_t most, struct remedies *out)
{
    struct refusal_answer a;
    if (is_long(t, most, out))
        return 0;
    if (refusal_answer(t, o, NULL, NULL, 0, &a))
        return -1;
    add_policies(&a, out);
    for (size_t i = 0; i < a.count; i++) {
        const struct refusal_change *c = &a.changes[i];
        if (c->verdict != REFUSAL_PASSES)
            continue;
        struct remedy *r = PUSH(out->rows, out->count);
        *r = (struct remedy){.name = xstrdup(c->name), .not_made = !c->made, .then = c->room};
        take_edits(r);
    }
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, by_left);
    else if (a.why)
        out->why = xstrdup(a.why);
    out->events = a.why ? 0 : (size_t)t->events;
    refusal_free(&a);
    return 0;
}

/* ---- of a peak ---- */

struct asking {
    struct program from;
    struct torch_settings settings;
    enum feed_policy own; /* that the run had */
};

/* What P reserves under POLICY with sizes as draw DRAW has them. */
static int64_t drawn(const struct asking *q, int policy, unsigned draw)
{
    bool wanted[FEED_POLICIES] = {false};
    struct program p = q->from;
    p.blocks = shaken_blocks(&q->from, draw);
    wanted[policy] = true;
    struct answer a = answer_of(&p, &q->settings, wanted);
    int64_t bytes = (int64_t)a.of[policy].peak.reserved;
    answer_free(&a);
    free(p.blocks);
    return bytes;
}

/* Whether the run as it is reserves less under POLICY whatever its sizes are. */
static bool holds(const struct asking *q, int policy)
{
    for (unsigned i = 0; i < SHAKEN_DRAWS; i++)
        if (drawn(q, policy, i) >= drawn(q, (int)q->own, i))
            return false;
    return true;
}

static void add_settings(const struct asking *q, const struct answered *base, struct remedies *out)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        const char *cure = refusal_cure((enum feed_policy)i);
        int64_t then = answered_reserved(base, (enum feed_policy)i), gain = out->now - then;
        if (cure && i != (int)q->own && gain > out->now / LEAST && (gain > out->now / SURE || holds(q, i)))
            *PUSH(out->rows, out->count) = (struct remedy){.name = xstrdup(cure), .then = then};
    }
}

static int by_reserved(const void *a, const void *b)
{
    const struct remedy *x = a, *y = b;
    return x->then < y->then ? -1 : x->then > y->then ? 1 : strcmp(x->name, y->name);
}

/* What a change gains is what the high end of its interval does. */
static void add_changes(const struct asking *q, const struct answered *rows, size_t n, struct remedies *out)
{
    size_t known = 0;
    for (size_t i = 1; i < n; i++) {
        known += !rows[i].why || rows[i].nothing;
        int64_t then = rows[i].why ? INT64_MAX : answered_reserved(&rows[i], q->own);
        if (rows[i].why || !edit_is_advice(&rows[i].edits[0]) || out->now - then <= out->now / LEAST)
            continue;
        *PUSH(out->rows, out->count) =
            (struct remedy){.name = xstrdup(rows[i].name), .edit = rows[i].edits[0], .then = then};
    }
    if (!known && n > 1)
        out->why = xstrdup(rows[1].why);
}

static void answer(const struct asking *q, struct remedies *out)
{
    static const struct arg_list none;
    bool all[FEED_POLICIES], own[FEED_POLICIES] = {[FEED_LIVE] = true};
    size_t n;
    memset(all, true, sizeof all);
    own[q->own] = true;
    struct edits_question ask = {.edits = &none, .settings = &q->settings, .wanted = all, .policy = -1};
    struct answered *rows = answered_rows(&none, &n);
    answered_work(&q->from, &ask, rows, 1);
    ask.wanted = own;
    answered_work(&q->from, &ask, rows + 1, n - 1);
    /* as recorded it may have been less than a replay without an end: caches were emptied */
    int64_t replayed = answered_reserved(rows, q->own);
    out->replayed = out->now == UNKNOWN || replayed < out->now;
    out->now = out->replayed ? replayed : out->now;
    add_settings(q, rows, out);
    add_changes(q, rows, n, out);
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, by_reserved);
    answered_free(rows, n);
}

static int read_program(struct trace *t, int64_t device, struct asking *q, struct edit_facts *facts)
{
    const struct trace_tape *tape = trace_tape(t, device);
    const struct trace_device *d = trace_find_device(t, device);
    if (!tape)
        return -1;
    replay_settings(tape, &q->settings);
    q->settings.capacity = UINT64_MAX;
    if (d && d->total_bytes > 0)
        q->settings.memory = (uint64_t)d->total_bytes;
    q->own = tape->arena ? FEED_ARENA : tape->expandable ? FEED_EXPANDABLE : FEED_NATIVE;
    return program_read(t, device, SIZE_MAX, &q->from, facts);
}

int remedies_of_peak(struct trace *t, int64_t device, int64_t most, struct remedies *out)
{
    struct asking q = {.own = FEED_NATIVE};
    struct edit_facts facts = {0};
    if (is_long(t, most, out))
        return 0;
    const struct trace_peak *peak = trace_find_peak(t, device, "managed_reserved");
    out->now = peak && peak->bytes > 0 ? peak->bytes : UNKNOWN;
    int bad = read_program(t, device, &q, &facts);
    if (!bad && q.from.block_count)
        answer(&q, out);
    out->events = q.from.block_count ? q.from.event_count : 0; /* nothing is a framework's: nothing is said */
    program_free(&q.from);
    program_free_facts(&facts);
    return bad;
}

char *remedy_costs(const char *names)
{
    char *words = xstrdup(names), *rest = words, *word, *why, *text = xstrdup("");
    while ((word = strsep(&rest, " "))) {
        struct edit e = {.what = EDIT_KINDS};
        if (!edit_parse(word, &e, &why))
            free(why);
        char *longer = xformat("%s%s%s", text, *text ? ", " : "", edit_brief_cost(&e));
        free(text);
        text = longer;
    }
    free(words);
    return text;
}

void remedies_free(struct remedies *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->rows[i].name);
    free(r->rows);
    free(r->why);
    *r = (struct remedies){.now = UNKNOWN};
}
