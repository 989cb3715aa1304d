/*
 * relabel.h - --phases and --steps of the commands that read a recording: the rules of `vramscope run
 * --phases`, applied afterwards to the ranges of the file, as if they had been there during the run.
 * Likewise steps end with ranges, or at marks, of a given name.  The file is not changed (read/relabel.c).
 */
#ifndef VS_ANALYSIS_RELABEL_H
#define VS_ANALYSIS_RELABEL_H

#include "read/trace.h"

struct relabel {
    const char *phases; /* NAME=PATTERN[,NAME=PATTERN...]; NULL: as recorded */
    const char *steps;  /* PATTERN of the names whose ranges are steps; NULL: as recorded */
    bool brief;         /* by trace_open_brief; not together with rules */
    int64_t process;    /* of a file with several; 0: the first, with a line on stderr that says so */
    bool chosen;        /* of several processes none is shown where nobody says which: what holds of one does
                           not of the others */
    bool several;       /* files are shown: one that has a single process is, whatever PROCESS says */
};

/* Of a command whose struct options has one, RELABEL. */
#define RELABEL_ROWS                                                                                         \
    {"phases",                                                                                               \
     0,                                                                                                      \
     "RULES",                                                                                                \
     ARG_TEXT,                                                                                               \
     AT(relabel.phases),                                                                                     \
     "make phases of ranges by their names: name=pattern[,name=pattern...]"},                                \
        {"process", 0, "N", ARG_COUNT, AT(relabel.process), "of a file with several processes, process N"},  \
    {                                                                                                        \
        "steps", 0, "PATTERN", ARG_TEXT, AT(relabel.steps), "a step is a range of such a name (NVTX)"        \
    }

/* Checks R; 0, or -1 with the reason in *WHY. */
int relabel_check(const struct relabel *r, char *why, size_t size);
/* trace_open_process, and then applies R. */
int relabel_open(struct trace *t, const char *path, const struct relabel *r);

#endif
