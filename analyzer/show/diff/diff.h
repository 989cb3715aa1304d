/*
 * diff.h - compares two runs.  A side is one process: of a directory, or of several processes, the one with
 * the highest peak, which decides whether a job fits; the spans over all ranks stand beside it.
 */
#ifndef VS_SHOW_DIFF_DIFF_H
#define VS_SHOW_DIFF_DIFF_H

#include "analysis/compare.h"
#include "show/ranks/ranks.h"
#include "show/report/parts.h"
#include "analysis/relabel.h"
#include "read/tables.h"

struct diff_side {
    const struct relabel *relabel;
    int64_t device; /* the only one that is compared; UNKNOWN: all */
    struct trace trace;
    struct report report;
    bool open;
    struct trace_count *allocations; /* by device and phase */
    size_t allocation_count;
    struct rank_file *files; /* all files of the operand; at least one */
    size_t file_count;
    struct rank_job *job;          /* of the files, if there are several */
    const struct rank_file *shown; /* the one that is open */
};

struct diff_device {
    const struct device_report *side[2]; /* NULL: that side has no such device */
};

struct diff {
    struct diff_side side[2];
    struct diff_device *devices;
    size_t device_count;
    const struct choice *choice;
    char **notes; /* what to know before any figure: what can't be compared, or not quite */
    size_t note_count;
};

/* 0, or 2 with the reason said; diff_free either way. */
int diff_load(struct diff *d, const char *a, const char *b, const struct relabel *relabel,
              const struct choice *choice);
void diff_free(struct diff *d);
/* Whether both sides have their whole runs. */
bool diff_is_whole(const struct diff *d);

/* One figure of a device on both sides, with a row for each phase; or a row for each holder of bytes at the
 * peak.
 */
enum diff_figure { DIFF_ALLOCATED, DIFF_RESERVED, DIFF_RANGES, DIFF_TIME, DIFF_ALLOCATIONS };
struct comparison diff_phases(const struct diff *d, const struct diff_device *device,
                              enum diff_figure figure);
struct comparison diff_held(const struct diff_device *device); /* sorted by change */
struct comparison
diff_lines(const struct diff_device *device); /* likewise, by line; empty if no run has lines */
/* Likewise by role or layer (show/report/parts.h). */
struct comparison diff_parts(const struct diff_device *device, enum moved_by by);
/* What changed most between the two peaks, in words; NULL: nothing did, or it is unknown.  The caller frees
 * it. */
char *diff_words(const struct diff_device *device, bool exact);
/* Of the whole run. */
int64_t diff_whole(const struct diff *d, const struct diff_device *device, enum compare_side side,
                   enum diff_figure figure);

void diff_text(const struct diff *d, FILE *out, bool exact);
void diff_json(const struct diff *d, struct json *j);

#endif
