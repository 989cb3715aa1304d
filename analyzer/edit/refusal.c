/* refusal.c - asks allocators and changes of the program about a refused request (refusal.h). */
#include "refusal.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/units.h"
#include "read/tape.h"

#define SHAKEN_UNIT 512
#define SHAKEN_LEAST                                                                                         \
    (UINT64_C(1) << 20) /* smaller ones have a pool of their own, and are many to a segment */
#define BEST 4          /* single changes of which pairs are tried where none is enough */

/* ---- sizes that differ a little ---- */

/* A number that is the same for the same size and draw, and looks like none of its neighbours' (splitmix64).
 */
static uint64_t drawn(uint64_t size, unsigned draw)
{
    uint64_t x = size + (draw + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t shaken(uint64_t size, unsigned draw)
{
    uint64_t most = size / SHAKEN_PART / SHAKEN_UNIT;
    if (size <= SHAKEN_LEAST || !most)
        return size;
    return size - most * SHAKEN_UNIT + drawn(size, draw) % (2 * most + 1) * SHAKEN_UNIT;
}

struct edit_block *shaken_blocks(const struct program *p, unsigned draw)
{
    struct edit_block *blocks = xrealloc(NULL, (p->block_count + 1) * sizeof *blocks);
    if (p->block_count)
        memcpy(blocks, p->blocks, p->block_count * sizeof *blocks);
    for (size_t i = 0; i < p->block_count; i++)
        blocks[i].size = shaken(blocks[i].size, draw);
    return blocks;
}

/* ---- a program that ends with a request ---- */

struct asking {
    struct program from;
    struct torch_settings settings;
    enum feed_policy policy;
    uint64_t allocated; /* with the request, as it was */
    uint64_t excess;    /* of that beyond what blocks were asked for */
    int64_t unused;     /* held and free when it was refused; UNKNOWN */
};

/* What lives at the end of the program, the request with it. */
static uint64_t alive(const struct program *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->block_count; i++)
        bytes += p->blocks[i].died == BLOCK_NEVER ? p->blocks[i].size : 0;
    return bytes;
}

/* By how much of the capacity a replay may be off: 1 % where the recorded kernels are at other times (0.8 was
 * measured). */
static uint64_t doubt_of(const struct asking *q, const struct edit_result *r)
{
    int part = edit_reserved_part(r);
    return part ? q->settings.capacity / (uint64_t)part : r->moves ? q->settings.capacity / 100 : 0;
}

static struct answer_policy play(const struct asking *q, const struct program *p, uint64_t capacity)
{
    bool wanted[FEED_POLICIES] = {false};
    struct torch_settings settings = q->settings;
    settings.capacity = capacity;
    settings.limit = settings.limit < capacity || settings.limit == UINT64_MAX ? settings.limit : capacity;
    wanted[q->policy] = true;
    struct answer a = answer_of(p, &settings, wanted);
    struct answer_policy end = a.of[q->policy];
    answer_free(&a);
    end.phase_allocated = end.phase_reserved = NULL;
    return end;
}

/* In how many draws of sizes P passes, with a 100th of the memory to spare, or DOUBT where that is more. */
static unsigned draws_of(const struct asking *q, const struct program *p, uint64_t doubt)
{
    uint64_t capacity = q->settings.capacity, spare = capacity / SHAKEN_PART;
    unsigned passed = 0;
    for (unsigned i = 0; i < SHAKEN_DRAWS; i++) {
        struct program drawn = *p;
        drawn.blocks = shaken_blocks(p, i);
        passed += !play(q, &drawn, capacity - (doubt > spare ? doubt : spare)).ran_out;
        free(drawn.blocks);
    }
    return passed;
}

/* What could be had next of CAPACITY, or what it lacks; UNKNOWN where pages decide. */
static int64_t room_of(const struct answer_policy *end, uint64_t capacity)
{
    if (!end->ran_out)
        return (int64_t)end->end_room;
    int64_t missing = (int64_t)(end->out_size + end->out_reserved) - (int64_t)capacity;
    return missing > 0 ? -missing : UNKNOWN;
}

/* What was allocated with the request, whether it passed or not; of a program that did not come to it, what
 * would live then, with as much EXCESS as the recorded one had. */
static uint64_t allocated_of(const struct answer_policy *end, const struct program *p, uint64_t excess)
{
    if (!end->ran_out)
        return end->end_allocated;
    bool asked = end->out_event + 1 == p->event_count;
    return asked ? end->end_allocated + end->out_size : alive(p) + excess;
}

static uint64_t request_of(const struct program *p)
{
    for (size_t i = p->block_count; i-- > 0;)
        if (p->blocks[i].kind == KIND_REQUEST)
            return p->blocks[i].size;
    return 0;
}

static char *names_of(const struct edit *const *edits, size_t n)
{
    char *names = xstrdup(edits[0]->text);
    for (size_t i = 1; i < n; i++) {
        char *longer = xformat("%s %s", names, edits[i]->text);
        free(names);
        names = longer;
    }
    return names;
}

/* Of both ends the one that has less left. */
static void see_passed(const struct asking *q, struct refusal_change *c, const struct answer_policy *one,
                       const struct answer_policy *other)
{
    const struct answer_policy *end = one->end_room < other->end_room ? one : other;
    c->room = (int64_t)end->end_room;
    c->held = end->end_reserved <= end->before_reserved;
    if (q->unused != UNKNOWN)
        c->pieces = q->unused - (int64_t)(end->end_reserved - end->end_allocated);
}

/* Of a change that passes, at both ends, as it is. */
static void see_luck(const struct asking *q, struct refusal_change *c, const struct program *low,
                     const struct program *high, uint64_t doubt)
{
    c->draws = draws_of(q, high, doubt);
    unsigned lows = c->draws == SHAKEN_DRAWS && low != high ? draws_of(q, low, 0) : c->draws;
    c->draws = lows < c->draws ? lows : c->draws;
    c->verdict = c->draws < SHAKEN_DRAWS ? REFUSAL_LUCKY : REFUSAL_PASSES;
}

/* False: one of the edits does not apply; A, where it is not NULL, gets the reason. */
static bool ask(const struct asking *q, const struct edit *const *edits, size_t n, struct refusal_change *c,
                struct refusal_answer *a)
{
    struct edit_result r = edit_apply_all(&q->from, edits, n);
    if (r.why) {
        if (a) {
            a->why = xstrdup(r.why);
            a->unmade = names_of(edits, n);
            a->nothing = r.nothing;
        }
        edit_free_result(&r);
        return false;
    }
    const struct program *high = r.high.event_count ? &r.high : &r.low;
    uint64_t capacity = q->settings.capacity, doubt = doubt_of(q, &r);
    /* the low end of other kernels is low already */
    struct answer_policy one = play(q, &r.low, r.about ? capacity : capacity + doubt),
                         other = play(q, high, capacity - doubt);
    uint64_t low = allocated_of(&one, &r.low, q->excess), most = allocated_of(&other, high, q->excess);
    most = most > low ? most : low;
    *c = (struct refusal_change){.name = names_of(edits, n),
                                 .verdict = !one.ran_out && !other.ran_out   ? REFUSAL_PASSES
                                            : !one.ran_out || !other.ran_out ? REFUSAL_MAY_PASS
                                                                             : REFUSAL_SHORT,
                                 .made = request_of(&r.low) || request_of(high),
                                 .room = UNKNOWN,
                                 .pieces = UNKNOWN};
    c->frees = (int64_t)q->allocated - (int64_t)most - (c->made ? 0 : (int64_t)request_of(&q->from));
    if (c->verdict == REFUSAL_PASSES) {
        see_passed(q, c, &one, &other);
        see_luck(q, c, &r.low, high, doubt);
    } else if (c->verdict == REFUSAL_SHORT) {
        c->room = room_of(&one, capacity);
        c->earlier = one.out_event + 1 < r.low.event_count;
    }
    c->assumes = xstrdup(r.assumes);
    edit_free_result(&r);
    return true;
}

static void free_change(struct refusal_change *c)
{
    free(c->name);
    free(c->assumes);
}

static int by_worth(const void *a, const void *b)
{
    const struct refusal_change *x = a, *y = b;
    if (x->verdict != y->verdict)
        return x->verdict < y->verdict ? -1 : 1;
    return x->frees < y->frees ? 1 : x->frees > y->frees ? -1 : strcmp(x->name, y->name);
}

static void sort(struct refusal_answer *a)
{
    if (a->count)
        qsort(a->changes, a->count, sizeof *a->changes, by_worth);
}

/* Where no change is enough alone: the pairs of those that free the most, but of two values of the same. */
static void ask_pairs(const struct asking *q, struct refusal_answer *a)
{
    size_t n = a->count < BEST ? a->count : BEST;
    const struct edit *best[BEST];
    for (size_t i = 0; i < n; i++)
        best[i] = edit_named(a->changes[i].name);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            const struct edit *both[] = {best[i], best[k]};
            struct refusal_change c;
            if (both[0]->what == both[1]->what || !ask(q, both, 2, &c, NULL))
                continue;
            if (c.verdict == REFUSAL_PASSES)
                *PUSH(a->changes, a->count) = c;
            else
                free_change(&c);
        }
}

