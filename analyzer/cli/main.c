/*
 * main.c - the `vramscope` command: finds the subcommand in a table and calls it.
 */
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/commands.h"
#include "base/wrap.h"
#include "read/guard.h"

const struct command vramscope_commands[] = {
    {"run", cmd_run, "run a program and record its GPU memory"},
    {"wrap", cmd_wrap, "put the library back into a worker whose launcher removed it"},
    {"fit", cmd_fit, "will it fit? a dry run without a GPU, on whichever card"},
    {"report", cmd_report, "peaks per device and phase, what they were made of, what would lower them"},
    {"peak", cmd_peak, "who held the bytes at the peak: line, layer, role, phase, library, call stack"},
    {"waste", cmd_waste, "what was allocated and lay unused, and what the peak would be without it"},
    {"diff", cmd_diff, "what changed from one run to another: role, layer, line, phase"},
    {"check", cmd_check, "hold runs against limits of memory, for continuous integration"},
    {"plot", cmd_plot, "allocated and reserved over time: png, svg, pdf, gnuplot script or text"},
    {"view", cmd_view, "a page of HTML to zoom, click and search in: no server, no network"},
    {"export", cmd_export, "for other tools: perfetto, pytorch, speedscope, folded, pprof, csv"},
    {"whatif", cmd_whatif, "the recorded blocks under other allocators: what each would hold"},
    {"estimate", cmd_estimate,
     "what a training step will hold, by formulas; beside a recording, what it did"},
    {"sweep", cmd_sweep, "a command over a grid of sizes: every rank, hangs and crashes included"},
    {"import", cmd_import, "make a recording of PyTorch memory snapshots"},
    {"merge", cmd_merge, "the files of a job in one database"},
    {"top", cmd_top, "what processes that record now hold, live"},
    {"mcp", cmd_mcp, "the questions as tools for agents, by the Model Context Protocol"},
    {"recover", cmd_recover, "complete the file of a killed process from the journal that it left"},
    {"doctor", cmd_doctor, "check that this machine can record"},
    {"demo", cmd_demo, "a recording of a GPU to look at, without one"},
    {"explain", cmd_explain, "what a word of the pages means"},
    {"completions", cmd_completions, "print the completions of bash, zsh or fish"},
    {0}};

enum { COMMANDS = sizeof vramscope_commands / sizeof *vramscope_commands - 1 };

static int print_help(void)
{
    puts("usage: vramscope COMMAND [options] ...\n\n"
         "What made a GPU training job's memory peak: record it, then ask.\n\n"
         "  vramscope run -o run.db -- python train.py\n"
         "  vramscope report run.db\n"
         "  vramscope plot run.db -o run.png\n\n"
         "commands:");
    for (int i = 0; i < COMMANDS; i++)
        wrap_print(stdout, 2, 15, "%-12s %s", vramscope_commands[i].name, vramscope_commands[i].help);
    puts("");
    wrap_print(stdout, 0, 0,
               "exit status: 0 good, 1 a check failed, 2 usage or bad input, 3 shown but incomplete, or "
               "nobody can tell; "
               "run and wrap end as their command does");
    puts("\n'vramscope COMMAND --help' says more, as do the man pages (man vramscope).");
    return EXIT_GOOD;
}

static int unknown(const char *word)
{
    const char *names[COMMANDS + 1];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = vramscope_commands[i].name;
    names[COMMANDS] = NULL;
    const char *near = args_nearest(word, names);
    if (near)
        return complain("unknown command '%s': did you mean '%s'?", word, near);
    return complain("unknown command '%s': 'vramscope --help' lists them", word);
}

static int run_command(int argc, char **argv)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[0], vramscope_commands[i].name))
            return vramscope_commands[i].function(argc, argv);
    return unknown(argv[0]);
}

/* Checks that all output was written: a full disk under `> report.txt` is an error, a closed pipe is not. */
static int finish(int status)
{
    if (fflush(stdout) || ferror(stdout))
        return status ? status : complain("the output can't be written: is the disk full?");
    return status;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    guard_begin();
    if (!*word) {
        print_help();
        return EXIT_USAGE;
    }
    char help[] = "--help", *of_command[] = {argc > 2 ? argv[2] : NULL, help, NULL};
    if (!strcmp(word, "help") && *of_command)
        return finish(run_command(2, of_command));
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return finish(print_help());
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        puts("vramscope " VRAMSCOPE_VERSION);
        return finish(EXIT_GOOD);
    }
    if (*word == '-')
        return complain("unknown option '%s': 'vramscope --help' lists the commands", word);
    return finish(run_command(argc - 1, argv + 1));
}
