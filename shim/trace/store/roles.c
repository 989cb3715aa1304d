/*
 * roles.c - what a framework says that blocks are for: rows of framework_role.
 *
 * A row is written with the batch in which it was said.  When an allocation is folded its row goes too, but
 * for those that the tables of a peak or of an out-of-memory still name.
 */
#include "internal.h"

int vs_roles_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->out->roles.n; i++)
        rc = vs_sql_run(s, VS_SQL_FRAMEWORK_ROLE, "ii", (int64_t)c->out->roles.at[i].alloc_seq,
                        (int64_t)c->out->roles.at[i].role);
    s->roles |= c->out->roles.n > 0;
    return rc;
}

int vs_roles_gone(struct vs_store *s, uint64_t alloc)
{
    return s->roles ? vs_sql_run(s, VS_SQL_FRAMEWORK_ROLE_GONE, "i", (int64_t)alloc) : 0;
}

int vs_roles_peak_gone(struct vs_store *s, int device)
{
    return s->roles ? vs_sql_run(s, VS_SQL_FRAMEWORK_ROLE_PEAK_GONE, "i", (int64_t)device) : 0;
}
