/*
 * made.h - programs whose every byte is known, and what changes make of them.
 *
 * A program is a text of events, one letter a phase and one a block:
 *
 *      f+a f-a         in forward a is born, and dies        |   the end of a step
 *
 * Phases: . none, f forward, l logits, b backward, o optimizer, e evaluation, where facts has that one.
 * Sizes, kinds, call stacks and, where facts says that they are known, types of the blocks are in a table.
 */
#ifndef TESTS_UNIT_EDIT_MADE_H
#define TESTS_UNIT_EDIT_MADE_H

#include "unit/test.h"
#include "edit/answer.h"

enum { NONE, FORWARD, LOGITS, BACKWARD, OPTIMIZER, EVALUATION, NAMES };
static const char *const names[NAMES] = {"none", "forward", "logits", "backward", "optimizer", "evaluation"};
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

/* What stack S knows is in row S: units 0 and 1, the output layer, Adam by lists and where it makes its
 * states. */
enum { NOWHERE, UNIT0, UNIT1, HEAD, LOSS, FOREACH, ADAM, NODE0, NODE1, NORM, STACKS };
static struct edit_stack stacks[STACKS] = {
    [NOWHERE] = {.unit = EDIT_NO_UNIT},
    [UNIT0] = {.unit = 0, .layer = 1},
    [UNIT1] = {.unit = 1, .layer = 2},
    [HEAD] = {.unit = EDIT_NO_UNIT, .layer = 3},
    [LOSS] = {.unit = EDIT_NO_UNIT, .layer = 4},
    [FOREACH] = {.unit = EDIT_NO_UNIT, .foreach = true, .adam = true, .update = true},
    [ADAM] = {.unit = EDIT_NO_UNIT, .adam = true},
    [NODE0] = {.unit = 0, .layer = 1},
    [NODE1] = {.unit = 1, .layer = 2},
    [NORM] = {.unit = 0, .layer = 5},
};
static char units_name[] = "Net.layers.*";
static struct edit_facts facts = {.forward = FORWARD,
                                  .logits = LOGITS,
                                  .backward = BACKWARD,
                                  .optimizer = OPTIMIZER,
                                  .evaluation = EDIT_NO_PHASE,
                                  .phase_names = names,
                                  .phase_count = NAMES,
                                  .stacks = stacks,
                                  .stack_count = STACKS,
                                  .units = 2,
                                  .units_name = units_name,
                                  .layers = true,
                                  .roles = true,
                                  .steps = 2};

struct known {
    char name;
    uint64_t size;
    enum edit_kind kind;
    uint32_t stack;
};

struct element { /* of a block whose type is known */
    char name;
    uint8_t type; /* ELEMENT_... */
    uint64_t shape;
    bool raw;
};

struct made {
    struct program p;
    struct edit_block blocks[64];
    struct trace_moment events[256];
};

static const struct known *known_as(const struct known *table, char name)
{
    while (table->name && table->name != name)
        table++;
    assert_int_not_equal(table->name, 0);
    return table;
}

static const struct element *elements; /* up to a name of 0; NULL: no types are known */
static struct asked asked_for[128];    /* by the block's letter */

static void take_element(struct edit_block *b, char name)
{
    for (const struct element *e = elements; e && e->name; e++)
        if (e->name == name) {
            b->type = e->type;
            b->asked = (uint32_t)name;
            asked_for[(int)name] = (struct asked){.shape = e->shape, .raw = e->raw};
        }
}

static uint32_t living(const struct made *m, const char *of, char name)
{
    for (size_t i = m->p.block_count; i-- > 0;)
        if (of[i] == name && m->blocks[i].died == BLOCK_NEVER)
            return (uint32_t)i;
    fail_msg("%c does not live", name);
    return 0;
}

static void make(struct made *m, const char *text, const struct known *table)
{
    static const char phases[] = ".flboe";
    char of[64] = {0};
    *m = (struct made){.p = {.facts = &facts}};
    m->p.blocks = m->blocks;
    m->p.events = m->events;
    for (; *text; text++) {
        uint32_t at = (uint32_t)m->p.event_count;
        if (*text == ' ')
            continue;
        if (*text == '|') {
            m->events[m->p.event_count++] = (struct trace_moment){.what = MOMENT_STEP};
            continue;
        }
        uint16_t phase = (uint16_t)(strchr(phases, text[0]) - phases);
        if (phase && (!at || m->events[at - 1].phase != phase))
            m->events[m->p.event_count++] =
                (struct trace_moment){.phase = phase, .what = MOMENT_PHASE}; /* as program_read does */
        at = (uint32_t)m->p.event_count;
        if (text[1] == '+') {
            const struct known *k = known_as(table, text[2]);
            of[m->p.block_count] = k->name;
            m->blocks[m->p.block_count] = (struct edit_block){
                .size = k->size, .kind = k->kind, .stack = k->stack, .born = at, .died = BLOCK_NEVER};
            take_element(&m->blocks[m->p.block_count], k->name);
            m->events[m->p.event_count++] = (struct trace_moment){
                .block = (uint32_t)m->p.block_count++, .phase = phase, .what = MOMENT_BORN};
        } else {
            uint32_t block = living(m, of, text[2]);
            m->blocks[block].died = at;
            m->events[m->p.event_count++] =
                (struct trace_moment){.block = block, .phase = phase, .what = MOMENT_DIED};
        }
        text += 2;
    }
}

