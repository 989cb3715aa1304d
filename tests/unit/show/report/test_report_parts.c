/* test_report_parts.c - a report asks the file for the parts that a page shows, and for nothing else. */

#include "unit/test.h"
#include "analysis/residual.h"
#include "read/curve.h"
#include "read/living.h"
#include "read/steps.h"
#include "show/report/report.h"

static char asked[256];

static int ask(const char *what)
{
    size_t n = strlen(asked);
    snprintf(asked + n, sizeof asked - n, "%s%s", n ? " " : "", what);
    return 0;
}

/* ---- what reads the file ---- */

int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n)
{
    return ask("live");
}

int trace_park(struct trace *t, int64_t device, bool first, struct trace_park *out)
{
    assert_true(first);
    return ask("park");
}

int trace_away_parts(struct trace *t, int64_t device, int64_t seq, struct trace_away_part **out, size_t *n)
{
    return ask("away_parts");
}

char *trace_away_words(const struct trace_away_part *parts, size_t n, enum trace_away_bytes with)
{
    return NULL;
}

int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n)
{
    return ask("samples");
}

int trace_step_memory(struct trace *t, int64_t device, int64_t seq, struct trace_step_memory *out)
{
    *out = (struct trace_step_memory){0};
    return ask("step_memory");
}

void trace_free_step_memory(struct trace_step_memory *m) {}

int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n)
{
    return ask("step_ends");
}

int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *all)
{
    return ask("range_names");
}

int trace_costs(struct trace *t, struct trace_cost **out, size_t *n)
{
    return ask("costs");
}

int trace_arenas(struct trace *t, struct trace_arena **out, size_t *n)
{
    return ask("arenas");
}

int unused_load(struct trace *t, int64_t device, const int64_t *seqs, size_t n, struct unused *out)
{
    memset(out, 0, n * sizeof *out);
    return ask("unused");
}

void unused_free(struct unused *u) {}

int unseen_load(struct trace *t, int64_t device, int64_t *bytes, const char **off)
{
    return ask("unseen");
}

int oom_report_load(struct oom_report *r, struct trace *t, int64_t role)
{
    return ask("refusal");
}

void oom_report_free(struct oom_report *r) {}

void report_load_causes(struct trace *t, struct device_report *d, const struct trace_step_memory *m)
{
    ask("causes");
}

int trace_then(struct trace *t, int64_t device, int64_t seq, struct trace_then *out)
{
    *out = (struct trace_then){.found = true};
    return 0;
}

int64_t trace_handed_out(struct trace *t, int64_t device, int64_t seq)
{
    return seq;
}

const struct trace_device *trace_find_device(const struct trace *t, int64_t device)
{
    return NULL;
}

const struct trace_peak *trace_find_peak(const struct trace *t, int64_t device, const char *kind)
{
    return strcmp(kind, "allocated") ? NULL : t->peaks;
}

const char *trace_phase_at_peak(struct trace *t, int64_t device)
{
    return NULL;
}

int64_t trace_step_at(struct trace *t, int64_t when)
{
    return UNKNOWN;
}

int trace_load_ooms(struct trace *t)
{
    return 0;
}

int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count)
{
    return ask("births");
}

int64_t trace_last_birth(struct trace *t, int64_t after, int64_t upto)
{
    return UNKNOWN;
}

int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq)
{
    return 0;
}

/* ---- the test ---- */

static const char *asks(unsigned parts)
{
    struct trace_peak peak = {.device = 0, .kind = "allocated", .bytes = 512, .seq = 1};
    struct trace t = {
        .peaks = &peak, .peak_count = 1, .only_device = UNKNOWN, .steps = 3, .refused_total = 1};
    struct report r;
    asked[0] = 0;
    assert_int_equal(report_load(&r, &t, parts), 0);
    assert_int_equal(r.device_count, 1);
    report_free(&r);
    return asked;
}

TEST(test_a_report_asks_the_file_for_the_parts_of_its_page_alone)
{
    assert_string_equal(asks(0), "");
    assert_string_equal(asks(REPORT_HELD), "live park");
    assert_string_equal(asks(REPORT_RESIDUAL), "samples");
    assert_string_equal(asks(REPORT_UNSEEN | REPORT_GROWTH), "step_ends unseen");
    assert_string_equal(asks(REPORT_UNUSED), "unused");
    assert_string_equal(
        asks(REPORT_ALL),
        "costs arenas refusal range_names live park unused step_ends step_memory causes samples unseen");
}