static void ask_all(const struct asking *q, struct refusal_answer *a)
{
    size_t n;
    const struct edit *all = edit_all(&n);
    for (size_t i = 0; i < n; i++) {
        const struct edit *one = &all[i];
        struct refusal_change c;
        if (!edit_is_advice(one) || !ask(q, &one, 1, &c, NULL))
            continue;
        if (c.frees > 0 || c.verdict < REFUSAL_SHORT)
            *PUSH(a->changes, a->count) = c;
        else
            free_change(&c);
    }
    sort(a);
    if (a->count && a->changes[0].verdict >= REFUSAL_LUCKY)
        ask_pairs(q, a);
    sort(a);
}

/* These, one after the other. */
static void ask_these(const struct asking *q, const struct edit *const *edits, size_t n,
                      struct refusal_answer *a)
{
    struct refusal_change c;
    if (ask(q, edits, n, &c, a))
        *PUSH(a->changes, a->count) = c;
}

/* What the framework's allocator could have had; UNKNOWN. */
static int64_t capacity_of(const struct trace_oom_kept *o, uint64_t limit)
{
    int64_t held = o->managed, driver = UNKNOWN;
    if (o->reserved_then != UNKNOWN && o->reserved != UNKNOWN)
        held += o->reserved_then - o->reserved; /* and gave back before it gave up */
    if (o->free != UNKNOWN)
        driver = held + o->free;
    if (limit && (driver == UNKNOWN || (int64_t)limit < driver))
        return (int64_t)limit;
    return o->refusals > 0 ? driver : UNKNOWN; /* not asked: a limit of its own, which is not known */
}

