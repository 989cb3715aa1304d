/*
 * doctor.c - `vramscope doctor`: checks whether this machine can record, and says what to do if it can't.
 * Without a GPU its exit status is 0, too: programs run as they would without us, and what they record is
 * whole and empty.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/commands.h"
#include "base/json.h"
#include "base/table.h"
#include "base/wrap.h"
#include "doctor.h"

/* ---- findings ---- */

static const char *const verdicts[] = {"ok", "warn", "FAIL"}, *const json_verdicts[] = {"ok", "warn", "fail"};

void doctor_say(struct doctor *d, enum verdict verdict, const char *topic, const char *todo,
                const char *format, ...)
{
    va_list list;
    struct finding f = {.verdict = verdict, .topic = xstrdup(topic)};
    f.todo = todo && *todo ? xstrdup(todo) : NULL;
    va_start(list, format);
    if (vasprintf(&f.found, format, list) < 0)
        f.found = xstrdup("?");
    va_end(list);
    *PUSH(d->findings, d->count) = f;
}

static const struct finding *first_failure(const struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->findings[i].verdict == DOCTOR_FAIL)
            return &d->findings[i];
    return NULL;
}

/* What python3's PyTorch adds to it; nothing where there is none, or nobody asked. */
static const char *of_torch(unsigned facts)
{
    if (!(facts & DOCTOR_TORCH))
        return "";
    if (facts & DOCTOR_TORCH_CPU)
        return "; this python3's PyTorch uses no GPU";
    return facts & DOCTOR_TORCH_BLOCKS ? "; PyTorch tensor by tensor"
                                       : "; of PyTorch what it asks of the driver";
}

/* What will work here, of all that was found, in one line; the caller frees it. */
static char *verdict_line(const struct doctor *d)
{
    const struct finding *failure = first_failure(d);
    bool stacks = d->facts & DOCTOR_UNWINDER && d->facts & DOCTOR_FIND_OBJECT;
    if (failure)
        return xformat("nothing can be recorded here: %s: %s", failure->topic, failure->found);
    if (!(d->facts & DOCTOR_DEVICE))
        return xformat(
            "no GPU can be used here, so there is nothing to record; recordings made elsewhere can be read%s",
            d->facts & DOCTOR_GNUPLOT ? "" : ", and plotted as text");
    if (d->facts & DOCTOR_SIMULATED)
        return xstrdup(
            "programs of CUDA's driver API can be recorded here, on the simulated driver; PyTorch can't "
            "use that one, and no figure is a GPU's");
    return xformat(
        "programs that use the GPU can be recorded here, if they are not linked statically, %s native "
        "call stacks%s",
        stacks ? "with" : "without", of_torch(d->facts));
}

static void show_text(const struct doctor *d)
{
    struct table t;
    table_init(&t, "<<<", NULL);
    t.sentences = true;
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        table_cell(&t, "%s", verdicts[f->verdict]);
        table_cell(&t, "%s", f->topic);
        table_cell(&t, "%s", f->found);
        if (!f->todo)
            continue;
        table_cell(&t, "%s", "");
        table_cell(&t, "%s", "");
        table_cell(&t, "-> %s", f->todo);
    }
    wrap_page_begin(false);
    table_print(&t, stdout, 0);
    table_free(&t);
    char *verdict = verdict_line(d);
    printf("so: %s\n", verdict);
    wrap_page_end();
    free(verdict);
}

static void show_json(const struct doctor *d, enum verdict worst)
{
    struct json j;
    json_document(&j, stdout);
    json_text(&j, "verdict", json_verdicts[worst]);
    char *works = verdict_line(d);
    json_text(&j, "works", works);
    free(works);
    json_begin(&j, "findings", '[');
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        json_begin(&j, NULL, '{');
        json_text(&j, "verdict", json_verdicts[f->verdict]);
        json_text(&j, "topic", f->topic);
        json_text(&j, "found", f->found);
        json_text(&j, "todo", f->todo);
        json_end(&j);
    }
    json_close(&j);
}

static void free_all(struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->findings[i].topic);
        free(d->findings[i].found);
        free(d->findings[i].todo);
    }
    free(d->findings);
}

/* ---- the command ---- */

struct options {
    bool json, quick;
    const char *output;
};

static const struct option_row rows[] = {
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-doctor(1)"},
    {"output", 'o', "DIR", ARG_TEXT, AT(output), "where you mean to record to (default: here)"},
    {"quick", 'q', NULL, ARG_FLAG, AT(quick), "make no GPU context and start no Python"},
    {0}};

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    if (n > 0)
        return complain("doctor: takes no operand, but got '%s': vramscope doctor", operands[0]);
    struct doctor d = {.output = o->output, .quick = o->quick};
    doctor_shim(&d);
    doctor_places(&d);
    doctor_gpu(&d);
    doctor_tools(&d);
    enum verdict worst = DOCTOR_OK;
    for (size_t i = 0; i < d.count; i++)
        if (d.findings[i].verdict > worst)
            worst = d.findings[i].verdict;
    if (o->json)
        show_json(&d, worst);
    else
        show_text(&d);
    free_all(&d);
    return worst == DOCTOR_FAIL ? EXIT_CHECK : EXIT_GOOD;
}

const struct command command_doctor = {
    "doctor",
    "check that this machine can record",
    "[options]",
    "Checks that this machine can record: the library and its preloading, call stacks, journal and "
    "output directory, driver, devices, NVML, gnuplot, Python and PyTorch. Exit status 1 where recording "
    "can't work; without a GPU it is 0 all the same, as programs run there and record nothing.",
    rows,
    call,
    COMMAND_OPTIONS(.output = ".")};
