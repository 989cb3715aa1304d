/* park.c - see park.h. */
#include "park.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "sql.h"

static const char *fact(struct trace *t, const char *key)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT value FROM meta WHERE key = ?1 AND process = ?2", 0);
    if (!s)
        return NULL;
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (t->before >> 40) + 1);
    const char *text = sqlite3_step(s) == SQLITE_ROW ? trace_sql_text(t, s, 0) : NULL;
    sqlite3_finalize(s);
    return text;
}

static void read_plan(struct trace *t, struct trace_park *p)
{
    long long idle, ns, link, parked, uses = 0;
    const char *plan = fact(t, "park"), *unforeseen = fact(t, "park_unforeseen");
    p->none = fact(t, "park_none");
    p->ended = fact(t, "park_ended");
    if (unforeseen && sscanf(unforeseen, "%lld", &uses) == 1 && uses > 0)
        p->unforeseen = uses;
    p->decided = plan &&
                 sscanf(plan, "idle=%lld,ns=%lld,link=%lld,parked=%lld", &idle, &ns, &link, &parked) == 4 &&
                 idle > 0 && ns > 0 && link > 0 && parked >= 0 && parked <= idle;
    if (!p->decided)
        return;
    p->idle = idle;
    p->idle_ns = ns;
    p->link = link;
    p->parked = parked;
}

int trace_park(struct trace *t, int64_t device, bool first, struct trace_park *out)
{
    *out = (struct trace_park){.waited_ns = UNKNOWN};
    int64_t owner = trace_sql_one(t, "SELECT min(device) FROM away_block WHERE why = 'parked'", 0);
    if (owner == device || (owner == UNKNOWN && first))
        read_plan(t, out);
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT out_bytes, back_bytes, times, waited_ns FROM away_block WHERE "
                                       "device = ? AND why = 'parked' ORDER BY seq DESC LIMIT 1",
                                       1, device);
    if (trace_sql_row(s)) {
        out->out = trace_sql_amount(s, 0);
        out->back = trace_sql_amount(s, 1);
        out->times = trace_sql_amount(s, 2);
        out->waited_ns = trace_sql_amount(s, 3);
    }
    return trace_sql_done(t, s);
}
