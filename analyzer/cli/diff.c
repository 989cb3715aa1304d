/*
 * diff.c - `vramscope diff`: two runs phase by phase.
 */
#include "base/args.h"
#include "base/page.h"
#include "show/diff/diff.h"

struct options {
    bool json, bytes;
    struct choice choice;
    struct relabel relabel;
};

static const struct option_row rows[] = {
    CHOICE_ROWS("change|name"),
    RELABEL_ROWS,
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-diff(1)"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct diff d;
    struct json j;
    char why[512];
    if (n != 2)
        return complain("diff: give two runs, not %d: vramscope diff A.db B.db", n);
    if (relabel_check(&o->relabel, why, sizeof why))
        return complain("diff: %s", why);
    o->relabel.several = true;
    int status = diff_load(&d, operands[0], operands[1], &o->relabel, &o->choice);
    if (!status && o->json) {
        json_document(&j, stdout);
        diff_json(&d, &j);
        json_close(&j);
    } else if (!status) {
        wrap_page_begin(false);
        diff_text(&d, stdout, o->bytes);
        wrap_page_end();
    }
    if (status)
        status = EXIT_USAGE;
    else if (!diff_is_whole(&d))
        status = EXIT_INCOMPLETE;
    diff_free(&d);
    return status;
}

const struct command command_diff = {
    "diff",
    "what changed from one run to another: role, layer, line, phase",
    "[options] A B",
    "What changed from run A to run B: per device the peak, each phase's peaks of allocated and reserved "
    "memory, who held the bytes at the two peaks, time and allocations, and what the driver used beyond.\n"
    "A and B are each a file, or a directory with the ranks of a job, of which the highest is compared.\n"
    "Exit status 3: shown, but one of them lacks events or ranks, or may lack its end.",
    rows,
    call,
    COMMAND_OPTIONS(.choice = CHOICE_NONE)};
