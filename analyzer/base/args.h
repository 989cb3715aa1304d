/*
 * args.h - a command as a table, of which parsing, --help, completions and the tools of `vramscope mcp` are
 * made.
 *
 *      static const struct option_row rows[] = {
 *          {"output", 'o', "FILE", ARG_TEXT, AT(output), "write FILE"}, {0}};
 *      const struct command command_plot = {"plot", "a picture", "[options] FILE", "Draws FILE.", rows,
 *                                           call, COMMAND_OPTIONS(.output = "-")};
 *
 * Options may stand before and after operands, until "--".
 */
#ifndef VS_BASE_ARGS_H
#define VS_BASE_ARGS_H

#include <string.h>

#include "base.h"

enum arg_kind {
    ARG_FLAG,  /* bool */
    ARG_TEXT,  /* const char * */
    ARG_WORD,  /* const char *, one of those between | in the row's value */
    ARG_INDEX, /* int: which of these words */
    ARG_COUNT, /* int64_t >= 0 */
    ARG_TIME,  /* int64_t nanoseconds, see units_read_time */
    ARG_SIZE,  /* int64_t[2]: WxH */
    ARG_SPAN,  /* int64_t[2]: N or N-M, from 1 */
    ARG_LIST   /* struct arg_list: the option may be given several times */
};

struct arg_list { /* the values in their order; the array is the parser's */
    const char **values;
    size_t count;
};

struct option_row {
    const char *name;
    char letter;
    const char *value; /* the name of the value in --help, "a|b|c" where it is one of these, "[NAME]" where it
                          can be left out and is "on" then; NULL for flags */
    enum arg_kind kind;
    size_t offset; /* into the command's struct options */
    const char *help;
};
#define AT(field) offsetof(struct options, field)

struct command {
    const char *name;     /* "report" */
    const char *line;     /* of `vramscope --help` */
    const char *synopsis; /* "[options] FILE...|DIR" */
    const char *about;    /* paragraphs */
    const struct option_row *rows;
    /* The exit status, EXIT_GOOD ...  OPTIONS: a struct options, filled; N operands, and NULL behind them. */
    int (*run)(void *options, char **operands, int n);
    const void *defaults; /* what OPTIONS has where nothing is given */
    size_t size;
    bool stop_at_operand; /* the arguments after the first operand belong to another program (run) */
};
/* The last members of a struct command, but for stop_at_operand: struct options as it begins. */
#define COMMAND_OPTIONS(...) .defaults = &(const struct options){__VA_ARGS__}, .size = sizeof(struct options)

/* Runs C as ARGV asks (ARGV[0] is its name): its exit status; 0 where --help was printed, 2 where an option
 * is wrong, which was said. */
int command_call(const struct command *c, int argc, char **argv);
/* Takes the options of C out of N WORDS, wherever they stand; what is left and its number, or -1, said. */
int command_take(const struct command *c, char **words, int n, void *options);

/* The nearest of NAMES (NULL-terminated) to WORD; NULL: none is near. */
const char *args_nearest(const char *word, const char *const *names);

/* ---- which rows ---- */

/* Which devices and which rows of its tables a command shows: --device, --top and --sort. */
struct choice {
    int64_t device;   /* UNKNOWN: all */
    int64_t top;      /* rows of a table; 0: all; UNKNOWN: as many as the command shows by itself */
    const char *sort; /* one of the command's words; NULL: its own order */
};

#define CHOICE_NONE                                                                                          \
    {                                                                                                        \
        .device = UNKNOWN, .top = UNKNOWN                                                                    \
    }

/* Rows of a command's table of options, whose struct options has a struct choice, CHOICE; SORTS
 * "peak|time|name". */
#define CHOICE_ROWS(SORTS)                                                                                   \
    {"device", 'd', "N", ARG_COUNT, AT(choice.device), "only this device"},                                  \
        {"top", 'n', "N", ARG_COUNT, AT(choice.top), "rows shown of each table; 0 = all"},                   \
    {                                                                                                        \
        "sort", 0, SORTS, ARG_WORD, AT(choice.sort), "order of the rows"                                     \
    }

/* How many of N rows are shown, OWN by the command itself (0: all). */
static inline size_t choice_rows(const struct choice *c, size_t n, size_t own)
{
    size_t most = !c || c->top == UNKNOWN ? own : (size_t)c->top;
    return most && most < n ? most : n;
}

/* Whether C sorts by WORD. */
static inline bool choice_sorts(const struct choice *c, const char *word)
{
    return c && c->sort && !strcmp(c->sort, word);
}

/* ---- the commands ---- */

/* The subcommands of `vramscope`, in cli/, run/, fit/, sweep/ and doctor/, and their exit
 * statuses:
 *
 *      0    good
 *      1    a check failed
 *      2    usage, bad input, or output that can't be written; one line on stderr says which
 *      3    shown, but incomplete or not known to be complete */
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
    command_whatif, command_estimate, command_sweep, command_fit, command_top, command_suspend,
    command_resume, command_recover, command_doctor, command_mcp, command_demo, command_explain,
    command_completions;
extern const struct command *const vramscope_commands[];

#endif
