/*
 * doctor.c - `vramscope doctor`: checks whether this machine can record, and says what to do if it can't.
 * Without a GPU its exit status is 0, too: programs run as they would without us, and what they record is
 * whole and empty.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "doctor.h"

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
        doctor_json(&d, worst);
    else
        doctor_text(&d);
    doctor_free(&d);
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
