/*
 * ledger_story.h - the words of stories about the ledger (unit/story.h), each of a ledger of its own.
 *
 *      alloc 0x1000 4M in=pool; free 0x1000; last direct=0 mate=1 size=4M
 *
 * A clause is an event (verbs), a setting of the kit (settle), or what must hold (figure, total, hold). @op
 * is the number of the last row of that op.  Names are those of the database.
 */
#ifndef TESTS_UNIT_TRACE_LEDGER_LEDGER_STORY_H
#define TESTS_UNIT_TRACE_LEDGER_LEDGER_STORY_H

#include "ledger_kit.h"
#include "unit/story.h"

/* ---- words ---- */

#define X(n, NAME, text) {text, n},
static const struct word spaces[] = {VS_SPACES(X){NULL, 0}};
static const struct word ops[] = {VS_OPS(X){NULL, 0}};
#undef X
#define X(NAME, text) {text, VS_CURVE_##NAME},
static const struct word curves[] = {VS_CURVES(X){NULL, 0}};
#undef X
#define X(NAME, text) {text, VS_COUNT_##NAME},
static const struct word counters[] = {VS_COUNTS(X){NULL, 0}};
#undef X
#define X(NAME, text) {text, VS_MISMATCH_##NAME},
static const struct word mismatches[] = {VS_MISMATCHES(X){NULL, 0}};
#undef X
static const struct word callers[] = {
    {"carver", VS_CALLED_BY(VS_CALLER_CARVER)}, {"pool", VS_CALLED_BY(VS_CALLER_POOL)}, {NULL, 0}};
static const struct word phases[] = {{"none", VS_PHASE_NONE},           {"forward", VS_PHASE_FORWARD},
                                     {"logits", VS_PHASE_LOGITS},       {"backward", VS_PHASE_BACKWARD},
                                     {"optimizer", VS_PHASE_OPTIMIZER}, {NULL, 0}};
static const struct word kinds[] = {{"primary", VS_CONTEXT_PRIMARY}, {"green", VS_CONTEXT_GREEN}, {NULL, 0}};
static const struct word roles[] = {{"first", VS_OOM_FIRST},
                                    {"last", VS_OOM_LAST},
                                    {"largest", VS_OOM_LARGEST},
                                    {"open_last", VS_OOM_OPEN_LAST},
                                    {NULL, 0}};

/* ---- events ---- */

/* The order in which numbers stand behind the verb: a, s address and size, 0 and 1 arg0 and arg1, r range. */
static const struct verb {
    const char *name, *order;
    struct vs_event e;
} verbs[] = {
    {"alloc", "as", {.op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE}},
    {"free", "a", {.op = VS_OP_FREE, .status = VS_STATUS_PENDING}},
    {"failed", "a", {.op = VS_OP_FREE_FAILED, .status = 1}}, /* the last end at that address */
    {"block", "as", {.op = VS_OP_BLOCK_ALLOC}},              /* the framework's totals are the kit's */
    {"unblock", "as", {.op = VS_OP_BLOCK_FREE}},
    {"give_up", "s", {.op = VS_OP_BLOCK_OOM}},
    {"sample", "s0a", {.op = VS_OP_SAMPLE}},
    {"create", "as", {.op = VS_OP_PHYS_CREATE, .arg0 = 1ull << 32}},
    {"object", "as", {.op = VS_OP_PHYS_CREATE, .space = VS_SPACE_MULTICAST}},
    {"retain", "a0", {.op = VS_OP_PHYS_RETAIN}},
    {"release", "a", {.op = VS_OP_PHYS_RELEASE}},
    {"map", "as0", {.op = VS_OP_MAP}},
    {"unmap", "as", {.op = VS_OP_UNMAP}},
    {"reserve", "as", {.op = VS_OP_VA_RESERVE}},
    {"unreserve", "as", {.op = VS_OP_VA_FREE}},
    {"access", "as0", {.op = VS_OP_SET_ACCESS}},
    {"bind", "a01", {.op = VS_OP_BIND}}, /* object, memory, key */
    {"unbind", "a1", {.op = VS_OP_UNBIND}},
    {"push", "ra0", {.op = VS_OP_RANGE_PUSH, .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE}},
    {"nvtx", "ra", {.op = VS_OP_RANGE_PUSH, .arg1 = VS_SOURCE_NVTX}},
    {"pop", "r", {.op = VS_OP_RANGE_POP}},
    {"step", "0", {.op = VS_OP_STEP, .device = -1}},
    {"holds", "s", {.op = VS_OP_ARENA_RESERVED, .space = VS_SPACE_ARENA}},
    {"away_block", "as", {.op = VS_OP_BLOCK_AWAY, .space = VS_SPACE_ARENA, .arg0 = VS_AWAY_PARKED}},
    {"pool", "s", {.op = VS_OP_POOL_RESERVED, .space = VS_SPACE_POOL, .address = 0x77000}},
    {"graphs", "s", {.op = VS_OP_POOL_RESERVED, .space = VS_SPACE_GRAPH, .address = VS_GRAPH_POOL(0)}},
    {"node", "as", {.op = VS_OP_GRAPH_NODE, .space = VS_SPACE_GRAPH}},
    {"context", "a", {.op = VS_OP_CONTEXT_CREATE, .size = 500, .arg0 = VS_CONTEXT_CREATED}},
    {"destroy", "a", {.op = VS_OP_CONTEXT_DESTROY, .size = 500, .arg0 = VS_CONTEXT_CREATED}},
    {"module", "a", {.op = VS_OP_MODULE_LOAD, .size = 500}},
    {"limit", "0s", {.op = VS_OP_LIMIT}},
    {"overhead", "0s", {.op = VS_OP_OVERHEAD}},
};

