/* tape_kept.c - see tape.h: the tapes of a recording that were asked for, and what PyTorch said of their
 * blocks.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "tape.h"
#include "trace/roles.h"

#define WHOLE_MOST 3000000 /* events of a run whose history is read whole, whatever of it is asked first */

struct kept_tape {
    struct kept_tape *next;
    int64_t device, to;
    struct trace_tape tape;
};

static struct kept_tape **find_kept(struct trace *t, int64_t device)
{
    struct kept_tape **at = &t->tapes;
    while (*at && (*at)->device != device)
        at = &(*at)->next;
    return at;
}

static void forget_kept(struct kept_tape **at)
{
    struct kept_tape *kept = *at;
    *at = kept->next;
    tape_free(&kept->tape);
    free(kept);
}

const struct trace_tape *trace_tape_to(struct trace *t, int64_t device, int64_t seq)
{
    struct kept_tape **at = find_kept(t, device), *kept = *at;
    if (kept && kept->to >= seq)
        return &kept->tape;
    if (kept)
        forget_kept(at);
    kept = xrealloc(NULL, sizeof *kept);
    *kept = (struct kept_tape){t->tapes, device, t->events <= WHOLE_MOST ? INT64_MAX : seq, {0}};
    if (tape_read(t, device, kept->to, &kept->tape)) {
        free(kept);
        return NULL;
    }
    t->tapes = kept;
    t->forget_tapes = trace_forget_tapes;
    return &kept->tape;
}

const struct trace_tape *trace_tape(struct trace *t, int64_t device)
{
    return trace_tape_to(t, device, INT64_MAX);
}

void trace_forget_tapes(struct trace *t)
{
    while (t->tapes)
        forget_kept(&t->tapes);
}

/* ---- what PyTorch said ---- */

uint8_t *tape_roles(struct trace *t, const struct trace_tape *tape, int64_t *told)
{
    uint8_t *roles = xrealloc(NULL, tape->ids + (size_t)1);
    memset(roles, 0, tape->ids + (size_t)1);
    *told = 0;
    struct sqlite3_stmt *s = trace_sql(t, "SELECT alloc_seq, role FROM framework_role ORDER BY alloc_seq", 0);
    while (trace_sql_row(s)) {
        const struct tape_block *block = FIND(sqlite3_column_int64(s, 0), tape->blocks, tape->ids);
        uint8_t role = vs_role_number((uint64_t)sqlite3_column_int64(s, 1));
        if (!block || !role)
            continue;
        roles[block - tape->blocks] = role;
        ++*told;
    }
    if (!trace_sql_done(t, s))
        return roles;
    free(roles);
    return NULL;
}
