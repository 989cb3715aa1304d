/*
 * main.c - the `vramscope` command: the table of its subcommands, of which it calls one.
 */
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/page.h"
#include "read/guard.h"

const struct command *const vramscope_commands[] = {&command_run,         &command_wrap,
                                                    &command_fit,         &command_report,
                                                    &command_peak,        &command_waste,
                                                    &command_diff,        &command_check,
                                                    &command_plot,        &command_view,
                                                    &command_export,      &command_whatif,
                                                    &command_estimate,    &command_sweep,
                                                    &command_import,      &command_merge,
                                                    &command_top,         &command_suspend,
                                                    &command_resume,      &command_mcp,
                                                    &command_recover,     &command_doctor,
                                                    &command_demo,        &command_explain,
                                                    &command_completions, NULL};

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
        wrap_print(stdout, 2, 15, "%-12s %s", vramscope_commands[i]->name, vramscope_commands[i]->line);
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
        names[i] = vramscope_commands[i]->name;
    names[COMMANDS] = NULL;
    const char *near = args_nearest(word, names);
    if (near)
        return complain("unknown command '%s': did you mean '%s'?", word, near);
    return complain("unknown command '%s': 'vramscope --help' lists them", word);
}

static int run_command(int argc, char **argv)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[0], vramscope_commands[i]->name))
            return command_call(vramscope_commands[i], argc, argv);
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
