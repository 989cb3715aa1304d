/* roles.c - finds the roles of a snapshot's blocks (roles.h). */
#include "roles.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct finder {
    struct lives l;
    struct counts counts;
    uint32_t trained; /* the last entry that backward or an optimizer's step is seen in */
    uint32_t
        cycle; /* the first span behind the last optimizer's step; without any, behind the last backward */
    uint32_t
        begun; /* the first span of forward or backward: an optimizer's step before it may lack its begin */
    bool backward;  /* is seen at all */
    bool optimizer; /* likewise */
    bool freed;     /* gradients are, in each step */
};

/* ---- what a block's birth and end were ---- */

static const struct span *span_of(const struct finder *f, const struct life *x)
{
    return &f->l.spans[x->born_in];
}

/* In an optimizer's step, and not in a forward or backward that it called. */
static bool by_optimizer(const struct finder *f, uint32_t stack)
{
    unsigned bits = lives_marks(&f->l, stack).bits;
    return bits & MARK_OPTIMIZER && !(bits & (MARK_MODULE | MARK_BACKWARD));
}

static bool stays(const struct finder *f, const struct life *x)
{
    return x->died > f->trained;
}

static bool exists(const struct finder *f, uint32_t span)
{
    return span < f->l.span_count;
}

/* It lived when the last entry of SPAN was made that shows its phase. */
static bool outlives(const struct finder *f, const struct life *x, uint32_t span)
{
    return exists(f, span) && x->died > f->l.spans[span].last;
}

/* Of a block from before the trace its stack alone can say so. */
static bool by_backward(const struct finder *f, const struct life *x)
{
    return x->born ? lives_born_in(&f->l, x, IMPORT_BACKWARD)
                   : x->stack && phase_of(f->l.phases, x->stack) == IMPORT_BACKWARD;
}

static bool was_built(const struct finder *f, const struct life *x)
{
    bool other = x->stack && phase_of(f->l.phases, x->stack) >= IMPORT_FORWARD;
    return x->born_in == 0 && stays(f, x) && !other && !x->rule;
}

/* ---- one block at a time ---- */

static bool is_made_state(const struct finder *f, const struct life *x)
{
    bool made = lives_marks(&f->l, x->stack).bits & MARK_STATE && by_optimizer(f, x->stack);
    uint32_t next = span_of(f, x)->next[IMPORT_OPTIMIZER];
    return made && (x->died == LIFE_STAYS || (exists(f, next) && x->died_in >= next));
}

static bool is_zeroed(const struct finder *f, const struct life *x)
{
    bool unknown = !x->born && !x->stack;
    return lives_marks(&f->l, x->freed_by).bits & MARK_ZEROED &&
           (unknown || lives_born_in(&f->l, x, IMPORT_BACKWARD));
}

/* Alive all through the optimizer's step that followed, and gone before backward came again. */
static bool is_stepped(const struct finder *f, const struct life *x)
{
    if (!lives_born_in(&f->l, x, IMPORT_BACKWARD) || x->died == LIFE_STAYS)
        return false;
    uint32_t step = span_of(f, x)->next[IMPORT_OPTIMIZER];
    if (!outlives(f, x, step))
        return false;
    uint32_t again = f->l.spans[step].next[IMPORT_BACKWARD];
    return (!exists(f, again) || x->died < f->l.spans[again].first) &&
           !lives_freed_in(&f->l, x, IMPORT_BACKWARD) && !lives_freed_in(&f->l, x, IMPORT_OPTIMIZER);
}

static bool is_activation(const struct finder *f, const struct life *x)
{
    return x->born && span_of(f, x)->phase == IMPORT_FORWARD &&
           span_of(f, x)->next[IMPORT_OPTIMIZER] > x->died_in && lives_freed_in(&f->l, x, IMPORT_BACKWARD);
}

/* Of a forward that backward runs again (a checkpoint): freed by what is no module's call. */
static bool is_made_again(const struct finder *f, const struct life *x)
{
    return x->born && span_of(f, x)->phase == IMPORT_BACKWARD && x->died_in == x->born_in &&
           x->died != LIFE_STAYS && lives_marks(&f->l, x->stack).bits & MARK_MODULE &&
           !(lives_marks(&f->l, x->freed_by).bits & MARK_MODULE) && lives_freed_in(&f->l, x, IMPORT_BACKWARD);
}

static bool is_temporary(const struct finder *f, const struct life *x)
{
    enum import_phase phase = span_of(f, x)->phase;
    if (phase < IMPORT_FORWARD || x->died_in != x->born_in || x->died == LIFE_STAYS)
        return false;
    return f->backward && lives_born_in(&f->l, x, phase) && lives_freed_in(&f->l, x, phase) &&
           (phase != IMPORT_OPTIMIZER || by_optimizer(f, x->stack));
}