static const struct field event_fields[] = {
    {"in", MEMBER(vs_event, space), spaces}, {"ctx", MEMBER(vs_event, context), NULL},
    {"dev", MEMBER(vs_event, device), NULL}, {"kind", MEMBER(vs_event, arg0), kinds},
    {"by", MEMBER(vs_event, arg1), callers}, {"away", MEMBER(vs_event, address), NULL},
    {FIELD(vs_event, arg0), NULL},           {FIELD(vs_event, arg1), NULL},
    {FIELD(vs_event, status), NULL},         {FIELD(vs_event, stack), NULL},
    {FIELD(vs_event, size), NULL},           {NULL, 0, 0, NULL}};

static void place(struct vs_event *e, char what, uint64_t value)
{
    if (what == 'r')
        e->range = (uint32_t)value;
    else
        *(what == 'a' ? &e->address : what == 's' ? &e->size : what == '0' ? &e->arg0 : &e->arg1) = value;
}

/* arg1 is several things at once. */
static void set_field(struct kit *k, struct vs_event *e, const char *key)
{
    const char *value = strchr(key, '=') + 1;
    const struct field *f = field_of(event_fields, key, value);
    uint64_t n = number(k, f->words, value) | (f->at == offsetof(struct vs_event, arg1) ? e->arg1 : 0);
    memcpy((char *)e + f->at, &n, f->size);
}

static void happen(struct kit *k, struct vs_event *e)
{
    if (e->op == VS_OP_BLOCK_ALLOC || e->op == VS_OP_BLOCK_FREE || e->op == VS_OP_BLOCK_OOM) {
        k->framework += e->op == VS_OP_BLOCK_ALLOC ? e->size : e->op == VS_OP_BLOCK_FREE ? -e->size : 0;
        e->arg0 = k->framework;
        e->arg1 = k->reserved;
    }
    for (uint64_t i = k->ring; e->op == VS_OP_FREE_FAILED && e->arg0 == 0 && i > 0; i--)
        if (k->address[i] == e->address)
            e->arg0 = i;
    assert_true(k->ring + 1 < sizeof k->address / sizeof *k->address);
    k->address[k->ring + 1] = e->address;
    feed(k, *e);
}

/* The words of a clause, a NULL behind them. */
static bool event(struct kit *k, char **word)
{
    size_t i = 0;
    while (i < sizeof verbs / sizeof *verbs && strcmp(verbs[i].name, *word))
        i++;
    if (i == sizeof verbs / sizeof *verbs)
        return false;
    struct vs_event e = verbs[i].e;
    for (const char *order = verbs[i].order; *++word;)
        if (strchr(*word, '='))
            set_field(k, &e, *word);
        else
            place(&e, *order++, number(k, phases, *word));
    happen(k, &e);
    return true;
}

/* ---- settings ---- */

static void add_to(uint64_t *figure, const char *text, uint64_t n)
{
    *figure = *text == '+' ? *figure + n : *text == '-' ? *figure - n : n;
}

/* thread, device, within (a range): of the events that follow.  framework, cached: the framework's totals, or
 * by how much they change.  later: milliseconds pass.  lose, lose_ends: from here on, up to N events later.
 */
