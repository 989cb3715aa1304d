/* park.c - see park.h. */
#include "park.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "sql.h"

static void read_plan(struct trace *t, struct trace_park *p)
{
    long long idle, ns, link, parked, waited, uses = 0;
    const char *plan = trace_fact(t, "park"), *unforeseen = trace_fact(t, "park_unforeseen"),
               *later = trace_fact(t, "park_later"), *first = trace_fact(t, "park_first");
    p->none = trace_fact(t, "park_none");
    p->ended = trace_fact(t, "park_ended");
    if (unforeseen && sscanf(unforeseen, "%lld", &uses) == 1 && uses > 0)
        p->unforeseen = uses;
    p->decided = plan &&
                 sscanf(plan, "idle=%lld,ns=%lld,link=%lld,parked=%lld", &idle, &ns, &link, &parked) == 4 &&
                 idle > 0 && ns > 0 && link > 0 && parked >= 0 && parked <= idle;
    if (!p->decided)
        return;
    p->idle = idle;
    p->idle_ns = ns;
    p->later_ns = later && sscanf(later, "%lld", &ns) == 1 && ns > 0 ? ns : UNKNOWN;
    p->link = link;
    p->parked = parked;
    if (first && sscanf(first, "parked=%lld,waited=%lld", &parked, &waited) == 2 && parked > p->parked &&
        waited > 0) {
        p->first_parked = parked;
        p->first_waited_ns = waited;
    }
    p->from = strstr(plan, ",from") != NULL;
}

/* The last row: what went for this reason so far. */
static struct sqlite3_stmt *moves(struct trace *t, int64_t device, const char *why)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT out_bytes, back_bytes, times, waited_ns FROM away_block WHERE "
                                       "device = ?1 AND why = ?2 ORDER BY seq DESC LIMIT 1",
                                       1, device);
    if (s)
        sqlite3_bind_text(s, 2, why, -1, SQLITE_STATIC);
    return s;
}

int trace_park(struct trace *t, int64_t device, bool first, struct trace_park *out)
{
    *out = (struct trace_park){
        .waited_ns = UNKNOWN, .later_ns = UNKNOWN, .first_parked = UNKNOWN, .first_waited_ns = UNKNOWN};
    int64_t owner = trace_sql_one(t, "SELECT min(device) FROM away_block WHERE why = 'parked'", 0);
    if (owner == device || (owner == UNKNOWN && first))
        read_plan(t, out);
    struct sqlite3_stmt *s = moves(t, device, "parked");
    if (trace_sql_row(s)) {
        out->out = trace_sql_amount(s, 0);
        out->back = trace_sql_amount(s, 1);
        out->times = trace_sql_amount(s, 2);
        out->waited_ns = trace_sql_int(s, 3);
    }
    if (trace_sql_done(t, s))
        return -1;
    s = moves(t, device, "spilled");
    if (trace_sql_row(s)) {
        out->spilled = trace_sql_amount(s, 0);
        out->unspilled = trace_sql_amount(s, 1);
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
    if (t->process.driver != VS_DRIVER_REAL || trace_sql_one(t, "SELECT 1 FROM access LIMIT 1", 0) != 1)
        return 0;
    struct sqlite3_stmt *s =
        oom_seq == UNKNOWN ? trace_sql(t, FORECAST("live_at_peak l" STATES "l.device = ?1"), 1, device)
                           : trace_sql(t, FORECAST("live_at_oom l" STATES "l.device = ?1 AND l.oom_seq = ?2"),
                                       2, device, oom_seq);
    if (trace_sql_row(s) && trace_sql_amount(s, 0) > 0 && trace_sql_amount(s, 1) > 0)
        *out = (struct trace_park_forecast){trace_sql_amount(s, 0), trace_sql_amount(s, 1)};
    return trace_sql_done(t, s);
}

/* ---- for a run that parks from its first step on ---- */

enum { SHAPES = 64 };

/* Of what lived at the peaks, per size, states that PyTorch told: how many, how many of them the device is
 * given in the optimizer alone, and how far apart. */
#define SIZES                                                                                                \
    "SELECT ifnull(l.request_bytes, l.size_bytes) AS size, count(*) AS n, sum(k.phases = 16 AND k.kinds & "  \
    "898 = 0 AND u.steps >= 3) AS alone, min(min((u.last - u.first) / max(u.steps - 1, 1), ifnull(u.gap, "   \
    "1))) AS every FROM "                                                                                    \
    "live_at_peak l JOIN framework_role f ON f.alloc_seq = l.alloc_seq AND f.role = 3 JOIN access_times u "  \
    "ON u.alloc_seq = l.alloc_seq JOIN access_kind k ON k.id = u.kind WHERE size >= 2097152 GROUP BY 1"

char *trace_park_plan(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(
        t, "SELECT size, n, every FROM (" SIZES ") WHERE alone = n AND every > 0 ORDER BY size * n DESC", 0);
    struct trace_park was;
    int64_t idle_ns = INT64_MAX;
    char *list = xstrdup("");
    for (int i = 0; i < SHAPES && trace_sql_row(s); i++) {
        char *more = xformat("%s%s%lldx%lld", list, i ? "," : "", (long long)trace_sql_amount(s, 0),
                             (long long)trace_sql_amount(s, 1));
        free(list);
        list = more;
        idle_ns = trace_sql_amount(s, 2) < idle_ns ? trace_sql_amount(s, 2) : idle_ns;
    }
    sqlite3_finalize(s);
    if (*list && !trace_park(t, 0, true, &was) && was.decided) /* the device's clock said it */
        idle_ns = was.later_ns > 0 && was.later_ns < was.idle_ns ? was.later_ns : was.idle_ns;
    char *plan = *list ? xformat("ns=%lld;%s", (long long)idle_ns, list) : NULL;
    free(list);
    return plan;
}
