/*
 * choice.h - which devices and which rows of its tables a command shows: --device, --top and --sort.
 */
#ifndef VS_BASE_CHOICE_H
#define VS_BASE_CHOICE_H

#include <string.h>

#include "args.h"

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

#endif
