/*
 * whatif_device.c - `vramscope whatif` of one device: asks under each allocator and for each change, and
 * puts the answers on one page, or into JSON.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "edit/refusal.h"
#include "read/steps.h"
#include "whatif.h"

/* WHAT: of which the framework had some before the recording began; NULL: of anything. */
static bool is_late(const struct trace *t, int64_t device, const char *what)
{
    for (size_t i = 0; i < t->mismatch_count; i++) {
        const struct trace_mismatch *m = &t->mismatches[i];
        if (m->device == device && (what ? !strcmp(m->what, what) : trace_mismatch_is_late(m)))
            return true;
    }
    return false;
}

static void no_edits(struct json *j)
{
    json_begin(j, "edits", '[');
    json_end(j);
    json_text(j, "refusal", NULL);
}

/* Edits are asked for, or nothing special is. */
static bool wants_edits(const struct question *q)
{
    return q->o->edits.count || (!q->o->policy && !q->capacity && !q->setting_count);
}

/* As struct edits_question has it. */
static int one_policy(const struct question *q)
{
    int policy = -1;
    for (int i = 0; i < FEED_POLICIES && q->o->policy; i++)
        if (q->wanted[i])
            policy = policy >= 0 ? FEED_POLICIES : i;
    return policy;
}

/* The one that changes are compared under: the run's, or of those that are asked about the first. */
static enum feed_policy column_of(const struct answers *a, const bool *wanted)
{
    if (wanted[a->run])
        return (enum feed_policy)a->run;
    for (int i = FEED_NATIVE; i < FEED_POLICIES; i++)
        if (wanted[i])
            return (enum feed_policy)i;
    return FEED_LIVE;
}

/* WANTED: by enum feed_policy; with SETTINGS it lives as long as the question. */
static struct edits_question question_of(const struct answers *a, struct torch_settings *settings,
                                         bool *wanted)
{
    int policy = one_policy(a->q);
    bool changed = a->q->capacity || a->q->setting_count;
    for (int i = 0; i < FEED_POLICIES; i++)
        wanted[i] = a->q->wanted[i];
    wanted[FEED_LIVE] = true; /* what the others are compared by */
    *settings = policies_settings(a);
    return (struct edits_question){&a->q->o->edits, settings,
                                   wanted,          column_of(a, wanted),
                                   policy,          policy >= 0 || changed,
                                   changed,         is_late(a->t, a->device, "late_allocated"),
                                   a->q->o->bytes};
}

/* The least that was alive at any moment from the end of the first step to the end of the last step but one;
 * the last may end with the program.  With a capacity below it no allocator lets a step be made. */
static uint64_t least_alive(const struct answers *a)
{
    struct trace_step_end *ends = NULL;
    size_t n = 0;
    uint64_t live = 0, least = UINT64_MAX;
    if (trace_step_ends(a->t, &ends, &n) || n < 3)
        n = 0;
    for (size_t i = 0; i < a->tape->n && n; i++) {
        const struct tape_event *e = &a->tape->at[i];
        if (e->t > ends[n - 2].t)
            break;
        least = e->t > ends[0].t && live < least ? live : least;
        live += e->what == TAPE_ALLOC ? e->size : e->what == TAPE_FREE ? -e->size : 0;
    }
    free(ends);
    return least == UINT64_MAX ? 0 : least;
}

/* 0, or 2, said. */
static int check_capacity(const struct answers *a)
{
    uint64_t least = a->q->capacity && !a->q->o->edits.count ? least_alive(a) : 0;
    if (least <= a->q->capacity)
        return 0;
    return complain("whatif: --capacity=%s is less than the %s that device %" PRId64
                    " held at every moment from the end of one step to that of another, parameters and what "
                    "else stays: no allocator makes room for a step; --edit with --capacity says what a "
                    "changed program needs",
                    shown(a->q->o->capacity), units_bytes((int64_t)least, a->q->o->bytes).s, a->device);
}

static int answer_json(struct answers *a, const struct edits_question *q, struct json *j)
{
    struct edits edits;
    int status = 0;
    json_begin(j, NULL, '{');
    json_int(j, "device", a->device);
    policies_ask(a);
    policies_json(a, j);
    if (wants_edits(a->q) && a->refused) {
        status = refusal_json(a->refused, j);
    } else if (wants_edits(a->q) && !q->late) {
        status = edits_ask(a->t, a->device, q, &edits) ? complain("whatif: %s", a->t->why) : 0;
        if (!status)
            edits_json(&edits, q, j);
        if (!status)
            edits_free(&edits);
    } else {
        no_edits(j);
    }
    json_end(j);
    return status;
}

