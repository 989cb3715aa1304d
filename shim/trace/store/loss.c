/*
 * loss.c - what was lost, and what was left out for lack of room: rows of table loss, with the next batch.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void vs_store_loss(struct vs_store *s, int64_t t, uint64_t events, const char *why)
{
    uint64_t failed = 0;
    char *copy = strdup(why);
    if (copy)
        vs_list_push(&s->losses, failed, (struct vs_store_loss_row){t, events, copy});
    if (failed)
        free(copy);
}

uint64_t vs_store_lost(struct vs_store *s, const char *why)
{
    char *sql = sqlite3_mprintf("SELECT sum(events) FROM loss WHERE why=%Q", why);
    int64_t events = sql ? vs_store_number(s, sql, 0) : 0;
    sqlite3_free(sql);
    return (uint64_t)events;
}

int vs_losses_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->losses.n; i++) {
        const struct vs_store_loss_row *l = &s->losses.at[i];
        rc = vs_sql_run(s, VS_SQL_LOSS, "iit", l->t, (int64_t)l->events, l->why);
    }
    if (rc == 0 && c->out->no_memory)
        rc = vs_sql_run(s, VS_SQL_LOSS, "iit", (int64_t)0, (int64_t)c->out->no_memory,
                        "vramscope ran out of memory");
    return rc;
}

int vs_thinning_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    if (c->level && !s->thinned_written) {
        rc = vs_sql_run(s, VS_SQL_META, "ti", "thinned_from_seq", (int64_t)s->thinned_from);
        if (rc == 0)
            rc = vs_sql_run(s, VS_SQL_LOSS, "iit", (int64_t)0, (int64_t)0,
                            "thinned, not lost: counted in every total and peak, but there was no room for "
                            "its row (VRAMSCOPE_MAX_BYTES)");
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
