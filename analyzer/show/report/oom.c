/* oom.c - see oom.h.  Each sentence here follows from the numbers. */
#include "code.h"
#include "oom.h"
#include "parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "stack.h"
#include "unused.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "edit/refusal.h"
#include "trace/journal/journal.h"
#include "read/stacks.h"
#include "read/steps.h"

#define B(n)      units_bytes(n, exact).s
#define HELD_MOST 8
#define STACKS    3
#define LEFT_LEAST                                                                                           \
    (INT64_C(1) << 20) /* bytes, and a share, that a survived refusal left, below which nothing is said */
#define LEFT_PART 100
#define FRAMES    12
#define OF_HOLDER 6 /* frames of each holder; `peak` shows them all */

/* ---- loading ---- */

/* "Fragmentation" is said of the common pool's pieces alone. */
static int64_t usable_of(const struct unused *u)
{
    int64_t bytes = u->usable == UNKNOWN ? UNKNOWN : 0;
    for (size_t i = 0; bytes != UNKNOWN && i < u->count; i++)
        bytes += u->rows[i].kind == UNUSED_CACHED ? u->rows[i].usable : 0;
    return bytes;
}

/* Whether the process's limit refused the request, and not the device, which others may have filled. */
static bool is_limited(const struct trace_oom_kept *o, const struct trace_device *d)
{
    if (!d || d->total_bytes == d->own_bytes)
        return false;
    bool full = o->device_used != UNKNOWN && o->requested > 0 && d->own_bytes - o->device_used < o->requested;
    return !full;
}

static int load_lead(struct oom_report *r, struct trace *t)
{
    const struct trace_device *device = trace_find_device(t, r->lead->device);
    r->total_bytes = device ? device->total_bytes : UNKNOWN;
    r->limited = is_limited(r->lead, device);
    if (r->lead->device >= 0 && unused_load(t, r->lead->device, &r->lead->seq, 1, &r->unused))
        return -1;
    r->need = oom_need_of(r->lead, r->total_bytes, usable_of(&r->unused));
    if (r->need.cause == OOM_NOT_ASKED && trace_is_imported(t)) /* refusals are not in another tool's trace */
        r->need.cause = OOM_UNKNOWN;
    if (trace_live_at_oom(t, r->lead->seq, &r->live, &r->live_count))
        return -1;
    r->live_bytes = holders_total(r->live, r->live_count);
    r->steps_after = trace_steps_after(t, r->lead->t);
    r->t_end = t->t_last;
    return 0;
}

int oom_report_load(struct oom_report *r, struct trace *t, int64_t role)
{
    *r = (struct oom_report){.total_bytes = UNKNOWN};
    if (trace_ooms_kept(t, &r->kept, &r->kept_count))
        return -1;
    r->gave_up = trace_counter(t, "out_of_memory");
    r->refused = trace_counter(t, "driver_out_of_memory");
    r->absorbed = trace_counter(t, "driver_out_of_memory_absorbed");
    r->then_reported = trace_counter(t, "driver_out_of_memory_reported");
    r->lead = role == OOM_LAST ? oom_last(r->kept, r->kept_count)
                               : oom_with_role(r->kept, r->kept_count, role, UNKNOWN);
    return r->lead ? load_lead(r, t) : 0;
}

void oom_report_free(struct oom_report *r)
{
    free(r->kept);
    free(r->live);
    unused_free(&r->unused);
    *r = (struct oom_report){0};
}

/* ---- words ---- */

static char *place_of(const struct trace_oom_kept *o)
{
    bool phase = o->phase && strcmp(o->phase, "none") != 0;
    char *device = o->device >= 0 ? xformat("on device %" PRId64, o->device) : xstrdup("of the host");
    char *step = o->step == UNKNOWN ? xstrdup("") : xformat(", step %" PRId64, o->step);
    char *text = xformat("%s at %s%s, %s%s", device, units_time(o->t).s, step,
                         phase ? "in " : "outside any phase", phase ? shown(o->phase) : "");
    free(device);
    free(step);
    return text;
}

