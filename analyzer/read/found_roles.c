/*
 * found_roles.c - what a recording's blocks are for by their lives, where nobody followed them and PyTorch
 * says nothing: an import's rules (import/roles.h) over recorded phases.
 *
 *      forward .. backward                            an activation; made in logits: the head's output
 *      one stretch of a phase                         a temporary
 *      backward .. behind an optimizer's step         a gradient
 *      asked for without a tensor, and kept           a library's workspace
 *      asked of the driver by cuBLAS, NCCL and such   likewise, or for communication
 *      made by transformers' code for that            a cache, but not in training, where backward frees it
 *
 * What backward computes again (a layer's call inside an autograd node's run) is a stretch of its own.
 * What had no time to end is what all others of its call stack were; so is what the exception of a refused
 * request let go of.  The answers lie in a temporary table, which each query sees.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "living.h"
#include "sql.h"
#include "tape.h"

#define DEVICES     64
#define EVENTS_MOST 3000000 /* more take longer than anybody waits for a role */

enum group { OTHER, FORWARD, BACKWARD, AGAIN, OPTIMIZER, EVALUATION };

struct stretches { /* of a device, counted from 1 */
    enum group now;
    uint32_t stretch;             /* of a phase */
    uint32_t part;                /* likewise, where what is computed again is a part of backward */
    uint32_t backward, optimizer; /* the last stretch of either */
    size_t refused; /* the blocks before the last out-of-memory that the framework told the program of */
    size_t refused_step;
};

struct birth {
    int64_t seq, stack;
    size_t order; /* of the device's blocks */
    uint32_t step, stretch, part;
    uint8_t device, group, rule;
    uint8_t open;                /* what it may have been, as it had no time to end */
    bool logits, raw, dead, cut; /* CUT: its end does not say what it was */
};

enum { OPEN_TEMPORARY = 1, OPEN_GRADIENT = 2, OPEN_ACTIVATION = 4 };

struct stack {
    int64_t id;
    bool again, raw; /* in a node's run; asked of the allocator by a library */
};

struct finding {
    struct trace *t;
    struct stack *stacks;
    size_t stack_count;
    struct stretches of[DEVICES];
    struct birth *births;
    size_t count;
    const struct trace_tape *tape; /* of DEVICE, whose births begin with FIRST */
    uint8_t device;
    size_t first, step, last_step; /* steps that ended before the event; before the last one of any device */
    uint8_t *groups;               /* by phase */
    int64_t logits;
};

static enum group group_named(const char *name)
{
    static const struct {
        const char *name;
        enum group group;
    } known[] = {{"forward", FORWARD},
                 {"logits", FORWARD},
                 {"backward", BACKWARD},
                 {"optimizer", OPTIMIZER},
                 {"evaluation", EVALUATION}};
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].group;
    return OTHER;
}

static enum group group_of(const struct finding *f, int64_t phase)
{
    return phase > 0 && phase < (int64_t)f->t->phase_name_count ? (enum group)f->groups[phase] : OTHER;
}

/* An event outside any phase ends none. */
static void enter(struct stretches *s, enum group group)
{
    if (group == OTHER || group == s->now)
        return;
    bool within = (group == AGAIN || group == BACKWARD) && (s->now == AGAIN || s->now == BACKWARD);
    s->now = group;
    s->part++;
    s->stretch += !within;
    if (group == OPTIMIZER)
        s->optimizer = s->stretch;
    if (group == AGAIN || group == BACKWARD)
        s->backward = s->stretch;
}

static void born(struct finding *f, const struct tape_event *e)
{
    const struct tape_block *block = &f->tape->blocks[e->id];
    const struct stack *stack = FIND(block->stack, f->stacks, f->stack_count);
    struct stretches *s = &f->of[f->device];
    enum group group = group_of(f, e->phase);
    group = group == BACKWARD && stack && stack->again ? AGAIN : group;
    enter(s, group);
    *PUSH(f->births, f->count) =
        (struct birth){.seq = block->seq,
                       .stack = block->stack,
                       .order = e->id,
                       .step = (uint32_t)f->step,
                       .stretch = s->stretch,
                       .part = s->part,
                       .device = f->device,
                       .group = (uint8_t)group,
                       .logits = e->phase == f->logits,
                       .raw = f->tape->made_for.at[block->asked].raw && !(stack && stack->raw)};
}