static uint8_t rule_alone(const struct finder *f, const struct life *x)
{
    if (lives_marks(&f->l, x->stack).bits & MARK_WORKSPACE)
        return VS_LIFE_WORKSPACE;
    if (is_made_state(f, x))
        return VS_LIFE_STATE_MADE;
    if (is_zeroed(f, x))
        return VS_LIFE_GRADIENT_ZEROED;
    if (is_stepped(f, x))
        return VS_LIFE_GRADIENT_STEPPED;
    if (is_activation(f, x))
        return VS_LIFE_ACTIVATION;
    if (is_made_again(f, x))
        return VS_LIFE_ACTIVATION_AGAIN;
    return is_temporary(f, x) ? VS_LIFE_TEMPORARY : 0;
}

/* ---- numbers ---- */

static bool may_be_kept(const struct finder *f, const struct life *x)
{
    return !x->rule && by_backward(f, x) && stays(f, x) &&
           (outlives(f, x, span_of(f, x)->next[IMPORT_OPTIMIZER]) || !f->optimizer);
}

static bool may_be_state(const struct finder *f, const struct life *x)
{
    return (x->rule == VS_LIFE_STATE_MADE || (!x->rule && by_optimizer(f, x->stack))) && stays(f, x);
}

static void count_block(struct finder *f, const struct life *x)
{
    bool kept = may_be_kept(f, x), state = may_be_state(f, x), built = was_built(f, x);
    bool replaced = !x->rule && !by_optimizer(f, x->stack) && span_of(f, x)->phase != IMPORT_OPTIMIZER &&
                    x->died != LIFE_STAYS && lives_freed_in(&f->l, x, IMPORT_OPTIMIZER);
    if (!kept && !state && !built && !replaced)
        return;
    struct count *c = counts_of(&f->counts, x);
    c->kept += kept;
    c->states += state;
    c->built += built;
    c->replaced = c->replaced || replaced;
    uint32_t step = span_of(f, x)->next[IMPORT_OPTIMIZER];
    c->later = c->later || (kept && (!exists(f, step) || exists(f, f->l.spans[step].next[IMPORT_BACKWARD])));
}

static void find_kept_gradients(struct finder *f)
{
    uint32_t factor = f->freed ? UINT32_MAX : counts_factor(&f->counts);
    for (size_t i = 0; factor != UINT32_MAX && i < f->l.n; i++) {
        struct life *x = &f->l.at[i];
        if (may_be_kept(f, x) && counts_are_gradients(counts_of(&f->counts, x), factor))
            x->rule = VS_LIFE_GRADIENT_KEPT;
    }
}

/* What an optimizer's step made and did not free.  A step may also put new tensors in the place of the
 * parameters: then there are fewer of the old ones than gradients. */
static bool is_kept_state(struct finder *f, const struct life *x)
{
    if (x->rule || !by_optimizer(f, x->stack) || (x->born && span_of(f, x)->phase != IMPORT_OPTIMIZER))
        return false;
    const struct count *c = counts_of(&f->counts, x);
    uint32_t next = span_of(f, x)->next[IMPORT_OPTIMIZER];
    bool parameters_stay = c->gradients && c->built >= c->gradients;
    if (c->replaced && !parameters_stay)
        return false;
    if (!exists(f, next))
        return x->died == LIFE_STAYS && !f->l.refused && c->gradients;
    return outlives(f, x, next) ||
           (x->died_in >= next && lives_freed_in(&f->l, x, IMPORT_OPTIMIZER) && parameters_stay);
}

/* Where each step makes its states anew, the ones before the first that was seen are freed in it. */
static bool is_replaced_state(struct finder *f, const struct life *x)
{
    if (x->rule || x->born || x->stack || x->died == LIFE_STAYS ||
        !lives_freed_in(&f->l, x, IMPORT_OPTIMIZER))
        return false;
    const struct count *c = counts_of(&f->counts, x);
    return c->states && c->gradients && c->built >= c->gradients && x->died_in > f->begun;
}

static void find_counted(struct finder *f)
{
    for (size_t i = 0; i < f->l.n; i++) {
        struct life *x = &f->l.at[i];
        if (is_kept_state(f, x))
            x->rule = VS_LIFE_STATE_KEPT;
        if (is_replaced_state(f, x))
            x->rule = VS_LIFE_STATE_REPLACED;
        const struct count *c = was_built(f, x) ? counts_of(&f->counts, x) : NULL;
        if (c && c->gradients && c->gradients == c->built)
            x->rule = VS_LIFE_PARAMETER_COUNTED;
    }
}