/* Nothing was asked of the driver: a limit of the framework's own, which may be known. */
static char *limit_text(const struct unused *u, bool exact)
{
    if (!u->limit)
        return xstrdup("the framework did not ask the driver: a limit of its own");
    const char *what = u->limit_by_conf ? "per_process_memory_fraction of its configuration"
                                        : "set_per_process_memory_fraction";
    if (!u->beyond_limit)
        return xformat("PyTorch's limit of %s (%s); the driver was not asked", B(u->limit), what);
    return xformat("short by %s under PyTorch's limit of %s (%s); the driver was not asked",
                   B(u->beyond_limit), B(u->limit), what);
}

/* The reason of the failure, in words, but for a limit. */
static char *plain_cause_text(const struct oom_report *r, bool exact)
{
    const struct trace_oom_kept *o = r->lead;
    const struct oom_need *n = &r->need;
    switch (n->cause) {
    case OOM_TOO_LARGE:
        return xformat("%s could never have held it: it has %s in all",
                       r->limited ? "the limit" : "the device", B(r->total_bytes));
    case OOM_NOT_ASKED:
        return limit_text(&r->unused, exact);
    case OOM_FRAGMENTED:
        return xformat("short by %s; %s cached in pieces that are too small: fragmentation", B(n->short_by),
                       B(n->usable));
    case OOM_SHORT:
        if (n->usable != UNKNOWN && n->usable > 0 && n->missing > 0)
            return xformat("short by %s, and by %s even with all that it could use of the cache (%s)",
                           B(n->short_by), B(n->missing), B(n->usable));
        if (n->usable == UNKNOWN && n->unused > 0)
            return xformat(
                "short by %s; the framework had %s reserved but unused, in pieces that are not known",
                B(n->short_by), B(n->unused));
        return xformat("short by %s", B(n->short_by));
    case OOM_THOUGH_FREE:
        return xformat("refused although the driver said that %s were free", B(o->free));
    case OOM_UNKNOWN:
        break;
    }
    if (r->lead->requested <= 0)
        return xstrdup("by how much it was short is unknown: the call does not say what it needs");
    return xstrdup("by how much it was short is unknown: nobody could ask the driver what it had free");
}

static char *cause_text(const struct oom_report *r, bool exact)
{
    char *plain = plain_cause_text(r, exact);
    if (!r->limited || r->need.cause == OOM_NOT_ASKED)
        return plain;
    char *text = xformat("%s, under the limit of %s (vramscope run --limit)", plain, B(r->total_bytes));
    free(plain);
    return text;
}

/* ", float32 [4, 8]", or nothing where what it was for is not recorded; the caller frees it. */
static char *tensor_text(const struct trace_oom_kept *o)
{
    if (!o->made_for)
        return xstrdup("");
    struct holder asked = {
        .tensor = {.made_for = o->made_for, .element_type = o->element_type, .shape = o->shape}};
    char *name = holders_tensor_name(&asked, NULL), *text = xformat(", %s", shown(name));
    free(name);
    return text;
}

/* "2.00 GiB, bfloat16 [8, 4096, 32768]", "2.00 GiB of space pool"; the arena's blocks are device memory to
 * the program that allocates them.  The caller frees it. */
static char *request_text(const struct trace_oom_kept *o, bool exact)
{
    bool other =
        o->space && strcmp(o->space, "device") && strcmp(o->space, "none") && strcmp(o->space, "arena");
    char *tensor = tensor_text(o);
    char *text = xformat("%s%s%s%s", o->requested > 0 ? B(o->requested) : "memory", other ? " of space " : "",
                         other ? shown(o->space) : "", tensor);
    free(tensor);
    return text;
}

char *oom_report_line(const struct oom_report *r, bool exact)
{
    if (!r->lead)
        return NULL;
    char *place = place_of(r->lead), *cause = cause_text(r, exact);
    char *request = request_text(r->lead, exact);
    char *line = xformat("out of memory %s: asked for %s; %s", place, request, cause);
    free(request);
    free(place);
    free(cause);
    return line;
}