/* Of a block that ends in GROUP, in the same step as it began. */
static uint8_t rule_within(const struct birth *b, const struct stretches *s, enum group group)
{
    bool backward = group == BACKWARD;
    if (b->group == FORWARD && backward)
        return b->logits ? VS_LIFE_LOGITS : VS_LIFE_ACTIVATION;
    if (b->group == AGAIN && backward)
        return b->part == s->part ? VS_LIFE_TEMPORARY : VS_LIFE_ACTIVATION_AGAIN;
    return b->group != OTHER && b->stretch == s->stretch ? VS_LIFE_TEMPORARY : 0;
}

static uint8_t rule_of(const struct birth *b, const struct stretches *s, enum group group, uint32_t step)
{
    bool back = b->group == BACKWARD || b->group == AGAIN;
    if (b->raw && step != b->step)
        return VS_LIFE_WORKSPACE_RAW;
    if (back && s->optimizer > b->stretch && s->backward == b->stretch && group != BACKWARD &&
        group != OPTIMIZER)
        return b->raw ? 0 : VS_LIFE_GRADIENT_LIVED;
    return step == b->step ? rule_within(b, s, group) : 0;
}

/* What B would not have ended yet, were it that, in step STEP. */
static uint8_t open_of(const struct birth *b, const struct stretches *s, size_t step)
{
    return (uint8_t)((b->stretch == s->stretch ? OPEN_TEMPORARY : 0) |
                     (b->stretch == s->backward ? OPEN_GRADIENT : 0) |
                     (b->step == step && s->optimizer < b->stretch ? OPEN_ACTIVATION : 0));
}

static void died(struct finding *f, const struct tape_event *e)
{
    struct birth *b = &f->births[f->first + e->id];
    struct stretches *s = &f->of[f->device];
    enum group group = group_of(f, e->phase);
    enter(s, group == BACKWARD && s->now == AGAIN ? AGAIN : group);
    b->dead = true;
    b->rule = rule_of(b, s, group, (uint32_t)f->step);
    b->cut = b->order < s->refused && b->step == s->refused_step &&
             (!b->rule || b->rule == VS_LIFE_TEMPORARY); /* any other end says what it was */
    if (b->cut) /* in a later step the exception held it, with no optimizer before */
        b->open = b->step == f->step ? open_of(b, s, f->step) : OPEN_ACTIVATION;
}

static void refused(struct finding *f)
{
    f->of[f->device].refused = f->count - f->first;
    f->of[f->device].refused_step = f->step;
}

static void walk(struct finding *f)
{
    size_t steps = 0;
    f->first = f->count;
    f->step = 0;
    for (size_t i = 0; i < f->tape->n; i++) {
        const struct tape_event *e = &f->tape->at[i];
        while (steps < f->tape->step_count && f->tape->steps[steps] <= i)
            steps++;
        if (e->what != TAPE_ALLOC && e->what != TAPE_FREE && e->what != TAPE_OOM)
            continue;
        f->step = steps;
        if (e->what == TAPE_ALLOC)
            born(f, e);
        else if (e->what == TAPE_FREE)
            died(f, e);
        else
            refused(f);
    }
    f->last_step = f->step > f->last_step ? f->step : f->last_step;
}

static int read_stacks(struct finding *f)
{
    struct sqlite3_stmt *s =
        trace_sql(f->t,
                  "SELECT s.id, s.again, n.function = 'caching_allocator_alloc' FROM stack s LEFT JOIN frame "
                  "n ON n.id = s.frame ORDER BY s.id",
                  0);
    while (trace_sql_row(s))
        *PUSH(f->stacks, f->stack_count) = (struct stack){
            sqlite3_column_int64(s, 0), sqlite3_column_int(s, 1) != 0, sqlite3_column_int(s, 2) != 0};
    return trace_sql_done(f->t, s);
}

static int walk_devices(struct finding *f)
{
    for (size_t i = 0; i < f->t->peak_count; i++) {
        const struct trace_peak *p = &f->t->peaks[i];
        if (strcmp(p->kind, "framework") != 0 || p->device < 0 || p->device >= DEVICES)
            continue;
        f->device = (uint8_t)p->device;
        if (!(f->tape = trace_tape(f->t, p->device)))
            return -1;
        walk(f);
    }
    return 0;
}