/* ---- lines of PyTorch's own code ---- */

struct lines {
    uint32_t least,
        most;         /* of _apply, which goes over parameters, their gradients and buffers in this order */
    uint32_t counted; /* one that a counted parameter came of */
    bool mixed;       /* several did */
    struct vs_table built; /* lines of constructors that a counted parameter came of */
};

static bool was_moved(const struct finder *f, const struct life *x)
{
    return lives_marks(&f->l, x->stack).bits & MARK_MOVED && (stays(f, x) || x->died_in > x->born_in);
}

static void read_line(struct finder *f, struct lines *lines, const struct life *x)
{
    struct stack_marks m = lives_marks(&f->l, x->stack);
    bool counted = x->rule == VS_LIFE_PARAMETER_COUNTED;
    if (was_moved(f, x)) {
        lines->least = m.line < lines->least ? m.line : lines->least;
        lines->most = m.line > lines->most ? m.line : lines->most;
        lines->mixed = lines->mixed || (counted && lines->counted && lines->counted != m.line);
        lines->counted = counted ? m.line : lines->counted;
    } else if (m.bits & MARK_BUILT && counted && vs_table_put(&lines->built, m.place, 0) < 0) {
        exit(complain("out of memory"));
    }
}

static uint8_t rule_of_line(const struct finder *f, const struct lines *lines, const struct life *x)
{
    struct stack_marks m = lives_marks(&f->l, x->stack);
    if (!was_moved(f, x)) {
        bool known =
            m.bits & MARK_BUILT && stays(f, x) && vs_table_get(&lines->built, m.place) != VS_TABLE_NONE;
        return known ? VS_LIFE_PARAMETER_MOVED : 0;
    }
    if (lines->mixed || (lines->counted && lines->counted != lines->least))
        return 0;
    if (m.line == lines->least)
        return lines->counted || lines->most > lines->least ? VS_LIFE_PARAMETER_MOVED : 0;
    return m.line == lines->most ? VS_LIFE_BUFFER_MOVED : 0;
}

static void find_by_lines(struct finder *f)
{
    struct lines lines = {.least = UINT32_MAX};
    for (size_t i = 0; i < f->l.n; i++)
        read_line(f, &lines, &f->l.at[i]);
    for (size_t i = 0; i < f->l.n; i++) {
        struct life *x = &f->l.at[i];
        if (!x->rule && x->stack)
            x->rule = rule_of_line(f, &lines, x);
    }
    vs_table_free(&lines.built);
}

/* ---- what had no time to end ---- */

#define MIXED UINT8_MAX

static uint64_t kin_of(const struct life *x)
{
    return (x->size * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)x->stack << 20 ^ (uint64_t)x->device << 58;
}

static uint8_t like(uint8_t rule)
{
    switch (rule) {
    case VS_LIFE_GRADIENT_ZEROED:
    case VS_LIFE_GRADIENT_STEPPED:
        return VS_LIFE_LIKE_GRADIENT;
    case VS_LIFE_ACTIVATION:
        return VS_LIFE_LIKE_ACTIVATION;
    case VS_LIFE_ACTIVATION_AGAIN:
        return VS_LIFE_LIKE_RECOMPUTED;
    default:
        return rule == VS_LIFE_TEMPORARY ? VS_LIFE_LIKE_TEMPORARY : MIXED;
    }
}

/* Whether the snapshot was taken before X would have ended, were it LIKE those before it. */
static bool is_cut_off(const struct finder *f, const struct life *x, uint8_t like)
{
    uint32_t last = (uint32_t)f->l.span_count - 1;
    if (x->rule || x->died != LIFE_STAYS || !x->born)
        return false;
    if (like == VS_LIFE_LIKE_TEMPORARY)
        return x->born_in == last;
    if (like == VS_LIFE_LIKE_ACTIVATION || like == VS_LIFE_LIKE_RECOMPUTED)
        return x->born_in >= f->cycle && f->l.spans[last].phase <= IMPORT_BACKWARD &&
               f->l.spans[last].phase >= IMPORT_FORWARD;
    uint32_t step = span_of(f, x)->next[IMPORT_OPTIMIZER];
    return like == VS_LIFE_LIKE_GRADIENT &&
           (!exists(f, step) || !exists(f, f->l.spans[step].next[IMPORT_BACKWARD]));
}

