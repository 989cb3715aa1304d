/*
 * ranks.h - `vramscope report` of several files: the structs of analysis/ranks.h from open traces, and
 * their page.
 */
#ifndef VS_SHOW_RANKS_RANKS_H
#define VS_SHOW_RANKS_RANKS_H

#include <stdio.h>

#include "analysis/ranks.h"
#include "analysis/relabel.h"
#include "base/json.h"
#include "show/report/parts.h"
#include "show/report/report.h"
#include "read/stacks.h"

#define RANK_COMPLETE "complete" /* the state of a file without any problem */

/* Which job T is of, and on which devices it ran. */
struct rank_file ranks_file_start(const struct trace *t);
/* Copies the part of a report that the page of the ranks needs. */
struct rank_file ranks_file_of(const struct report *r);

/* Why one device of a job peaked higher than another: what it held more of, by each of enum moved_by. */
struct rank_excess {
    char *name[3]; /* NULL: unknown, or nothing */
    int64_t bytes[3];
    char *words; /* of all three; NULL: there is none */
    int64_t
        communication; /* by how much more it had of what a communication library asked for or was given */
    int64_t gathered;  /* likewise of what gathers of FSDP and ZeRO made */
};
/* Reads the files of PEAKS' highest and lowest device again, as RELABEL says; empty if they are equal or
 * unknown. */
struct rank_excess ranks_excess(const struct rank_span *peaks, const struct relabel *relabel, bool exact);
void ranks_free_excess(struct rank_excess *e);
/* Whether F is a function of PyTorch's FSDP or of DeepSpeed that gathers parameters. */
bool ranks_gather_frame(const struct trace_frame *f);

/* Why the driver has more beyond what was reserved for one device than for another: which part differs most.
 */
struct rank_beyond {
    const char *part; /* "context", "code", ..., "of unknown cause"; NULL: nothing, or not known */
    int64_t bytes;
};
/* False where there is nothing to say. */
bool ranks_beyond(const struct rank_span *residuals, const struct relabel *relabel, struct rank_beyond *out);

/* RELABEL: as for reading the files; the files with the highest and the lowest peak are read again.  Both
 * return whether everything is there: all ranks, and of each file the end and all events.  Without ALL a page
 * has the highest ranks alone, and no phases. */
bool ranks_text(const struct rank_file *files, size_t n, const struct relabel *relabel,
                const struct choice *choice, bool all, FILE *out, bool exact);
bool ranks_json(const struct rank_file *files, size_t n, const struct relabel *relabel,
                struct json *j); /* the array "jobs" */

/* "1, 4-6": N ranks in order; the caller frees it. */
char *ranks_list(const int64_t *ranks, size_t n);

/* For commands whose pages show the files of a directory one by one: the jobs that they are of. */
struct ranks_seen {
    struct rank_file *files;
    size_t count;
};
void ranks_seen_add(struct ranks_seen *seen, const struct trace *t);
/* Where TELL, says on stderr, in a line a job, which ranks have no file; frees SEEN.  EXIT_INCOMPLETE: it
 * said so.  (Of files that were named one by one nobody expects the others.) */
int ranks_seen_end(struct ranks_seen *seen, bool tell);

#endif