/* ---- what had no time to end ---- */

#define MIXED UINT8_MAX

static uint8_t cut_off(uint8_t rule)
{
    switch (rule) {
    case VS_LIFE_ACTIVATION:
        return VS_LIFE_LIKE_ACTIVATION;
    case VS_LIFE_ACTIVATION_AGAIN:
        return VS_LIFE_LIKE_RECOMPUTED;
    case VS_LIFE_LOGITS:
        return VS_LIFE_LIKE_LOGITS;
    case VS_LIFE_GRADIENT_LIVED:
        return VS_LIFE_LIKE_GRADIENT_LIVED;
    default:
        return rule == VS_LIFE_TEMPORARY ? VS_LIFE_LIKE_TEMPORARY : MIXED;
    }
}

static bool is_unfinished(const struct birth *b, uint8_t rule)
{
    return b->open & (rule == VS_LIFE_LIKE_TEMPORARY        ? OPEN_TEMPORARY
                      : rule == VS_LIFE_LIKE_GRADIENT_LIVED ? OPEN_GRADIENT
                                                            : OPEN_ACTIVATION);
}

static void find_cut_off(struct finding *f)
{
    size_t most = 0;
    for (size_t i = 0; i < f->count; i++)
        most = f->births[i].stack > (int64_t)most && f->births[i].stack < UINT32_MAX
                   ? (size_t)f->births[i].stack
                   : most;
    uint8_t *kin = xrealloc(NULL, most + 1);
    memset(kin, 0, most + 1);
    for (size_t i = 0; i < f->count; i++) {
        const struct birth *b = &f->births[i];
        if (!b->dead || b->cut || b->stack <= 0 || b->stack > (int64_t)most)
            continue;
        uint8_t like = cut_off(b->rule);
        kin[b->stack] = !kin[b->stack] || kin[b->stack] == like ? like : MIXED;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct birth *b = &f->births[i];
        if (b->dead && !b->cut)
            continue;
        if (!b->dead)
            b->open = open_of(b, &f->of[b->device], f->last_step);
        uint8_t like = b->stack > 0 && b->stack <= (int64_t)most ? kin[b->stack] : 0;
        if (b->raw && f->of[b->device].stretch != b->stretch)
            b->rule = VS_LIFE_WORKSPACE_RAW;
        else if (like && like != MIXED && is_unfinished(b, like))
            b->rule = like;
    }
    free(kin);
}

/* ---- the table ---- */

static const char *said(const struct trace *t)
{
    return t->processes > 1 ? "temp.one_framework_role" : "main.framework_role";
}

static int make_table(struct trace *t)
{
    return trace_sql_run(t,
                         "DROP VIEW IF EXISTS temp.framework_role;"
                         "DROP TABLE IF EXISTS temp.found_role;"
                         "CREATE TEMP TABLE found_role(alloc_seq INTEGER PRIMARY KEY, role INT);"
                         "CREATE TEMP VIEW framework_role AS SELECT alloc_seq, role FROM %s UNION ALL "
                         "SELECT alloc_seq, role FROM temp.found_role",
                         said(t));
}

static int put(struct finding *f)
{
    sqlite3_stmt *s = NULL;
    char *sql = xformat("INSERT OR IGNORE INTO temp.found_role SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM "
                        "%s WHERE alloc_seq = ?1)",
                        said(f->t));
    int code = sqlite3_prepare_v2(f->t->db, sql, -1, &s, NULL);
    free(sql);
    if (code == SQLITE_OK) /* else each row would lock the file anew */
        code = sqlite3_exec(f->t->db, "BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; code == SQLITE_OK && i < f->count; i++) {
        if (!f->births[i].rule)
            continue;
        sqlite3_bind_int64(s, 1, f->births[i].seq);
        sqlite3_bind_int64(s, 2, f->births[i].rule);
        code = sqlite3_step(s) == SQLITE_DONE ? sqlite3_reset(s) : SQLITE_ERROR;
    }
    int result = code == SQLITE_OK ? 0 : trace_sql_error(f->t);
    sqlite3_finalize(s);
    sqlite3_exec(f->t->db, "COMMIT", NULL, NULL, NULL);
    return result;
}

