/*
 * args.h - each command has one table of its options, from which parsing and --help follow.
 *
 *      static const struct option_row rows[] = {
 *          {"output", 'o', "FILE", ARG_TEXT, offsetof(struct my, output), "write FILE"}, {0}};
 *
 * Options may stand before and after operands, "--" ends them, long ones may be given as --name=value or
 * --name value. For an unknown option a line names the nearest one, and the exit status is 2.
 */
#ifndef VS_BASE_ARGS_H
#define VS_BASE_ARGS_H

#include "base.h"

enum arg_kind {
    ARG_FLAG,  /* bool */
    ARG_TEXT,  /* const char * */
    ARG_COUNT, /* int64_t >= 0 */
    ARG_TIME,  /* int64_t nanoseconds, see units_read_time */
    ARG_SIZE,  /* int64_t[2]: WxH */
    ARG_SPAN,  /* int64_t[2]: N or N-M, from 1 */
    ARG_LIST   /* struct arg_list: the option may be given several times */
};

struct arg_list { /* the values in their order; the caller frees the array, not the texts */
    const char **values;
    size_t count;
};

struct option_row {
    const char *name;
    char letter;
    const char *value; /* the name of the value in --help, "a|b|c" where it is one of these; NULL for flags */
    enum arg_kind kind;
    size_t offset; /* into the command's struct of options */
    const char *help;
};

struct command_help {
    const char *name;     /* "report" */
    const char *synopsis; /* "[options] FILE...|DIR" */
    const char *about;    /* paragraphs */
    const struct option_row *rows;
    bool stop_at_operand; /* the arguments after the first operand belong to another program (run) */
};

/* Fills OPTIONS, moves the operands to *OPERANDS (a slice of argv) and returns their number; -1 = --help was
 * printed (exit 0), -2 = a bad option, which was reported (exit 2). */
int args_parse(const struct command_help *help, int argc, char **argv, void *options, char ***operands);

/* From now on args_parse hands a command's table to VISIT and returns -1, whatever the arguments: that is how
 * completions are made of all tables. */
void args_visit(void (*visit)(const struct command_help *help, void *context), void *context);

/* The nearest of NAMES (NULL-terminated) to WORD; NULL: none is near. */
const char *args_nearest(const char *word, const char *const *names);

#endif
