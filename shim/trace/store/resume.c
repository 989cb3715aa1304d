/*
 * resume.c - table resume: state that the next writer of the file needs and that no other table has.
 *
 * The ledger gives the rows (ledger/resume.c).  There are a few per device (tens if ranges are open and
 * libraries' pools hold memory of unknown use).  Each commit after a change rewrites them.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_OF_ROOM 64 /* rows, if the file is full: lost verdicts are made anew */

struct collected {
    struct vs_store *s;
    uint64_t failed;
};

static void collect(void *context, const struct vs_resume_row *row)
{
    struct collected *c = context;
    vs_list_push(&c->s->resume_next, c->failed, *row);
}

static bool same_rows(const struct vs_store *s)
{
    if (s->resume.n != s->resume_next.n)
        return false;
    for (size_t i = 0; i < s->resume.n; i++) {
        const struct vs_resume_row *a = &s->resume.at[i], *b = &s->resume_next.at[i];
        if (a->what != b->what || a->id != b->id || memcmp(a->value, b->value, sizeof a->value) != 0)
            return false;
    }
    return true;
}

int vs_resume_write(struct vs_store *s, const struct vs_commit *c)
{
    struct collected found = {.s = s};
    s->resume_next.n = 0;
    if (!c->merged) /* more may come even after a clean end, from threads that run on */
        vs_ledger_each_resume(c->ledger, collect, &found);
    if (found.failed)
        return -ENOMEM;
    if (c->level >= 3 && s->resume_next.n > SHORT_OF_ROOM)
        s->resume_next.n = SHORT_OF_ROOM;
    if (same_rows(s))
        return 0;
    int rc = vs_store_exec(s, "DELETE FROM resume");
    return rc == 0
               ? vs_put_rows(s, VS_SQL_RESUME, s->resume_next.at, s->resume_next.n, sizeof *s->resume_next.at)
               : rc;
}

void vs_resume_committed(struct vs_store *s)
{
    struct vs_resume_rows was = s->resume;
    s->resume = s->resume_next;
    s->resume_next = was;
}

void vs_resume_free(struct vs_store *s)
{
    free(s->resume.at);
    free(s->resume_next.at);
}
