/*
 * doctor.c - `vramscope doctor`: checks that this machine can record, and says what to do where it can't.
 *
 * Each check adds findings (doctor.h); this file only shows them.  Exit 0: recording works, perhaps with
 * less; 1: it does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/commands.h"
#include "doctor.h"
#include "base/json.h"
#include "base/table.h"

struct options {
    bool json, quick;
    const char *output;
};

static const struct option_row rows[] = {
    {"json", 0, NULL, ARG_FLAG, offsetof(struct options, json), "for programs: see vramscope-doctor(1)"},
    {"output", 'o', "DIR", ARG_TEXT, offsetof(struct options, output),
     "where you mean to record to (default: here)"},
    {"quick", 'q', NULL, ARG_FLAG, offsetof(struct options, quick),
     "make no GPU context and start no Python"},
    {0}};

static const struct command_help help = {
    "doctor", "[options]",
    "Checks that this machine can record: the library and its preloading, call stacks, journal and output\n"
    "directory, driver, devices, NVML, gnuplot, Python and PyTorch.  Exit status 1 where recording can't "
    "work.",
    rows, false};

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

static void print_text(const struct doctor *d)
{
    struct table t;
    table_init(&t, "<<<", NULL);
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
    table_print(&t, stdout, 0);
    table_free(&t);
}

static void print_json(const struct doctor *d, enum verdict worst)
{
    struct json j;
    json_open(&j, stdout);
    json_begin(&j, NULL, '{');
    json_text(&j, "verdict", json_verdicts[worst]);
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
    json_end(&j);
    json_end(&j);
    json_close(&j);
}

static void free_findings(struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->findings[i].topic);
        free(d->findings[i].found);
        free(d->findings[i].todo);
    }
    free(d->findings);
}

int cmd_doctor(int argc, char **argv)
{
    struct options o = {.output = "."};
    char **operands;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n > 0)
        return complain("doctor: takes no operand, but got '%s'", operands[0]);
    struct doctor d = {.output = o.output, .quick = o.quick};
    doctor_shim(&d);
    doctor_places(&d);
    doctor_gpu(&d);
    doctor_tools(&d);
    enum verdict worst = DOCTOR_OK;
    for (size_t i = 0; i < d.count; i++)
        if (d.findings[i].verdict > worst)
            worst = d.findings[i].verdict;
    if (o.json)
        print_json(&d, worst);
    else
        print_text(&d);
    free_findings(&d);
    return worst == DOCTOR_FAIL ? EXIT_CHECK : EXIT_GOOD;
}