static bool fits_any(const struct answers *a)
{
    for (int i = FEED_NATIVE; i <= FEED_ARENA; i++)
        if (!a->q->wanted[i] || !a->of[i].ran_out)
            return true;
    return false;
}

/* What the columns are, and where the rest is. */
static void add_legend(const struct answers *a, const struct edits_question *q, bool changes,
                       struct whatif_page *page)
{
    bool exact = a->q->o->bytes, replayed = !a->q->o->edits.count;
    char *under = changes ? xformat("; of a change under %s%s", feed_policy_names[q->column],
                                    (int)q->column == (int)a->run ? ", as in the run" : "")
                          : xstrdup("");
    if (replayed || changes)
        whatif_say(page, "  reserved: held of the driver at the most%s, from an empty cache%s%s",
                   a->refused && wants_edits(a->q) ? " up to that request" : "", under,
                   changes && a->q->capacity ? ", without an end" : "");
    if (!a->refused && replayed && (a->q->capacity || a->q->setting_count || !a->q->wanted[a->run]))
        whatif_say(page, "  difference: to the %s that %s reserves so, with the run's settings",
                   units_bytes((int64_t)a->base, exact).s, feed_policy_names[a->run]);
    if (changes && a->q->capacity)
        whatif_say(page, "  fits: into %s", units_bytes((int64_t)a->q->capacity, exact).s);
    for (int i = 0; i < FEED_POLICIES && replayed && !a->refused; i++)
        if (a->q->wanted[i] && i != (int)a->run && refusal_cure((enum feed_policy)i))
            whatif_say(page, "  %s: %s", feed_policy_names[i], refusal_cure((enum feed_policy)i));
    if (a->q->capacity && replayed && !fits_any(a))
        whatif_say(page, "  no allocator has enough; for a changed program: the same command with "
                         "--edit=batch=0.5, or another of vramscope whatif --help");
    if (!a->q->o->why)
        whatif_say(page, "  what each row rests on: the same command with --why");
    free(under);
}

/* All is asked before anything is printed: what cannot be answered is one line. */
static int answer_text(struct answers *a, const struct edits_question *q)
{
    struct edits edits = {.rows = NULL};
    struct whatif_page page = {.run = SIZE_MAX};
    bool changes = wants_edits(a->q) && !a->refused && !q->late;
    int status = a->refused && wants_edits(a->q) ? refusal_complain(a->refused) : check_capacity(a);
    if (!status && wants_edits(a->q) && !a->refused && q->late && q->edits->count)
        status = complain("whatif: --edit: not known: the framework held memory before the recording began");
    if (status)
        return status;
    if (a->refused && wants_edits(a->q))
        refusal_head(a->refused, a->t, a->q->o->bytes, &page);
    if (!a->q->o->edits.count)
        policies_ask(a);
    policies_page(a, &page);
    if (changes) {
        status = edits_ask(a->t, a->device, q, &edits) ? complain("whatif: %s", a->t->why)
                                                       : edits_complain(&edits, q);
        if (!status)
            edits_page(&edits, q, a->base, a->q->o->why, &page);
    } else if (a->refused) {
        refusal_page(a->refused, q, wants_edits(a->q), a->q->o->why, &page);
    } else if (wants_edits(a->q)) {
        whatif_say(&page, "  changes of the program: not known: the framework held memory before the "
                          "recording began");
    }
    if (!a->refused || !wants_edits(a->q))
        policies_refused(a, &page);
    add_legend(a, q, changes, &page);
    if (!status)
        whatif_print(&page);
    if (!status && changes && q->edits->count)
        edits_phases(&edits, q);
    edits_free(&edits);
    whatif_free(&page);
    return status;
}

static int answer_device(struct answers *a, struct json *j)
{
    struct torch_settings settings;
    bool wanted[FEED_POLICIES];
    struct edits_question q = question_of(a, &settings, wanted);
    if (!q.late)
        a->refused = refusal_ask_about(a->t, a->device, &q, wants_edits(a->q));
    int status = j ? answer_json(a, &q, j) : answer_text(a, &q);
    refusal_forget(a->refused);
    return status;
}

int whatif_device(struct trace *t, const struct question *q, int64_t device, struct json *j)
{
    struct answers *a = xrealloc(NULL, sizeof *a);
    *a = (struct answers){.t = t, .q = q, .device = device, .late = is_late(t, device, NULL)};
    if (!(a->tape = trace_tape(t, device))) {
        complain("whatif: %s", t->why);
        free(a);
        return -1;
    }
    policies_begin(a);
    bool any = a->tape->ids > 0;
    int status = any ? answer_device(a, j) : 0;
    trace_forget_tapes(t);
    free(a);
    return status ? -1 : any;
}
