/*
 * edits.c - the table of edits, their words and costs; how they are applied, one after the other, and
 * refused.
 */
#include "edits.h"

#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "base/args.h"
#include "base/shown.h"

#define FACTOR_MOST 1024

typedef struct program apply(const struct program *from, const struct edit *e, struct edit_result *r,
                             bool high);

static bool is(const char *value, const char *word)
{
    return !strcmp(value, word);
}

static bool read_number(const char *value, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    long long n = strtoll(value, &end, 10);
    *out = n;
    return end != value && !*end && n >= least && n <= most;
}

static bool read_accumulate(const char *value, struct edit *e)
{
    return read_number(value, 2, 1000, &e->n);
}

static bool read_factor(const char *value, struct edit *e)
{
    char *end;
    e->factor = strtod(value, &end);
    return end != value && !*end && e->factor >= 1.0 / FACTOR_MOST && e->factor <= FACTOR_MOST;
}

static bool read_zero(const char *value, struct edit *e)
{
    e->stage = *value - '0';
    return e->stage >= 1 && e->stage <= 3 && value[1] == ':' && read_number(value + 2, 2, 1 << 20, &e->n);
}

static bool read_checkpoint(const char *value, struct edit *e)
{
    char *end;
    long long n = strtoll(value, &end, 10);
    e->n = n;
    e->path = *end == ':' ? shown(end + 1) : NULL; /* messages have it */
    return end != value && n >= 1 && n <= 1000 && (e->path ? *e->path != 0 : !*end);
}

static bool read_states(const char *value, struct edit *e)
{
    e->n = is(value, "bf16") ? STATES_BF16 : is(value, "8bit") ? STATES_8BIT : STATES_HOST;
    return e->n != STATES_HOST || is(value, "host");
}

static bool read_types(const char *value, struct edit *e)
{
    e->n = is(value, "bf16,loss=fp32") ? LOSS_FP32 : is(value, "bf16,loss=bf16") ? LOSS_BF16 : LOSS_EITHER;
    return e->n != LOSS_EITHER || is(value, "bf16");
}

struct row {
    const char *name, *values;                       /* as a message names them */
    bool (*read)(const char *value, struct edit *e); /* NULL: VALUES is the one that there is */
    apply *apply;
    const char *cost,
        *brief; /* brief: in two or three words; NULL: it depends on the value, or is not known */
    bool about;
};

static const struct row table[EDIT_KINDS] = {
    [EDIT_LOSS] = {"loss", "fused", NULL, apply_loss, "about as fast, or faster", "one line", true},
    [EDIT_FOREACH] = {"foreach", "no", NULL, apply_foreach,
                      "a slower step of the optimizer: many small kernels", "slower steps", false},
    [EDIT_OPTIMIZER] = {"optimizer", "fused", NULL, apply_optimizer, "a faster step of the optimizer",
                        "faster steps", false},
    [EDIT_STATES] = {"states", "bf16, 8bit or host", read_states, apply_states, NULL, "rounded states",
                     false},
    [EDIT_GRADIENTS] = {"gradients", "in-backward", NULL, apply_gradients,
                        "no clipping by the norm of all gradients, no accumulation", "no clipping", false},
    [EDIT_SET_TO_NONE] = {"set_to_none", "yes", NULL, apply_set_to_none,
                          "gradients are allocated anew at each step", NULL, false},
    [EDIT_ACCUMULATE] = {"accumulate", "a number of batches, 2 to 1000", read_accumulate, apply_accumulate,
                         "a step takes as many batches", "longer steps", false},
    [EDIT_CHECKPOINT] = {"checkpoint",
                         "K, every K-th layer, or K:PATH for those whose modules have such a path",
                         read_checkpoint, apply_checkpoint, "the forward of those layers a second time",
                         "a 2nd forward", true},
    [EDIT_BATCH] = {"batch", "a factor such as 2 or 0.5", read_factor, apply_batch, NULL, "smaller batch",
                    true},
    [EDIT_SEQUENCE] = {"sequence", "a factor such as 2 or 0.5", read_factor, apply_sequence, NULL,
                       "shorter samples", true},
    [EDIT_TYPES] = {"types", "bf16, with ,loss=fp32 or ,loss=bf16 or without", read_types, apply_types,
                    "fewer digits", "fewer digits", true},
    [EDIT_ZERO] = {"zero", "STAGE:RANKS, such as 2:8", read_zero, apply_zero, "communication at every step",
                   "communication", true},
};

