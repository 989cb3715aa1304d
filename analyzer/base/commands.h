/*
 * commands.h - the subcommands of `vramscope`: one function each, in cli/, run/, fit/, sweep/ and doctor/;
 * cli/main.c has the table of them.
 *
 * A command gets its own name in argv[0] and returns the exit status:
 *
 *      0    good
 *      1    a check failed
 *      2    usage, bad input, or output that can't be written; one line on stderr says which
 *      3    shown, but incomplete or not known to be complete
 */
#ifndef VS_BASE_COMMANDS_H
#define VS_BASE_COMMANDS_H

enum { EXIT_GOOD = 0, EXIT_CHECK = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3 };

/* The worse of two files' statuses: a file that could not be used counts more than an incomplete one. */
static inline int exit_worse(int a, int b)
{
    static const int weight[] = {0, 2, 3, 1};
    return weight[a] > weight[b] ? a : b;
}

int cmd_run(int argc, char **argv);
int cmd_wrap(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_peak(int argc, char **argv);
int cmd_waste(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_whatif(int argc, char **argv);
int cmd_estimate(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_fit(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_recover(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_completions(int argc, char **argv);

/* The table of them, in the order of --help (cli/main.c); the last has no name. */
struct command {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *help;
};
extern const struct command vramscope_commands[];

#endif
