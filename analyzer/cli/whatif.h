/* whatif.h - the parts of `vramscope whatif`. */
#ifndef VS_CLI_WHATIF_H
#define VS_CLI_WHATIF_H

#include "base/args.h"
#include "base/base.h"
#include "base/json.h"
#include "law/law.h"
#include "read/tape.h"
#include "read/trace.h"
#include "replay/replay.h"
#include "whatif/answers.h"

/* ---- the question ---- */

struct options {
    const char *policy, *capacity, *plot; /* plot: gone */
    struct law_request sizes;             /* --batch and --seq: of several recordings */
    int64_t device, process;
    struct arg_list edits;
    bool json, bytes, why;
};

struct question {
    const struct options *o;
    bool wanted[FEED_POLICIES];
    uint64_t capacity; /* 0: no end */
    char **settings;   /* words */
    int setting_count;
};

/* The command's operands but the file, N words.  0, or the exit status of what was complained about.  Q keeps
 * pointers to them. */
int question_read(struct question *q, char **words, int n);
/* "80GiB", "512M", "1e9"; false where it is none, or more than any memory. */
bool question_size(const char *text, uint64_t *bytes);
/* The value of --capacity; 0, or the exit status of what was complained about. */
int question_capacity(const char *text, uint64_t *bytes);
/* "max_split_size=1GiB", into S; 0, or the exit status of what was complained about. */
int question_setting(struct torch_settings *s, const char *word);

/* 1: answered, 0: the device had no blocks, -1: said why not.  J: NULL for text. */
int whatif_device(struct trace *t, const struct question *q, int64_t device, struct json *j);

/* ---- the page ---- */

/* Who answers adds rows, whose cells are then the page's; a column that nobody fills is not there. */
enum whatif_column {
    COLUMN_WHAT,
    COLUMN_REQUEST, /* whether the refused one passes */
    COLUMN_LEFT,
    COLUMN_FREES,
    COLUMN_RESERVED,
    COLUMN_DIFFERENCE,
    COLUMN_FITS,
    COLUMN_COSTS,
    COLUMN_UNDER, /* from here on under allocators by enum feed_policy */
    WHATIF_COLUMNS = COLUMN_UNDER + 4
};

struct whatif_row {
    int64_t rank, bytes; /* rows stand in this order, and else as they were added */
    size_t at;
    char *cells[WHATIF_COLUMNS]; /* owned; NULL: empty */
};

struct whatif_page {
    struct whatif_row *rows;
    size_t count, run;          /* run: the row of the run as it was; SIZE_MAX: there is none */
    const char *const *headers; /* by column; NULL: those of the table */
    char **lines;               /* owned */
    size_t line_count, above;   /* above: how many stand above the table */
};

/* Until the next one is added. */
struct whatif_row *whatif_row(struct whatif_page *p, int64_t rank, int64_t bytes);
void whatif_say(struct whatif_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void whatif_print(struct whatif_page *p);
void whatif_free(struct whatif_page *p);

/* ---- changes of the program ---- */

/* 0, or the exit status of what was complained about. */
int edits_check(const struct arg_list *edits);

/* The changes that are asked about, answered; rows[0] is the program as it was recorded. */
struct edits {
    struct program from;
    struct edit_facts facts;
    struct answered *rows;
    size_t n;
};

/* 0, or -1 with t->why. */
int edits_ask(struct trace *t, int64_t device, const struct edits_question *q, struct edits *out);
/* 0, or the exit status of what was complained about: those that are named cannot be made. */
int edits_complain(const struct edits *e, const struct edits_question *q);
/* Rows, and with WHY what each rests on.  BASE: what the run's allocator reserves of the program as it was.
 */
void edits_page(const struct edits *e, const struct edits_question *q, uint64_t base, bool why,
                struct whatif_page *page);
/* After the page: peaks by phase of the changes that are named. */
void edits_phases(const struct edits *e, const struct edits_question *q);
void edits_json(const struct edits *e, const struct edits_question *q, struct json *j);
void edits_free(struct edits *e);

/* ---- a run that ended when a framework gave up on a request ---- */

/* On DEVICE; it is asked whether the request passes under other allocators and, with CHANGES, in a changed
 * program.  NULL: it did not end so.  Freed by refusal_forget. */
struct refused;
struct refused *refusal_ask_about(struct trace *t, int64_t device, const struct edits_question *q,
                                  bool changes);
/* 0, or the exit status of what was complained about. */
int refusal_complain(const struct refused *r);
/* What to do first. */
void refusal_head(const struct refused *r, struct trace *t, bool exact, struct whatif_page *page);
/* Of the row of a policy: its place, and its cells. */
void refusal_order(const struct refused *r, int policy, int64_t *rank, int64_t *bytes);
void refusal_cells(const struct refused *r, int policy, bool exact, struct whatif_row *row);
/* With CHANGES a row of each, with WHY what it rests on; and what the words mean. */
void refusal_page(const struct refused *r, const struct edits_question *q, bool changes, bool why,
                  struct whatif_page *page);
int refusal_json(const struct refused *r, struct json *j);
void refusal_forget(struct refused *r);

/* ---- allocators ---- */

struct answers {
    struct trace *t;
    const struct question *q;
    int64_t device;
    const struct trace_tape *tape;
    struct replay_result of[FEED_POLICIES];
    enum feed_policy run; /* that the recording was made under */
    uint64_t base;        /* what that holds with the recorded settings, begun like the others */
    bool alike;           /* which is something else than it held as recorded */
    uint64_t live;        /* the most that was alive */
    int64_t recorded;     /* the most that the framework held as recorded; UNKNOWN */
    int64_t limit;        /* that the program set last for PyTorch's allocator; UNKNOWN: none */
    enum torch_ties ties;
    struct refused *refused; /* the request that ended the run; NULL */
    bool late;
    bool
        pools_matter; /* requests of unknown pools may not have been of the common one, as which they count */
};

/* Before anything else is asked: how the recorded allocator chose, and its limit. */
void policies_begin(struct answers *a);
/* The recorded settings where they are known, and over them what was asked for. */
struct torch_settings policies_settings(const struct answers *a);
void policies_ask(struct answers *a);

void policies_page(const struct answers *a, struct whatif_page *page);
/* A note of each request that was refused: what fits without it says nothing of the run with it. */
void policies_refused(const struct answers *a, struct whatif_page *page);
void policies_json(const struct answers *a, struct json *j);

#endif