struct peaks {
    uint64_t low, high, phase[NAMES]; /* phase: of the low end */
    uint64_t high_forward, high_backward;
};

static uint64_t peak_of(const struct program *p, uint64_t *phases)
{
    static const bool wanted[FEED_POLICIES] = {[FEED_LIVE] = true};
    struct torch_settings settings = torch_defaults();
    struct answer a = answer_of(p, &settings, wanted);
    uint64_t peak = a.of[FEED_LIVE].peak.allocated;
    if (phases)
        memcpy(phases, a.of[FEED_LIVE].phase_allocated, NAMES * sizeof *phases);
    answer_free(&a);
    return peak;
}

/* Every block that dies was born before, once. */
static inline void check_whole(const struct program *p)
{
    bool *lives = calloc(p->block_count + 1, 1);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what != MOMENT_BORN && e->what != MOMENT_DIED)
            continue;
        assert_true(e->block < p->block_count);
        assert_int_equal(lives[e->block], e->what == MOMENT_DIED);
        lives[e->block] = e->what == MOMENT_BORN;
    }
    free(lives);
}

static inline struct peaks edited(const struct made *m, const char *text)
{
    struct edit e;
    char *why = NULL;
    struct peaks peaks;
    assert_true(edit_parse(text, &e, &why));
    struct edit_result r = edit_apply(&m->p, &e);
    assert_null(r.why);
    check_whole(&r.low);
    peaks.low = peak_of(&r.low, peaks.phase);
    peaks.high = peaks.low;
    peaks.high_forward = peaks.phase[FORWARD];
    peaks.high_backward = peaks.phase[BACKWARD];
    if (r.high.event_count) {
        uint64_t phases[NAMES];
        check_whole(&r.high);
        peaks.high = peak_of(&r.high, phases);
        peaks.high_forward = phases[FORWARD];
        peaks.high_backward = phases[BACKWARD];
    }
    edit_free_result(&r);
    return peaks;
}

static inline void assert_refused(const struct made *m, const char *text, const char *because)
{
    struct edit e;
    char *why = NULL;
    assert_true(edit_parse(text, &e, &why));
    struct edit_result r = edit_apply(&m->p, &e);
    assert_non_null(r.why);
    assert_non_null(strstr(r.why, because));
    assert_int_equal(r.low.event_count, 0);
    edit_free_result(&r);
}

/* ---- a step with two parameters ---- */

/* w and v; s and t are their states, x and y what Adam makes by lists */
static const struct known step[] = {
    {'w', KIB(400), KIND_PARAMETER, NOWHERE}, {'v', KIB(100), KIND_PARAMETER, NOWHERE},
    {'a', KIB(1000), KIND_SAVED, UNIT0},      {'c', KIB(2000), KIND_SAVED, UNIT1},
    {'g', KIB(400), KIND_GRADIENT, NODE1},    {'h', KIB(100), KIND_GRADIENT, NODE0},
    {'s', KIB(400), KIND_STATE, FOREACH},     {'t', KIB(100), KIND_STATE, FOREACH},
    {'x', KIB(400), KIND_UPDATE, FOREACH},    {'y', KIB(100), KIND_UPDATE, FOREACH},
    {'k', KIB(32), KIND_OTHER, NOWHERE},      {0}};

#define FIRST  ".+w .+v f+k f+a f+c b+g b-c b+h b-a o+s o+s o+t o+t o+x o+y o-x o-y .-g .-h |"
#define SECOND " f+a f+c b+g b-c b+h b-a o+x o+y o-x o-y .-g .-h |"

/* ---- whose element types are known ---- */

static inline struct made typed(const char *text, const struct known *table, const struct element *of)
{
    struct made m;
    facts.types = true;
    elements = of;
    facts.asked = (struct asked_table){asked_for, 128};
    make(&m, text, table);
    return m;
}
/* The program's blocks are in what was copied. */
#define TYPED(m, text, table)                                                                                \
    struct made m = typed(text, table, table##_elements);                                                    \
    m.p.blocks = m.blocks;                                                                                   \
    m.p.events = m.events

#endif
