/*
 * commands.h - the subcommands of `vramscope`, in cli/, run/, fit/, sweep/ and doctor/, and their exit
 * statuses:
 *
 *      0    good
 *      1    a check failed
 *      2    usage, bad input, or output that can't be written; one line on stderr says which
 *      3    shown, but incomplete or not known to be complete
 */
#ifndef VS_BASE_COMMANDS_H
#define VS_BASE_COMMANDS_H

#include "args.h"

enum { EXIT_GOOD = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3 };

/* The worse of two files' statuses: a file that could not be used counts more than an incomplete one. */
static inline int exit_worse(int a, int b)
{
    static const int weight[] = {0, 2, 3, 1};
    return weight[a] > weight[b] ? a : b;
}

/* In the files that are called like them; cli/main.c has the table, NULL at its end, in the order of --help.
 */
extern const struct command command_run, command_wrap, command_report, command_peak, command_waste,
    command_diff, command_check, command_plot, command_view, command_export, command_import, command_merge,
    command_whatif, command_estimate, command_sweep, command_fit, command_top, command_recover,
    command_doctor, command_mcp, command_demo, command_explain, command_completions;
extern const struct command *const vramscope_commands[];

#endif