/* ---- text ---- */

static void print_driver(const struct oom_report *r, FILE *out, bool exact)
{
    const struct trace_oom_kept *o = r->lead;
    if (o->op != OOM_FRAMEWORK && r->limited)
        fprintf(out, "    the limit refused it to %s", o->api ? shown(o->api) : "the program");
    else if (o->op != OOM_FRAMEWORK)
        fprintf(out, "    %s refused it", o->api ? shown(o->api) : "the driver");
    else if (o->refusals > 0)
        fprintf(out, "    the framework gave up after the %s had refused %s", r->limited ? "limit" : "driver",
                B(o->asked_driver));
    else
        fprintf(out, "    the framework gave up");
    if (o->refusals > 1)
        fprintf(out, " %" PRId64 " times", o->refusals);
    if (o->free != UNKNOWN && r->need.returned > 0)
        fprintf(out, ";\n    it had given %s for the request, and had %s free", B(r->need.returned),
                B(o->free));
    else if (o->free != UNKNOWN)
        fprintf(out, "; %s %s free", r->limited ? "it left" : "the driver had", B(o->free));
    fputc('\n', out);
}

char *oom_report_place(const struct oom_report *r, struct trace *t)
{
    int64_t stack = r->lead->stack;
    struct trace_frame *frames;
    const char *layer = NULL;
    char *place = stack > 0 ? stack_where(t, stack) : xstrdup("no call stack");
    size_t n;
    if (stack <= 0 || trace_stack(t, stack, &frames, &n))
        return place;
    for (size_t i = 0; i < n && !layer; i++)
        layer = frames[i].kind == VS_FRAME_LAYER ? frames[i].function : NULL;
    char *text = xformat("%s%s%s", place, layer ? ", in " : "", layer ? shown(layer) : "");
    free(place);
    free(frames);
    return text;
}

/* Prints who made the request, in a sentence; the whole call stack comes below the first screen. */
static void print_who(const struct oom_report *r, struct trace *t, FILE *out)
{
    const struct trace_oom_kept *o = r->lead;
    char *place = oom_report_place(r, t);
    wrap_print(out, 4, 6, "asked by %s, thread %s: %s", o->owner ? shown(o->owner) : "an unknown library",
               o->thread_name && *o->thread_name ? shown(o->thread_name) : "unknown", place);
    free(place);
}

static void print_request(const struct oom_report *r, struct trace *t, FILE *out, bool full)
{
    if (r->lead->stack <= 0)
        return;
    fputs("\n    the request came from\n", out);
    stack_print(t, r->lead->stack, full ? 0 : FRAMES, full, 8, out);
}

static void row(struct table *t, const char *sign, const char *name, int64_t bytes, int64_t whole, bool exact)
{
    table_cell(t, "%s", sign);
    table_cell(t, "%s", name);
    table_cell(t, "%s", B(bytes));
    table_cell(t, "%s", units_share(bytes, whole).s);
}

static void row_unknown(struct table *t, const char *sign, const char *name)
{
    table_cell(t, "%s", sign);
    table_cell(t, "%s", name);
    table_cell(t, "unknown");
    table_cell(t, "%s", "");
}

static void held_rows(const struct oom_report *r, struct table *table, int64_t whole, bool exact)
{
    size_t n;
    struct holder *held = holders_composition(r->live, r->live_count, &n);
    int64_t rest = r->lead->device < 0 ? r->live_bytes : r->lead->framework + r->lead->direct, shown = 0;
    for (size_t i = 0; i < n && i < HELD_MOST; i++) {
        char *name = report_holder_name(&held[i]);
        row(table, "", name, held[i].bytes, whole, exact);
        shown += held[i].bytes;
        free(name);
    }
    if (n > HELD_MOST) {
        char *more = xformat("%zu more", n - HELD_MOST);
        row(table, "", more, r->live_bytes - shown, whole, exact);
        free(more);
    }
    if (rest != r->live_bytes)
        row(table, "", "not in the file (unknown)", rest - r->live_bytes, whole, exact);
    free(held);
}

