/*
 * check.h - `vramscope check`: all recordings held against all limits, each on each device of each process.
 * load.c says which files, devices and base runs belong together; measure.c, against.c and growth.c what is
 * known of a figure, and the verdict.
 */
#ifndef VS_SHOW_CHECK_CHECK_H
#define VS_SHOW_CHECK_CHECK_H

#include <stdio.h>

#include "analysis/limits.h"
#include "analysis/relabel.h"
#include "base/json.h"
#include "show/report/report.h"
#include "read/living.h"
#include "read/ooms.h"

/* ---- what is asked ---- */

struct check_options {
    struct limit *limits;
    size_t limit_count;
    bool no_growth;
    const char *against; /* a file or a directory; NULL */
    struct tolerance tolerance;
    const char *tolerance_text;
    bool allow_killed; /* a process that did not end in good order counts as ended */
    struct relabel relabel;
};

/* ---- the answer ---- */

struct check_part {
    char *name; /* NULL: none is known */
    int64_t bytes;
    int64_t unnamed; /* of all that has no such name */
};

struct check_cause { /* what held the most at that moment, or rose the most */
    bool known, change;
    int64_t t, step; /* UNKNOWN */
    char *phase;
    struct check_part place; /* a line, or where none is known a function or the phase */
    bool place_is_code;      /* more than the phase */
    struct check_part line, layer, role, holder;
};

struct check_row {
    enum verdict verdict;
    size_t limit; /* which of the limits: an index, NO_GROWTH, AGAINST, RANKS */
    char *given;  /* the option, as on the command line */
    char *what;   /* "peak allocated in phase logits" */
    char *label, *path;
    char *dry;                     /* of a dry run, the words for it; NULL */
    int64_t process, rank, device; /* UNKNOWN: none, or all */
    bool per_step;                 /* the figure is bytes a step */
    struct measured m;
    int64_t limit_bytes; /* UNKNOWN: there is none */
    int64_t base_bytes;  /* of the run that it is held against */
    char *why;           /* why nobody can tell, or what is to be known beside it; NULL */
    bool nothing;        /* the file has nothing of what the limit is about */
    struct check_cause cause;
};

enum { CHECK_GROWTH = 1 << 20, CHECK_AGAINST, CHECK_RANKS, CHECK_POINTS };

struct check {
    struct check_row *rows;
    size_t count;
    size_t verdicts[VERDICT_END];
    int unusable; /* files that could not be read: said on stderr */
};

/* Holds FILES against O.  0, or -1 where the base run can't be used (said).  check_free either way. */
int check_run(struct check *c, char *const *files, size_t n, bool directory, const struct check_options *o);
void check_free(struct check *c);
void check_row_free(struct check_row *r);
int check_status(const struct check *c); /* exit status */

/* ---- parts ---- */

struct check_file { /* one process of a file */
    struct trace trace;
    struct report report;
    struct trace_oom_kept *ooms;
    size_t oom_count;
    bool open;
};

/* Nobody can tell, and nothing is known yet. */
struct check_row *check_add_row(struct check *c, size_t limit, char *given, char *what, const char *label,
                                const char *path);
struct check_row *check_add(struct check *c, const struct check_file *f, int64_t device, size_t limit,
                            char *given, char *what);
/* measure.c */
void check_limit(struct check *c, struct check_file *f, size_t index, const struct check_options *o);
void check_growth(struct check *c, struct check_file *f, const struct check_options *o);
void check_against(struct check *c, struct check_file *f, struct check_file *base,
                   const struct check_options *o);
/* Why the figures of DEVICE may be greater than they were recorded; NULL: they are not.  The caller frees it.
 */
char *check_doubt(const struct check_file *f, int64_t device, const struct check_options *o);
/* Likewise of what was seen alone: a trace that began late may have missed a peak, and no growth. */
char *check_doubt_seen(const struct check_file *f, int64_t device, const struct check_options *o);

/* cause.c: of what lived in T (LIVE), or of what rose since BEFORE, of another run (may be NULL) */
void check_cause(struct check_cause *cause, struct trace *t, const struct trace_live *live, size_t n,
                 const struct trace_live *before, size_t before_count);
void check_cause_free(struct check_cause *cause);
/* "largest then: ..."; "" where nothing is known.  The caller frees it. */
char *check_cause_words(const struct check_row *r);

/* measure.c: what limits and comparisons share */

/* The peak of D; *WHY (NULL before) gets the reason where only a part of it is known. */
struct measured check_measure_peak(const struct check_file *f, const struct device_report *d, bool reserved,
                                   char **why);
/* Whether a total of KIND on DEVICE may be too high, because ends were lost. */
bool check_too_high(const struct trace *t, int64_t device, const char *kind);
const struct trace_phase *check_find_phase(const struct trace *t, int64_t device, const char *name);

/* The verdict on R's figure.  DOUBT, which it takes: the figure may have been greater; NULL. */
void check_judge(struct check_row *r, char *doubt, int64_t limit_least, int64_t limit_most);

/* The moment of a cause. */
void check_cause_at(struct check_cause *cause, struct trace *t, int64_t when, const char *phase);
/* What held the most when P was at its greatest; with BASE and Q, the same phase of another run, what rose.
 */
void check_cause_of_phase(struct check_row *r, struct check_file *f, const struct trace_phase *p,
                          struct check_file *base, const struct trace_phase *q);

/* ---- showing ---- */

const char *check_verdict_name(enum verdict v); /* "within" */
char *check_title(const struct check_row *r);   /* "peak allocated, device 0" */
char *check_finding(const struct check_row *r); /* "23.6 GiB, limit 20.0 GiB: ..." */
void check_text(const struct check *c, size_t files, FILE *out);
void check_json(const struct check *c, FILE *out);
int check_junit(const struct check *c, const char *path);           /* 0, or 2 with the reason said */
void check_github(const struct check *c, FILE *out);                /* annotations */
void check_github_summary(const struct check *c, const char *path); /* Markdown, appended */

#endif
