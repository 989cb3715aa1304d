/* whatif_edits.h - the parts of `vramscope whatif` that are about changes of the program (whatif_edits.c),
 * and about a request that ended the run (whatif_refusal.c). */
#ifndef VS_CLI_WHATIF_EDITS_H
#define VS_CLI_WHATIF_EDITS_H

#include "base/args.h"
#include "base/json.h"
#include "read/trace.h"
#include "whatif/answers.h"
#include "whatif_page.h"

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

#endif