static bool settle(struct kit *k, char **word)
{
    const char *what = word[0], *text = word[1] ? word[1] : "0";
    if (!strcmp(what, "framework"))
        add_to(&k->framework, text, number(k, NULL, text + (*text == '+' || *text == '-')));
    else if (!strcmp(what, "cached"))
        add_to(&k->reserved, text, number(k, NULL, text + (*text == '+' || *text == '-')));
    else if (!strcmp(what, "thread"))
        k->thread = (uint16_t)number(k, NULL, text);
    else if (!strcmp(what, "device"))
        k->device = (int8_t)number(k, NULL, text);
    else if (!strcmp(what, "within"))
        k->range = (uint32_t)number(k, NULL, text);
    else if (!strcmp(what, "later"))
        k->t += number(k, NULL, text) * 1000000;
    else if (!strcmp(what, "lose"))
        vs_ledger_lost(k->l, k->ring + 1);
    else if (!strcmp(what, "lose_ends"))
        vs_ledger_lost_ends(k->l, k->ring + 1, k->ring + 1 + number(k, NULL, text));
    else if (!strcmp(what, "flush"))
        vs_ledger_flush(k->l, &k->out);
    else if (!strcmp(what, "finish"))
        vs_ledger_finish(k->l, &k->out);
    else
        return false;
    return true;
}

/* ---- what must hold ---- */

static const struct field row_fields[] = {{FIELD(vs_row, seq), NULL},     {FIELD(vs_row, op), ops},
                                          {FIELD(vs_row, space), spaces}, {FIELD(vs_row, address), NULL},
                                          {FIELD(vs_row, size), NULL},    {FIELD(vs_row, mate), NULL},
                                          {FIELD(vs_row, device), NULL},  {FIELD(vs_row, framework), NULL},
                                          {FIELD(vs_row, direct), NULL},  {FIELD(vs_row, reserved), NULL},
                                          {FIELD(vs_row, managed), NULL}, {FIELD(vs_row, status), NULL},
                                          {FIELD(vs_row, phase), phases}, {FIELD(vs_row, stream), NULL},
                                          {FIELD(vs_row, api), NULL},     {NULL, 0, 0, NULL}};
static const struct field range_fields[] = {{FIELD(vs_range_row, phase), phases},
                                            {FIELD(vs_range_row, name), NULL},
                                            {FIELD(vs_range_row, domain), NULL},
                                            {FIELD(vs_range_row, t_pop), NULL},
                                            {FIELD(vs_range_row, step), NULL},
                                            {FIELD(vs_range_row, flags), NULL}, /* 1 outermost, 4 lost */
                                            {NULL, 0, 0, NULL}};
static const struct field range_peak_fields[] = {{FIELD(vs_range_peak_row, allocated), NULL},
                                                 {NULL, 0, 0, NULL}};
static const struct field phase_fields[] = {
    {FIELD(vs_phase_row, allocated), NULL},   {FIELD(vs_phase_row, ranges), NULL},
    {FIELD(vs_phase_row, ns), NULL},          {FIELD(vs_phase_row, open_ns), NULL},
    {FIELD(vs_phase_row, t_allocated), NULL}, {NULL, 0, 0, NULL}};
static const struct field mismatch_fields[] = {{FIELD(vs_mismatch_row, what), mismatches},
                                               {FIELD(vs_mismatch_row, ours), NULL},
                                               {FIELD(vs_mismatch_row, theirs), NULL},
                                               {NULL, 0, 0, NULL}};
static const struct field curve_fields[] = {
    {FIELD(vs_peak_row, peak), NULL}, {FIELD(vs_peak_row, known), NULL}, {NULL, 0, 0, NULL}};
static const struct field oom_fields[] = {{FIELD(vs_oom_row, seq), NULL},
                                          {FIELD(vs_oom_row, op), ops},
                                          {FIELD(vs_oom_row, roles), NULL},
                                          {FIELD(vs_oom_row, requested), NULL},
                                          {FIELD(vs_oom_row, direct), NULL},
                                          {FIELD(vs_oom_row, pinned), NULL},
                                          {FIELD(vs_oom_row, registered), NULL},
                                          {FIELD(vs_oom_row, refusals), NULL},
                                          {FIELD(vs_oom_row, asked_driver), NULL},
                                          {FIELD(vs_oom_row, free_bytes), NULL},
                                          {FIELD(vs_oom_row, device_used), NULL},
                                          {FIELD(vs_oom_row, process_used), NULL},
                                          {FIELD(vs_oom_row, process_used_t), NULL},
                                          {FIELD(vs_oom_row, step), NULL},
                                          {NULL, 0, 0, NULL}};
