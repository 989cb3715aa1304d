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

/* ---- before anything was parked ---- */

#define STATES                                                                                               \
    " JOIN framework_role f ON f.alloc_seq = l.alloc_seq AND f.role = 3 JOIN access_times u ON u.alloc_seq " \
    "= l.alloc_seq JOIN access_kind k ON k.id = u.kind WHERE l.size_bytes >= 2097152 AND k.phases = 16 AND " \
    "k.kinds & 898 = 0 AND u.steps >= 8 AND u.steps = u.last_step - ifnull(u.first_step, 0) + 1 AND "
#define FORECAST(from) "SELECT sum(l.size_bytes), max((u.last - u.first) / (u.steps - 1)) FROM " from

int trace_park_forecast(struct trace *t, int64_t device, int64_t oom_seq, struct trace_park_forecast *out)
{
    *out = (struct trace_park_forecast){0};
    if (t->process.driver != VS_DRIVER_REAL)
        return 0;
    struct sqlite3_stmt *s =
        oom_seq == UNKNOWN ? trace_sql(t, FORECAST("live_at_peak l" STATES "l.device = ?1"), 1, device)
                           : trace_sql(t, FORECAST("live_at_oom l" STATES "l.device = ?1 AND l.oom_seq = ?2"),
                                       2, device, oom_seq);
    if (trace_sql_row(s) && trace_sql_amount(s, 0) > 0 && trace_sql_amount(s, 1) > 0)
        *out = (struct trace_park_forecast){trace_sql_amount(s, 0), trace_sql_amount(s, 1)};
    return trace_sql_done(t, s);
}