static void find_cut_off(struct finder *f)
{
    struct vs_table kin = {0};
    for (size_t i = 0; i < f->l.n; i++) {
        const struct life *x = &f->l.at[i];
        if (x->died == LIFE_STAYS || !x->born)
            continue;
        uint32_t known = vs_table_get(&kin, kin_of(x)), now = like(x->rule);
        if (vs_table_put(&kin, kin_of(x), known == VS_TABLE_NONE || known == now ? now : MIXED) < 0)
            exit(complain("out of memory"));
    }
    for (size_t i = 0; i < f->l.n; i++) {
        struct life *x = &f->l.at[i];
        uint32_t known = x->rule || x->died != LIFE_STAYS ? VS_TABLE_NONE : vs_table_get(&kin, kin_of(x));
        if (known != VS_TABLE_NONE && known != MIXED && is_cut_off(f, x, (uint8_t)known))
            x->rule = (uint8_t)known;
    }
    vs_table_free(&kin);
}

/* ---- the whole ---- */

static void read_spans(struct finder *f)
{
    uint32_t backward = 0, step = 0;
    const uint32_t *next = f->l.spans[0].next;
    f->begun = next[IMPORT_FORWARD] < next[IMPORT_BACKWARD] ? next[IMPORT_FORWARD] : next[IMPORT_BACKWARD];
    for (uint32_t i = 0; i < f->l.span_count; i++) {
        const struct span *s = &f->l.spans[i];
        if (s->phase < IMPORT_BACKWARD)
            continue;
        f->trained = s->last;
        f->backward = f->backward || s->phase == IMPORT_BACKWARD;
        f->optimizer = f->optimizer || s->phase == IMPORT_OPTIMIZER;
        backward = s->phase == IMPORT_BACKWARD && s->next[IMPORT_FORWARD] < f->l.span_count ? i : backward;
        step = s->phase == IMPORT_OPTIMIZER ? i : step;
    }
    f->cycle = step ? step + 1 : backward ? backward + 1 : 0;
}

static void find_all(struct finder *f)
{
    read_spans(f);
    for (size_t i = 0; i < f->l.n; i++) {
        struct life *x = &f->l.at[i];
        x->rule = rule_alone(f, x);
        f->freed = f->freed || x->rule == VS_LIFE_GRADIENT_ZEROED || x->rule == VS_LIFE_GRADIENT_STEPPED;
    }
    for (size_t i = 0; i < f->l.n; i++)
        count_block(f, &f->l.at[i]);
    find_kept_gradients(f);
    counts_gradients(&f->counts, &f->l);
    find_counted(f);
    find_by_lines(f);
    find_cut_off(f);
}

/* Why X has no role. */
static uint8_t unknown(struct finder *f, const struct life *x)
{
    if (x->born || x->stack)
        return VS_LIFE_UNKNOWN;
    const struct count *c = was_built(f, x) ? counts_of(&f->counts, x) : NULL;
    return c && c->gradients && c->built > c->gradients ? VS_LIFE_SEVERAL : VS_LIFE_BEFORE;
}

static uint8_t *said(struct roles *r, struct finder *f, const uint32_t *of, size_t n)
{
    uint8_t *rules = xrealloc(NULL, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct life *x = of[i] == UINT32_MAX ? NULL : &f->l.at[of[i]];
        rules[i] = !x ? 0 : x->rule ? x->rule : unknown(f, x);
        r->any = r->any || (x && x->rule);
    }
    return rules;
}

/* An export of ours says what was found, or what PyTorch had said, when its recording was made. */
static void take_rules(struct roles *r, const struct snapshot *s, const struct rewound *start)
{
    r->any = true;
    for (int d = 0; d < s->devices; d++) {
        for (size_t i = 0; i < s->traces[d].n; i++)
            r->of_entry[d][i] = s->traces[d].at[i].rule;
        for (size_t i = 0; i < start[d].block_count; i++)
            r->of_block[d][i] = start[d].blocks[i].rule;
    }
}

void roles_find(struct roles *r, const struct snapshot *s, const struct rewound *start,
                const struct phases *phases)
{
    struct finder f = {0};
    *r = (struct roles){0};
    lives_read(&f.l, s, start, phases);
    find_all(&f);
    for (int d = 0; d < s->devices; d++) {
        r->of_entry[d] = said(r, &f, f.l.of_entry[d], s->traces[d].n);
        r->of_block[d] = said(r, &f, f.l.of_block[d], start[d].block_count);
    }
    if (s->ruled)
        take_rules(r, s, start);
    counts_free(&f.counts);
    for (size_t i = 0; i < f.l.span_count; i++)
        if (f.l.spans[i].phase >= IMPORT_FORWARD)
            *PUSH(r->ends, r->end_count) = f.l.spans[i].until;
    lives_free(&f.l);
}

void roles_free(struct roles *r)
{
    for (int d = 0; d < SNAPSHOT_DEVICES; d++) {
        free(r->of_entry[d]);
        free(r->of_block[d]);
    }
    free(r->ends);
    *r = (struct roles){0};
}
