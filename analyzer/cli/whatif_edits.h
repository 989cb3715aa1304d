/* whatif_edits.h - the part of `vramscope whatif` that is about changes of the program (whatif_edits.c). */
#ifndef VS_CLI_WHATIF_EDITS_H
#define VS_CLI_WHATIF_EDITS_H

#include "base/args.h"
#include "base/json.h"
#include "read/trace.h"
#include "whatif/answers.h"

/* 0, or the exit status of what was complained about.  J: NULL for text. */
int edits_check(const struct arg_list *edits);
int edits_answer(struct trace *t, int64_t device, const struct edits_question *q, struct json *j);

/* ---- printing; rows[0] is the program as it was recorded ---- */

void answered_print_text(const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n);
void answered_print_json(struct json *j, const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n);

/* A run that ended when a framework gave up on a request on DEVICE is asked about that: whether it passes
 * under other allocators and, with CHANGES, in a changed program.  NULL: it did not end so.  Freed by
 * refusal_forget. */
struct refused;
struct refused *refusal_ask_about(struct trace *t, int64_t device, const struct edits_question *q,
                                  bool changes);
/* "passes, 11.06 GiB left": a cell of the table of policies; owned. */
char *refusal_of_policy(const struct refused *r, int policy, bool exact);
int refusal_print(const struct refused *r, const struct edits_question *q, struct json *j);
void refusal_forget(struct refused *r);

#endif
