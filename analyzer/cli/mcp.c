/* mcp.c - `vramscope mcp`: the questions as tools for agents. */
#include "base/args.h"
#include "mcp/mcp.h"

struct options {
    bool allow_run;
};

static const struct option_row rows[] = {
    {"allow-run", 0, NULL, ARG_FLAG, AT(allow_run),
     "serve fit, too, which executes the program that it is asked about"},
    {0}};

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    if (n > 0)
        return complain("mcp takes no file: the client names files with each question");
    mcp_serve(vramscope_commands, o->allow_run);
    return EXIT_GOOD;
}

const struct command command_mcp = {
    "mcp",
    "the questions as tools for agents, by the Model Context Protocol",
    "[options]",
    "Serves the Model Context Protocol on standard input and output, for agents: report, peak, whatif, "
    "diff and waste as tools, and with --allow-run fit. Each answers with the JSON of the command, cut "
    "to a size that the caller names. It listens on no network.",
    rows,
    call,
    COMMAND_OPTIONS()};
