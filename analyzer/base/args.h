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
    const char *value; /* the name of the value in --help, "a|b|c" where it is one of these; NULL for flags */
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
    /* The exit status (commands.h).  OPTIONS: a struct options, filled; N operands, and NULL behind them. */
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

#endif