const char *edit_brief_cost(const struct edit *e)
{
    if (e->what == EDIT_STATES && e->n == STATES_HOST)
        return "copies each step";
    if (e->what == EDIT_BATCH && e->factor >= 1)
        return "larger batch";
    if (e->what == EDIT_SEQUENCE && e->factor >= 1)
        return "longer samples";
    return e->what < EDIT_KINDS && table[e->what].brief ? table[e->what].brief : "not known";
}

/* ---- words ---- */

static char *all_names(void)
{
    char *all = xstrdup(table[0].name);
    for (int k = 1; k < EDIT_KINDS; k++) {
        char *longer = xformat("%s%s%s", all, k + 1 < EDIT_KINDS ? ", " : " and ", table[k].name);
        free(all);
        all = longer;
    }
    return all;
}

/* Whether a program can't have both. */
static bool contradict(const struct edit *a, const struct edit *b)
{
    if (a->what == b->what)
        return a->what != EDIT_BATCH && a->what != EDIT_SEQUENCE;
    if (a->what == EDIT_STATES)
        return b->what == EDIT_TYPES; /* states that are fp32, and are not */
    return a->what == EDIT_GRADIENTS && b->what == EDIT_ACCUMULATE;
}

char *edit_contradiction(const struct edit *edits, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (contradict(&edits[i], &edits[k]) || contradict(&edits[k], &edits[i]))
                return xformat("it can't go with %s%s", shown(edits[k].text),
                               edits[i].what == edits[k].what ? " before it" : "");
    return NULL;
}

bool edit_parse(const char *text, struct edit *e, char **why)
{
    const char *equals = strchrnul(text, '='), *names[EDIT_KINDS + 1] = {NULL};
    size_t n = (size_t)(equals - text);
    int i = 0;
    while (i < EDIT_KINDS && (strlen(table[i].name) != n || strncmp(table[i].name, text, n)))
        i++;
    *e = (struct edit){.what = (enum edit_what)i, .text = text};
    if (i == EDIT_KINDS) {
        for (int k = 0; k < EDIT_KINDS; k++)
            names[k] = table[k].name;
        char *word = xformat("%.*s", (int)n, text), *all = all_names();
        const char *near = args_nearest(word, names);
        *why = near ? xformat("no edit '%s': did you mean '%s'?", shown(word), near)
                    : xformat("no edit '%s': there are %s", shown(word), all);
        free(all);
        free(word);
        return false;
    }
    if (*equals && (table[i].read ? table[i].read(equals + 1, e) : is(equals + 1, table[i].values)))
        return true;
    *why = !table[i].read ? xformat("%s has one value, '%s'", table[i].name, table[i].values)
                          : xformat("%s takes %s", table[i].name, table[i].values);
    return false;
}

/* ---- applying ---- */

static bool same(const struct program *a, const struct program *b)
{
    if (a->event_count != b->event_count || a->block_count != b->block_count ||
        memcmp(a->events, b->events, a->event_count * sizeof *a->events))
        return false;
    for (size_t i = 0; i < a->block_count; i++)
        if (a->blocks[i].size != b->blocks[i].size)
            return false;
    return true;
}

struct edit_result edit_apply(const struct program *from, const struct edit *e)
{
    struct edit_result r = {.cost = table[e->what].cost, .about = table[e->what].about};
    r.low = table[e->what].apply(from, e, &r, false);
    if (r.why) {
        free(r.assumes);
        r.assumes = NULL;
        return r;
    }
    struct edit_result again = {0};
    r.high = table[e->what].apply(from, e, &again, true);
    free(again.assumes);
    if (again.why) {
        edit_free_result(&r);
        r.why = again.why;
        r.nothing = again.nothing;
        return r;
    }
    if (same(&r.low, &r.high))
        program_free(&r.high);
    if (!r.high.event_count && same(from, &r.low)) {
        edit_free_result(&r);
        refuse_nothing(&r, "all blocks stay as they are");
    }
    return r;
}