/* Of what shares are. */
static int64_t whole_of(const struct oom_report *r)
{
    const struct trace_oom_kept *o = r->lead;
    return r->total_bytes != UNKNOWN ? r->total_bytes : o->away > 0 ? o->framework + o->direct : o->reserved;
}

static void device_rows(const struct oom_report *r, struct table *table, bool exact)
{
    const struct trace_oom_kept *o = r->lead;
    const struct oom_need *n = &r->need;
    int64_t whole = whole_of(r);
    bool all = n->others != UNKNOWN || n->beyond != UNKNOWN;
    int64_t known = o->framework + o->direct;
    row(table, "=", o->unknown_use > 0 ? "known to be allocated" : "allocated", known, whole, exact);
    if (o->unknown_use > 0)
        row(table, "+", "held by libraries' pools, use unknown", o->unknown_use, whole, exact);
    if (o->away > 0)
        row(table, "-", "on the host then", o->away, whole, exact);
    row(table, "+", "reserved, not allocated", o->reserved + o->away - o->unknown_use - known, whole, exact);
    if (n->returned > 0)
        row(table, "+", "got for the request, and given back", n->returned, whole, exact);
    row(table, "=", "reserved", o->reserved + (n->returned > 0 ? n->returned : 0), whole, exact);
    if (n->residual != UNKNOWN)
        row(table, "+", "residual: context, code, streams, unexplained", n->residual, whole, exact);
    if (n->others != UNKNOWN)
        row(table, "+", "other processes, and what the driver keeps", n->others, whole, exact);
    if (n->beyond != UNKNOWN)
        row(table, "+", "residual and other processes", n->beyond, whole, exact);
    if (!all)
        row_unknown(table, "+", "residual and other processes");
    if (o->free != UNKNOWN)
        row(table, "+", "free", o->free, whole, exact);
    if (r->total_bytes != UNKNOWN)
        row(table, all ? "=" : "",
            r->limited ? all ? "the limit" : "of the limit"
            : all      ? "the device"
                       : "of the device's",
            r->total_bytes, whole, exact);
}

static void print_held(const struct oom_report *r, FILE *out, bool exact)
{
    const struct trace_oom_kept *o = r->lead;
    struct table table;
    fprintf(out, "\n  who held %s then\n", o->device < 0 ? "page-locked memory of the host" : "the device");
    table_init(&table, "<<>>", NULL);
    int64_t whole = o->device < 0 ? r->live_bytes : whole_of(r);
    held_rows(r, &table, whole, exact);
    if (o->device >= 0)
        device_rows(r, &table, exact);
    table_print(&table, out, 4);
    table_free(&table);
    if (o->device >= 0 && o->pinned + o->registered > 0)
        fprintf(out, "    beside it, page-locked memory of the host: %s\n", B(o->pinned + o->registered));
}

void oom_report_device_text(const struct oom_report *r, FILE *out, bool exact)
{
    struct table table;
    if (r->lead->device < 0)
        return;
    table_init(&table, "<<>>", NULL);
    device_rows(r, &table, exact);
    fputs("\n  the device then\n", out);
    table_print(&table, out, 4);
    table_free(&table);
}

static void print_stacks(const struct oom_report *r, struct trace *t, FILE *out, bool exact, bool full)
{
    size_t n, printed = 0, hidden = 0;
    struct holder *held = holders_group(r->live, r->live_count, BY_STACK, &n);
    for (size_t i = 0; i < n && printed < STACKS; i++) {
        if (held[i].stack <= 0 && held[i].bytes > 0 && !printed)
            fprintf(out, "\n    %s have no call stack in the file (%s records the framework's)\n",
                    B(held[i].bytes),
                    trace_is_imported(t) ? "a snapshot with stacks=\"all\"" : "VRAMSCOPE_STACKS=all");
        if (held[i].stack <= 0 || (printed && held[i].bytes < r->live_bytes / 100))
            continue; /* too small to explain anything */
        char *line = stack_line_text(t, held[i].stack);
        fprintf(out, "%s    %s in %s came from%s\n", printed++ ? "" : "\n", B(held[i].bytes),
                units_count(held[i].count, "allocation").s, line);
        free(line);
        hidden += stack_print(t, held[i].stack, full ? 0 : OF_HOLDER, full, 8, out);
    }
    free(held);
    stack_print_hidden(hidden, out);
    fprintf(out, "    all of it: vramscope peak --at oom %s\n", shown_word(t->path));
}

