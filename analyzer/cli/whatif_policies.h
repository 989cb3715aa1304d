/* whatif_policies.h - a device's recorded blocks under each allocator that is asked about. */
#ifndef VS_CLI_WHATIF_POLICIES_H
#define VS_CLI_WHATIF_POLICIES_H

#include "base/json.h"
#include "read/tape.h"
#include "replay/replay.h"
#include "whatif_edits.h"
#include "whatif_page.h"
#include "whatif_question.h"

struct answers {
    struct trace *t;
    const struct question *q;
    int64_t device;
    struct trace_tape tape;
    struct replay_result of[POLICIES];
    enum policy run;  /* that the recording was made under */
    uint64_t base;    /* what that holds with the recorded settings, begun like the others */
    bool alike;       /* which is something else than it held as recorded */
    uint64_t live;    /* the most that was alive */
    int64_t recorded; /* the most that the framework held as recorded; UNKNOWN */
    int64_t limit;    /* that the program set last for PyTorch's allocator; UNKNOWN: none */
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