static size_t find_refusal(const struct trace_tape *tape, int64_t seq)
{
    for (size_t i = 0; i < tape->refusal_count; i++)
        if (tape->refusals[i].seq == seq)
            return i;
    return SIZE_MAX;
}

/* The program as it is, under each allocator. */
static void ask_policies(const struct asking *run, struct refusal_answer *out)
{
    for (int i = 0; i < FEED_POLICIES; i++) {
        struct asking q = *run;
        q.policy = (enum feed_policy)i;
        struct answer_policy end = play(&q, &q.from, q.settings.capacity);
        struct refusal_policy *p = &out->of[i];
        *p = (struct refusal_policy){true, REFUSAL_SHORT, room_of(&end, q.settings.capacity)};
        if (!end.ran_out)
            p->verdict = draws_of(&q, &q.from, 0) == SHAKEN_DRAWS ? REFUSAL_PASSES : REFUSAL_LUCKY;
    }
}

void refusal_ask(const struct program *p, enum feed_policy policy, const struct torch_settings *settings,
                 const struct edit *const *edits, size_t n, struct refusal_answer *out)
{
    struct asking q = {.from = *p, .settings = *settings, .policy = policy, .unused = UNKNOWN};
    struct answer_policy end = play(&q, p, settings->capacity);
    q.allocated = allocated_of(&end, p, 0);
    q.excess = q.allocated > alive(p) ? q.allocated - alive(p) : 0;
    int64_t room = room_of(&end, settings->capacity);
    out->policy = policy;
    out->missing = end.ran_out && room != UNKNOWN ? -room : UNKNOWN;
    if (end.ran_out && end.out_event + 1 == p->event_count)
        q.unused = (int64_t)(end.out_reserved - end.end_allocated);
    out->passes = !end.ran_out;
    ask_policies(&q, out);
    if (!end.ran_out)
        out->why = xstrdup("in the replay of this run the request is not refused");
    else if (!edits)
        ask_all(&q, out);
    else if (n)
        ask_these(&q, edits, n, out);
}

/* The program up to the refusal O, and the allocator that it ran with. */
static int read_program(struct trace *t, const struct trace_oom_kept *o, struct program *p,
                        struct edit_facts *facts, struct torch_settings *settings, enum feed_policy *policy,
                        struct refusal_answer *out)
{
    const struct trace_tape *tape = trace_tape(t, o->device);
    if (!tape)
        return -1;
    size_t refusal = find_refusal(tape, o->seq);
    replay_settings(tape, settings);
    settings->gc_threshold = 0; /* of a limit that the capacity stands for */
    const struct trace_device *device = trace_find_device(t, o->device);
    if (device && device->total_bytes > 0) /* a limit below it makes no reservation of addresses smaller */
        settings->memory = (uint64_t)device->total_bytes;
    *policy = tape->arena ? FEED_ARENA : tape->expandable ? FEED_EXPANDABLE : FEED_NATIVE;
    if (refusal == SIZE_MAX) {
        out->why = xstrdup("the request is not a framework's");
        return 0;
    }
    return program_read(t, o->device, refusal, p, facts);
}