#define CHANGES 3

static void print_change(const struct refusal_answer *a, const struct refusal_change *c, FILE *out,
                         bool exact)
{
    char *text = refusal_text(a, c, exact);
    fprintf(out, "        %s\n", text);
    free(text);
}

/* What needs no change of the program comes first. */
static void print_cures(const struct refusal_answer *a, FILE *out, bool exact)
{
    static const enum feed_policy order[] = {FEED_EXPANDABLE, FEED_NATIVE, FEED_ARENA};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct refusal_policy *p = &a->of[order[i]];
        if (order[i] == a->policy || !p->asked || p->verdict != REFUSAL_PASSES)
            continue;
        char *text = refusal_policy_text(a, order[i], exact);
        wrap_print(out, 4, 6, "%s alone: %s", refusal_cure(order[i]), text);
        free(text);
    }
}

/* Changes that pass by luck are no advice. */
static size_t advice_of(const struct refusal_answer *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        n += a->changes[i].verdict != REFUSAL_LUCKY;
    return n;
}

/* False: nothing can be said of another allocator or another program. */
static bool ask_refusal(const struct oom_report *r, struct trace *t, struct refusal_answer *a)
{
    bool whole = !t->thinned && !trace_has_loss(t, LOSS_EVENTS);
    *a = (struct refusal_answer){.why = NULL};
    return r->lead->op == OOM_FRAMEWORK && r->steps_after <= 0 && whole && t->events <= EVENTS_MOST &&
           !refusal_answer(t, r->lead, NULL, NULL, 0, a);
}

static void print_changes(const struct refusal_answer *a, struct trace *t, FILE *out, bool exact)
{
    size_t advice = advice_of(a), printed = 0;
    if (advice)
        fputs("    with the program changed, and of what comes after it nothing is said:\n", out);
    for (size_t i = 0; i < a->count && printed < CHANGES; i++)
        if (a->changes[i].verdict != REFUSAL_LUCKY) {
            print_change(a, &a->changes[i], out, exact);
            printed++;
        }
    if (advice > CHANGES)
        fprintf(out, "        %s: vramscope whatif %s\n",
                units_count((int64_t)(advice - CHANGES), "more change").s, shown_word(t->path));
}

void oom_report_changes_text(const struct oom_report *r, struct trace *t, FILE *out, bool exact)
{
    struct refusal_answer a;
    if (ask_refusal(r, t, &a)) {
        print_cures(&a, out, exact);
        print_changes(&a, t, out, exact);
    }
    refusal_free(&a);
}

static void print_other(const char *what, const struct trace_oom_kept *o, FILE *out, bool exact)
{
    char *place = place_of(o), *request = request_text(o, exact);
    fprintf(out, "    the %s: %s, asked for %s\n", what, place, request);
    free(request);
    free(place);
}

int64_t oom_report_ends_after(const struct oom_report *r)
{
    return r->t_end == UNKNOWN || r->lead->t == UNKNOWN ? UNKNOWN : r->t_end - r->lead->t;
}

