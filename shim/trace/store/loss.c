/* loss.c - rows of table loss: what was lost, and what was left out for lack of room; for the next batch. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void vs_store_loss(struct vs_store *s, int64_t t, uint64_t events, enum vs_loss what, const char *why)
{
    uint64_t failed = 0;
    char *copy = strdup(why ? why : vs_loss_text(what));
    if (copy)
        vs_list_push(&s->losses, failed, (struct vs_store_loss_row){t, events, what, copy});
    if (failed)
        free(copy);
}

uint64_t vs_store_lost(struct vs_store *s, enum vs_loss what)
{
    char *sql = sqlite3_mprintf("SELECT sum(events) FROM loss WHERE code=%Q", vs_loss_code(what));
    int64_t events = sql ? vs_store_number(s, sql, 0) : 0;
    sqlite3_free(sql);
    return (uint64_t)events;
}

static int insert(struct vs_store *s, int64_t t, uint64_t events, enum vs_loss what, const char *why)
{
    return vs_sql_run(s, VS_SQL_LOSS, "iitt", t, (int64_t)events, vs_loss_code(what), why);
}

int vs_losses_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->losses.n; i++) {
        const struct vs_store_loss_row *l = &s->losses.at[i];
        rc = insert(s, l->t, l->events, l->what, l->why);
    }
    if (rc == 0 && c->out->no_memory)
        rc = insert(s, 0, c->out->no_memory, VS_LOSS_NO_MEMORY, vs_loss_text(VS_LOSS_NO_MEMORY));
    return rc;
}

int vs_thinning_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    if (c->level && !s->thinned_written) {
        rc = vs_sql_run(s, VS_SQL_META, "ti", "thinned_from_seq", (int64_t)s->thinned_from);
        if (rc == 0)
            rc = insert(s, 0, 0, VS_LOSS_THINNED, vs_loss_text(VS_LOSS_THINNED));
    }
    if (rc == 0 && c->out->dropped)
        rc = vs_sql_run(s, VS_SQL_THINNED, "i", (int64_t)(s->thinned + c->out->dropped));
    return rc;
}

void vs_losses_written(struct vs_store *s)
{
    for (size_t i = 0; i < s->losses.n; i++)
        free(s->losses.at[i].why);
    s->losses.n = 0;
}