int refusal_answer(struct trace *t, const struct trace_oom_kept *o, const struct refusal_under *under,
                   const struct edit *const *edits, size_t n, struct refusal_answer *out)
{
    struct program from = {0};
    struct edit_facts facts = {0};
    struct torch_settings settings;
    enum feed_policy policy = FEED_NATIVE;
    *out = (struct refusal_answer){.capacity = UNKNOWN, .missing = UNKNOWN};
    int bad = read_program(t, o, &from, &facts, &settings, &policy, out);
    if (!bad && !out->why) {
        out->capacity = capacity_of(o, facts.limit);
        if (under) {
            uint64_t device = settings.memory;
            settings = *under->settings;
            if (settings.capacity == UINT64_MAX) /* no other device is asked about */
                settings.memory = device;
            policy = under->policy >= 0 ? (enum feed_policy)under->policy : policy;
            out->capacity = settings.capacity == UINT64_MAX ? out->capacity : (int64_t)settings.capacity;
        }
        settings.capacity = out->capacity > 0 ? (uint64_t)out->capacity : 0;
        if (facts.limit && facts.limit <= settings.capacity)
            settings.limit = facts.limit;
        if (out->capacity == UNKNOWN)
            out->why = xstrdup("it is not known what the allocator could have had");
        else
            refusal_ask(&from, policy, &settings, edits, n, out);
    }
    if (under && out->passes) {
        free(out->why);
        out->why = xformat("it passes so without a change%s",
                           out->of[out->policy].verdict == REFUSAL_LUCKY ? ", by luck" : "");
    } else if (out->passes) { /* the replay is another run */
        memset(out->of, 0, sizeof out->of);
    }
    program_free(&from);
    program_free_facts(&facts);
    return bad;
}

void refusal_free(struct refusal_answer *a)
{
    for (size_t i = 0; i < a->count; i++)
        free_change(&a->changes[i]);
    free(a->changes);
    free(a->why);
    free(a->unmade);
    *a = (struct refusal_answer){.why = NULL};
}

const char *refusal_says(const struct refusal_change *c)
{
    static const char *const says[] = {"this request would have passed", "this request may have passed",
                                       "this request would have passed by luck", "not enough alone"};
    return c->verdict == REFUSAL_PASSES && !c->made ? "this request would not be made" : says[c->verdict];
}

/* Why it passes, where that it frees is not the reason; or how much is missing. */
static char *more_text(const struct refusal_answer *a, const struct refusal_change *c, bool exact)
{
    if (c->verdict == REFUSAL_SHORT && c->earlier)
        return xstrdup(", another request before it has no room");
    if (c->verdict == REFUSAL_SHORT && c->room != UNKNOWN)
        return xformat(", short by %s", units_bytes(-c->room, exact).s);
    if (c->verdict == REFUSAL_LUCKY)
        return xformat(", in %u of %d draws of other sizes", c->draws, SHAKEN_DRAWS);
    if (c->verdict != REFUSAL_PASSES || !c->made)
        return xstrdup("");
    char *left = xformat(", %s left", units_bytes(c->room, exact).s), *why = NULL;
    bool enough = a->missing != UNKNOWN && c->frees >= a->missing;
    if (!enough && c->pieces != UNKNOWN && c->pieces > 0)
        why = xformat("%s, as %s less lies unused in pieces", left, units_bytes(c->pieces, exact).s);
    else if (!enough && c->held)
        why = xformat("%s, in a piece that is free then", left);
    if (why)
        free(left);
    return why ? why : left;
}

const char *refusal_cure(enum feed_policy policy)
{
    static const char *const cures[FEED_POLICIES] = {NULL, "PyTorch's allocator without expandable_segments",
                                                     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                                                     "vramscope run --allocator=arena"};
    return cures[policy];
}

char *refusal_policy_text(const struct refusal_answer *a, enum feed_policy policy, bool exact)
{
    const struct refusal_policy *p = &a->of[policy];
    if (p->verdict == REFUSAL_PASSES)
        return xformat("this request would have passed, %s left", units_bytes(p->room, exact).s);
    if (p->verdict == REFUSAL_LUCKY)
        return xstrdup("this request would have passed by luck");
    return p->room == UNKNOWN ? xstrdup("not enough")
                              : xformat("short by %s", units_bytes(-p->room, exact).s);
}

char *refusal_text(const struct refusal_answer *a, const struct refusal_change *c, bool exact)
{
    char *more = more_text(a, c, exact);
    char *text =
        xformat("%s %s %s%s: %s%s%s%s", c->name, c->frees < 0 ? "needs" : "frees",
                units_bytes(c->frees < 0 ? -c->frees : c->frees, exact).s, c->frees < 0 ? " more" : "",
                refusal_says(c), more, c->assumes ? ", if " : "", c->assumes ? c->assumes : "");
    free(more);
    return text;
}