/* What the step of the refusal left: the later ones begin with it. */
static void print_left(const struct oom_report *r, struct trace *t, FILE *out, bool exact)
{
    struct trace_live *left = NULL;
    size_t n = 0;
    int64_t last = UNKNOWN, bytes = 0, most = 0, known = r->lead->framework;
    if (r->lead->op != OOM_FRAMEWORK || trace_left_by_oom(t, r->lead->seq, &last, &left, &n))
        return;
    for (size_t i = 0; i < n; i++)
        bytes += left[i].size;
    for (size_t i = 0; n && i < n; i++)
        most += left[i].line && left[0].line && !strcmp(left[i].line, left[0].line) ? left[i].size : 0;
    if (bytes >= LEFT_LEAST && bytes > known / LEFT_PART) {
        char *line = left[0].line ? line_text(left[0].line) : NULL;
        char *by = line ? xformat(", %s of it made by %s", B(most), line) : xstrdup("");
        wrap_print(out, 2, 4,
                   "%s of what step %" PRId64 " had made before it still lived when step %" PRId64
                   " ended: what came after began with that%s",
                   B(bytes), r->lead->step, last, by);
        free(line);
        free(by);
    }
    free(left);
}

/* How often memory ran out, and with what result. */
static void print_all(const struct oom_report *r, FILE *out, bool exact)
{
    int64_t times = r->gave_up + r->refused - r->absorbed - r->then_reported;
    const struct trace_oom_kept *first = oom_with_role(r->kept, r->kept_count, OOM_FIRST, r->lead->device);
    const struct trace_oom_kept *largest =
        oom_with_role(r->kept, r->kept_count, OOM_LARGEST, r->lead->device);
    if (r->steps_after > 0)
        fprintf(out, "\n  the program went on for %s: %s\n", units_time(oom_report_ends_after(r)).s,
                units_count(r->steps_after, "step").s);
    else
        fprintf(out, "\n  the recording ends %s later\n", units_time(oom_report_ends_after(r)).s);
    if (times > 1)
        fprintf(out, "  this is the last of %" PRId64 " that reached the program\n", times);
    if (first && first->seq != r->lead->seq)
        print_other("first", first, out, exact);
    if (largest && largest->seq != r->lead->seq && largest != first)
        print_other("largest", largest, out, exact);
}

static void print_absorbed(const struct oom_report *r, FILE *out)
{
    if (r->absorbed > 0)
        fprintf(out,
                "%s by the driver reached no program: the framework freed what it cached, asked again, and "
                "got it\n",
                units_count(r->absorbed, "refusal").s);
}

void oom_report_head_text(const struct oom_report *r, FILE *out, bool exact)
{
    char *place = place_of(r->lead), *cause = cause_text(r, exact), *request = request_text(r->lead, exact);
    fprintf(out, "OUT OF MEMORY %s\n", place);
    wrap_print(out, 4, 6, "asked for %s: %s", request, cause);
    free(request);
    free(place);
    free(cause);
}

void oom_report_text(const struct oom_report *r, struct trace *t, FILE *out, bool exact, bool full)
{
    if (r->lead) {
        struct refusal_answer changes;
        ask_refusal(r, t, &changes);
        oom_report_head_text(r, out, exact);
        print_driver(r, out, exact);
        report_unused_text(t, &r->unused, "then", UNUSED_LARGE, out, exact);
        print_cures(&changes, out, exact);
        print_who(r, t, out);
        report_parts_text(r->live, r->live_count, r->live_bytes, out, exact);
        report_code_text(t, r->live, r->live_count, r->live_bytes, r->lead->device, r->lead->seq, out, exact);
        print_changes(&changes, t, out, exact);
        print_held(r, out, exact);
        print_request(r, t, out, full);
        print_stacks(r, t, out, exact, full);
        print_all(r, out, exact);
        print_left(r, t, out, exact);
        refusal_free(&changes);
    } else if (t->oom_total > 0 || t->refused_total - r->absorbed > 0) {
        fprintf(out, "OUT OF MEMORY: %s and %s by the driver; the file does not hold who held the memory\n",
                units_count(t->oom_total, "framework failure").s,
                units_count(t->refused_total - r->absorbed, "refusal").s);
    }
    print_absorbed(r, out);
    if (r->lead || r->absorbed > 0 || t->oom_total > 0 || t->refused_total > 0)
        fputc('\n', out);
}