static const struct field away_fields[] = {
    {FIELD(vs_away_row, seq), NULL}, {FIELD(vs_away_row, bytes), NULL}, {NULL, 0, 0, NULL}};
static const struct field moved_fields[] = {
    {FIELD(vs_away_block_row, seq), NULL},   {FIELD(vs_away_block_row, alloc_seq), NULL},
    {FIELD(vs_away_block_row, bytes), NULL}, {FIELD(vs_away_block_row, out), NULL},
    {FIELD(vs_away_block_row, back), NULL},  {NULL, 0, 0, NULL}};
static const struct field doubt_fields[] = {{"from", MEMBER(vs_doubt_row, from_seq), NULL},
                                            {"to", MEMBER(vs_doubt_row, to_seq), NULL},
                                            {NULL, 0, 0, NULL}};

static void sum_up(void *context, const struct vs_alloc *a)
{
    *(uint64_t *)context += a->size;
}

/* The one device's peak, and what lived then adds up to it. */
static uint64_t highest(struct kit *k)
{
    struct vs_peak_info peak;
    uint64_t sum = 0;
    assert_int_equal(vs_ledger_peaks(k->l, &peak, 1), 1);
    vs_ledger_each_at_peak(k->l, peak.device, sum_up, &sum);
    assert_int_equal(peak.bytes, sum);
    return sum;
}

static uint64_t lived_at_oom(struct kit *k, uint64_t seq)
{
    uint64_t sum = 0;
    vs_ledger_each_at_oom(k->l, seq, sum_up, &sum);
    return sum;
}

static bool amended(const struct kit *k, uint64_t seq, uint64_t op)
{
    for (size_t i = 0; i < k->out.amends.n; i++)
        if (k->out.amends.at[i].seq == seq && k->out.amends.at[i].op == op)
            return true;
    return false;
}

/* The last row of a curve's doubt, or of the curve itself; NULL: there is none. */
static const struct vs_doubt_row *doubt_of(struct kit *k, uint64_t curve)
{
    end_batch(k);
    for (size_t i = k->out.doubts.n; i-- > 0;)
        if (k->out.doubts.at[i].device == 0 && k->out.doubts.at[i].curve == curve)
            return &k->out.doubts.at[i];
    return NULL;
}

static const struct vs_peak_row *curve_of(struct kit *k, int curve)
{
    end_batch(k);
    for (size_t i = k->out.peaks.n; i-- > 0;)
        if (k->out.peaks.at[i].device == 0 && k->out.peaks.at[i].curve == curve)
            return &k->out.peaks.at[i];
    return NULL;
}

static uint64_t rows_of(const struct kit *k, uint64_t op)
{
    uint64_t n = 0;
    for (size_t i = 0; i < k->out.rows.n; i++)
        n += k->out.rows.at[i].op == op;
    return n;
}