static void join(char **line, const char *more)
{
    if (*line && more && strstr(*line, more))
        return;
    char *joined = *line && more ? xformat("%s; %s", *line, more) : xstrdup(*line ? *line : more);
    free(*line);
    *line = joined;
}

/* What edit E makes of both ends of R. */
static void go_on(struct edit_result *r, const struct program *from, const struct edit *e, bool first)
{
    struct edit_result low = edit_apply(first ? from : &r->low, e), high = {.why = NULL};
    if (r->high.event_count && !low.why)
        high = edit_apply(&r->high, e);
    if (low.why || high.why) {
        r->why = xstrdup(low.why ? low.why : high.why);
        r->nothing = low.nothing;
    } else {
        struct edit_result *of_high = r->high.event_count ? &high : &low;
        bool one = !of_high->high.event_count;
        program_free(&r->low);
        program_free(&r->high);
        r->high = one ? high.low : of_high->high;
        r->low = low.low;
        if (!one)
            of_high->high = (struct program){0};
        if (one)
            high.low = (struct program){0};
        low.low = (struct program){0};
        join(&r->assumes, low.assumes);
        r->about = r->about || low.about;
        r->moves = r->moves || low.moves;
        join(&r->costs, low.cost);
    }
    edit_free_result(&low);
    edit_free_result(&high);
}

struct edit_result edit_apply_all(const struct program *from, const struct edit *const *edits, size_t n)
{
    struct edit_result r = {.why = NULL};
    for (size_t i = 0; i < n && !r.why; i++) {
        go_on(&r, from, edits[i], i == 0);
        if (r.why && n > 1) {
            const char *after = i && r.nothing ? " after the changes before it" : "";
            char *why = xformat("%s%s: %s", edits[i]->text, after, r.why);
            free(r.why);
            r.why = why;
        }
    }
    return r;
}

void edit_free_result(struct edit_result *r)
{
    program_free(&r->low);
    program_free(&r->high);
    free(r->why);
    free(r->assumes);
    free(r->costs);
    *r = (struct edit_result){.why = NULL};
}

const struct edit *edit_all(size_t *n)
{
    static const struct edit all[] = {
        {.what = EDIT_LOSS, .text = "loss=fused"},
        {.what = EDIT_FOREACH, .text = "foreach=no"},
        {.what = EDIT_OPTIMIZER, .text = "optimizer=fused"},
        {.what = EDIT_STATES, .text = "states=8bit", .n = STATES_8BIT},
        {.what = EDIT_STATES, .text = "states=bf16", .n = STATES_BF16},
        {.what = EDIT_STATES, .text = "states=host", .n = STATES_HOST},
        {.what = EDIT_GRADIENTS, .text = "gradients=in-backward"},
        {.what = EDIT_SET_TO_NONE, .text = "set_to_none=yes"},
        {.what = EDIT_CHECKPOINT, .text = "checkpoint=1", .n = 1},
        {.what = EDIT_CHECKPOINT, .text = "checkpoint=2", .n = 2},
        {.what = EDIT_BATCH, .text = "batch=0.5", .factor = 0.5},
        {.what = EDIT_SEQUENCE, .text = "sequence=0.5", .factor = 0.5},
        {.what = EDIT_TYPES, .text = "types=bf16"},
        {.what = EDIT_ZERO, .text = "zero=1:8", .stage = 1, .n = 8},
        {.what = EDIT_ZERO, .text = "zero=2:8", .stage = 2, .n = 8},
        {.what = EDIT_ZERO, .text = "zero=3:8", .stage = 3, .n = 8},
    };
    *n = sizeof all / sizeof *all;
    return all;
}

bool edit_is_advice(const struct edit *e)
{
    return e->what != EDIT_ZERO && e->what != EDIT_SEQUENCE && e->what != EDIT_TYPES;
}

const struct edit *edit_named(const char *name)
{
    size_t n;
    const struct edit *all = edit_all(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].text, name))
            return &all[i];
    return NULL;
}
