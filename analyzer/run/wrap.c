/*
 * wrap.c - `vramscope wrap`: executes a worker of a job that runs under `vramscope run`, with the library
 * preloaded again, where its launcher removed LD_PRELOAD. The worker takes this process's place: same pid,
 * descriptors and signals.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "start.h"
#include "place.h"

struct options {
    const char *output;
    bool no_auto_phases, no_nvtx, no_injection;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output),
     "database to write where no vramscope run said it; %h, %p, %r as in VRAMSCOPE_OUTPUT"},
    {"no-auto-phases", 0, NULL, ARG_FLAG, AT(no_auto_phases), "don't tell PyTorch's phases automatically"},
    {"no-nvtx", 0, NULL, ARG_FLAG, AT(no_nvtx), "don't become the NVTX injection library"},
    {"no-injection", 0, NULL, ARG_FLAG, AT(no_injection),
     "don't use CUDA's injection to report processes that lost the library"},
    {0}};

/* An output that `run` has set stays: all processes of a job share it. */
static void set_output(const char *output)
{
    if (output && !getenv("VRAMSCOPE_OUTPUT"))
        setenv("VRAMSCOPE_OUTPUT", output, 1);
}

static int call(void *options, char **command, int n)
{
    struct options *o = options;
    char why[512];
    if (n == 0)
        return complain("wrap: which command? vramscope wrap -- python worker.py");
    char *library = place_library(why, sizeof why);
    if (!library)
        return complain("wrap: %s", why);
    struct environment e = {library, !o->no_nvtx, !o->no_injection,
                            environment_wants_python(o->no_auto_phases), NULL};
    int status = environment_preload("wrap", &e);
    free(library);
    if (status)
        return status;
    set_output(o->output);
    execvp(command[0], command);
    return start_failed("wrap", command[0], errno);
}

const struct command command_wrap = {
    "wrap",
    "put the library back into a worker whose launcher removed it",
    "[options] [--] COMMAND [ARGUMENT...]",
    "Executes COMMAND, a worker of a job, with the recording library preloaded, in this process's place.\n"
    "For launchers that give their workers an LD_PRELOAD of their own, or none:\n"
    "  vramscope run -o run.db -- LAUNCHER ... vramscope wrap -- WORKER ...",
    rows,
    call,
    COMMAND_OPTIONS(),
    .stop_at_operand = true};
