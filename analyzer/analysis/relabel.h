/*
 * relabel.h - other phases and steps for a finished recording: --phases and --steps of the commands that read
 * one.
 *
 * Phases are told by names while a program runs (vramscope run --phases); who thinks of it later has the
 * ranges with their names in the file all the same.  Every range whose name matches a rule is that phase from
 * then on, and every event, peak and picture follows, as if the rule had stood there in the first place;
 * steps end where a range, or a mark, of a name ends.  The file stays as it is: what is changed lies in
 * temporary tables over its own (read/relabel.c).
 */
#ifndef VS_ANALYSIS_RELABEL_H
#define VS_ANALYSIS_RELABEL_H

#include "read/trace.h"

struct relabel {
    const char *phases; /* NAME=PATTERN[,NAME=PATTERN...]; NULL: as recorded */
    const char *steps;  /* PATTERN of the names whose ranges are steps; NULL: as recorded */
    int64_t process;    /* of a file with several, which one; 0: the first, and a line on stderr says so */
};

#define RELABEL_ROWS(type, member)                                                                           \
    {"phases",                                                                                               \
     0,                                                                                                      \
     "RULES",                                                                                                \
     ARG_TEXT,                                                                                               \
     offsetof(type, member.phases),                                                                          \
     "make phases of ranges by their names: name=pattern[,name=pattern...]"},                                \
        {"process",                                                                                          \
         0,                                                                                                  \
         "N",                                                                                                \
         ARG_COUNT,                                                                                          \
         offsetof(type, member.process),                                                                     \
         "of a file with several processes, process N"},                                                     \
    {                                                                                                        \
        "steps", 0, "PATTERN", ARG_TEXT, offsetof(type, member.steps),                                       \
            "a step is a range of such a name (NVTX)"                                                        \
    }

/* 0, or -1 with *WHY: R makes no sense. */
int relabel_check(const struct relabel *r, char *why, size_t size);
/* trace_open_process, and then as R says. */
int relabel_open(struct trace *t, const char *path, const struct relabel *r);

#endif