/* NAME N: what there is one figure of. */
static bool figure(struct kit *k, char **word)
{
    const struct {
        const char *name;
        uint64_t found;
    } figures[] = {{"rows", k->out.rows.n},
                   {"mismatches", k->out.mismatches.n},
                   {"amends", k->out.amends.n},
                   {"samples", k->out.samples.n},
                   {"aways", k->out.aways.n},
                   {"moves", k->out.away_blocks.n},
                   {"steps", k->out.steps.n ? k->out.steps.at[k->out.steps.n - 1].step : 0},
                   {"held", vs_ledger_held(k->l)},
                   {"live", vs_ledger_live_count(k->l)},
                   {"ooms", kept(k)},
                   {"taken", vs_ledger_ring_seq(k->l)}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (!strcmp(figures[i].name, *word)) {
            is(*word, figures[i].found, number(k, NULL, word[1]));
            return true;
        }
    return false;
}

/* NAME N [DEVICE]: a curve's end, a space's, a counter. */
static bool total(struct kit *k, char **word)
{
    const struct word *curve = look_up(curves, *word), *space = look_up(spaces, *word),
                      *counter = look_up(counters, *word);
    if (!curve && !space && !counter)
        return false;
    int device = word[2] ? (int)number(k, NULL, word[2]) : 0;
    is(*word,
       counter ? count_of(k, device, (enum vs_count)counter->value)
       : curve ? curve_end(k, device, (int)curve->value)
               : curve_end(k, -1, VS_CURVE_END + (int)space->value),
       number(k, NULL, word[1]));
    return true;
}

/* last, at INDEX, row OP, every: rows of ev; times OP N: how many. */
static bool hold_of_rows(struct kit *k, const char *what, char **word)
{
    if (!strcmp(what, "last"))
        fields(k, row_fields, last(k), word);
    else if (!strcmp(what, "at"))
        fields(k, row_fields, &k->out.rows.at[number(k, NULL, *word)], word + 1);
    else if (!strcmp(what, "row"))
        fields(k, row_fields, row_of(k, (uint8_t)number(k, ops, *word)), word + 1);
    else if (!strcmp(what, "times"))
        is(what, rows_of(k, number(k, ops, *word)), number(k, NULL, word[1]));
    else if (!strcmp(what, "amended"))
        assert_true(amended(k, number(k, NULL, *word), number(k, ops, word[1])));
    else if (!strcmp(what, "unamended"))
        assert_false(amended(k, number(k, NULL, *word), number(k, ops, word[1])));
    else if (strcmp(what, "every"))
        return false;
    for (size_t i = 0; !strcmp(what, "every") && i < k->out.rows.n; i++)
        fields(k, row_fields, &k->out.rows.at[i], word);
    return true;
}

static const struct vs_away_row *last_away(const struct kit *k)
{
    return k->out.aways.n ? &k->out.aways.at[k->out.aways.n - 1] : NULL;
}

static const struct vs_away_block_row *last_moved(const struct kit *k)
{
    return k->out.away_blocks.n ? &k->out.away_blocks.at[k->out.away_blocks.n - 1] : NULL;
}

/* away, moved: the last change of it, and of a block.  range, peak ID, phase NAME, oom ROLE: of device 0,
 * unless /DEVICE stands behind.  doubt, curve, certain: of a curve.  highest N: the peak.  lived SEQ N: at
 * that out-of-memory. */
static bool hold(struct kit *k, const char *what, char **word)
{
    char *slash = *word ? strchr(*word, '/') : NULL;
    int device = slash ? (int)number(k, NULL, slash + 1) : 0;
    if (slash)
        *slash = 0;
    end_batch(k);
    if (!strcmp(what, "range"))
        fields(k, range_fields, range_of(k, (uint32_t)number(k, NULL, *word)), word + 1);
    else if (!strcmp(what, "peak"))
        fields(k, range_peak_fields, peak_of(k, (uint32_t)number(k, NULL, *word), device), word + 1);
    else if (!strcmp(what, "phase"))
        fields(k, phase_fields, stat_of(k, device, (uint32_t)number(k, phases, *word)), word + 1);
    else if (!strcmp(what, "mismatch"))
        fields(k, mismatch_fields, &k->out.mismatches.at[number(k, NULL, *word)], word + 1);
    else if (!strcmp(what, "oom"))
        fields(k, oom_fields, with_role(k, (uint8_t)number(k, roles, *word), device), word + 1);
    else if (!strcmp(what, "doubt"))
        fields(k, doubt_fields, doubt_of(k, number(k, curves, *word)), word + 1);
    else if (!strcmp(what, "curve"))
        fields(k, curve_fields, curve_of(k, (int)number(k, curves, *word)), word + 1);
    else if (!strcmp(what, "certain"))
        assert_null(doubt_of(k, number(k, curves, *word)));
    else if (!strcmp(what, "away"))
        fields(k, away_fields, last_away(k), word);
    else if (!strcmp(what, "moved"))
        fields(k, moved_fields, last_moved(k), word);
    else if (!strcmp(what, "decided"))
        assert_null(with_role(k, VS_OOM_OPEN_FIRST | VS_OOM_OPEN_LAST, device));
    else if (!strcmp(what, "highest"))
        is(what, highest(k), number(k, NULL, *word));
    else if (!strcmp(what, "lived"))
        is(what, lived_at_oom(k, number(k, NULL, *word)), number(k, NULL, word[1]));
    else
        return false;
    return true;
}

/* ---- telling ---- */

static int story_begin(void **context)
{
    return kit_setup(context);
}

static int story_end(void **context)
{
    return kit_teardown(context);
}

static uint64_t story_named(void *context, const char *op)
{
    assert_non_null(look_up(ops, op));
    return row_of(context, (uint8_t)look_up(ops, op)->value)->seq;
}

static bool story_clause(void *context, char **word)
{
    return event(context, word) || settle(context, word) || figure(context, word) || total(context, word) ||
           hold_of_rows(context, *word, word + 1) || hold(context, *word, word + 1);
}

#endif