bool trace_follows(struct trace *t)
{
    return trace_sql_one(t, "SELECT EXISTS(SELECT 1 FROM access)", 0) == 1;
}

static bool has_caches(struct trace *t)
{
    bool told = trace_is_imported(t) || trace_follows(t);
    return !told &&
           trace_sql_one(t, "SELECT 1 FROM frame WHERE file LIKE '%/transformers/cache_utils.py' LIMIT 1",
                         0) == 1;
}

/* In a training's forward the same code makes what backward frees: activations. */
static int put_caches(struct trace *t)
{
    return trace_sql_run(
        t,
        "INSERT INTO temp.found_role SELECT e.seq, %d FROM ev e CROSS JOIN kind k ON k.id = e.kind WHERE "
        "e.op "
        "= %d AND k.status = 0 AND e.stack IN (SELECT s.id FROM stack s JOIN frame f ON f.id = s.line WHERE "
        "f.file LIKE '%%/transformers/cache_utils.py') AND e.phase NOT IN (SELECT id FROM phase WHERE name "
        "IN ('forward', 'logits', 'backward', 'optimizer')) AND e.seq NOT IN (SELECT alloc_seq FROM %s)",
        VS_LIFE_CACHE, VS_OP_BLOCK_ALLOC, said(t));
}

/* What libraries ask the driver for themselves, as view access_role has it. */
static int put_libraries(struct trace *t)
{
    return trace_sql_run(
        t,
        "INSERT OR IGNORE INTO temp.found_role SELECT e.seq, CASE WHEN o.text LIKE 'libnccl%%' OR o.text "
        "LIKE 'libnvshmem%%' THEN %d ELSE %d END FROM ev e CROSS JOIN kind k ON k.id = e.kind CROSS JOIN "
        "stack s ON s.id = e.stack CROSS JOIN string o ON o.id = s.owner WHERE e.op = 1 AND k.status = 0 "
        "AND NOT k.managed AND (o.text LIKE 'libcublas%%' OR o.text LIKE 'libcudnn%%' OR o.text LIKE "
        "'libcufft%%' OR o.text LIKE 'libcusolver%%' OR o.text LIKE 'libcusparse%%' OR o.text LIKE "
        "'libcutensor%%' OR o.text LIKE 'libnccl%%' OR o.text LIKE 'libnvshmem%%') AND e.seq NOT IN "
        "(SELECT seq FROM amend WHERE op = 50)",
        VS_LIFE_LIBRARY_COMMUNICATES, VS_LIFE_LIBRARY);
}

/* An imported snapshot's roles are in the file, and where accesses were followed they say more.  Where a free
 * may be missing a block looks as if it lived. */
static bool is_wanted(struct trace *t, const struct finding *f)
{
    bool backward = false;
    for (size_t i = 0; i < t->phase_name_count; i++)
        backward = backward || f->groups[i] == BACKWARD;
    bool whole = !t->thinned && t->folded.stretches <= 0 && !trace_has_loss(t, LOSS_EVENTS);
    return backward && whole && t->events <= EVENTS_MOST && !trace_is_imported(t) && !trace_follows(t) &&
           trace_sql_one(t, "SELECT 1 FROM ev WHERE op = 20 LIMIT 1", 0) == 1;
}

int trace_find_roles(struct trace *t)
{
    struct finding f = {.t = t, .groups = xrealloc(NULL, t->phase_name_count + 1), .logits = -1};
    int result = 0;
    for (size_t i = 0; i < t->phase_name_count; i++) {
        f.groups[i] = (uint8_t)group_named(t->phase_names[i]);
        if (t->phase_names[i] && !strcmp(t->phase_names[i], "logits"))
            f.logits = (int64_t)i;
    }
    bool wanted = is_wanted(t, &f), caches = has_caches(t);
    if (wanted || caches)
        result = make_table(t) || (caches && put_caches(t)) ? -1 : 0;
    if (wanted && !result) {
        result = read_stacks(&f) || walk_devices(&f) ? -1 : 0;
        if (!result) {
            find_cut_off(&f);
            result = put(&f) || put_libraries(t) ? -1 : 0;
            t->found_roles = !result;
        }
    }
    free(f.groups);
    free(f.stacks);
    free(f.births);
    return result;
}
