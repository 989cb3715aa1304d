/* mcp.c - `vramscope mcp`: the questions as tools for agents. */
#include "mcp/mcp.h"
#include "base/args.h"

struct options {
    bool allow_run;
};

static const struct option_row rows[] = {
    {"allow-run", 0, NULL, ARG_FLAG, offsetof(struct options, allow_run),
     "serve fit, too, which executes the program that it is asked about"},
    {0}};

static const struct command_help help = {
    "mcp", "[options]",
    "Serves the Model Context Protocol on standard input and output, for agents: report, peak, whatif, diff "
    "and waste as tools, and with --allow-run fit. Each answers with the JSON of the command, cut to a size "
    "that the caller names. It listens on no network.",
    rows, false};

int cmd_mcp(int argc, char **argv)
{
    struct options o = {0};
    char **operands;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n > 0)
        return complain("mcp takes no file: the client names files with each question");
    mcp_serve(vramscope_commands, o.allow_run);
    return EXIT_GOOD;
}
