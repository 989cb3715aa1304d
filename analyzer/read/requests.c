/* requests.c - what a framework's blocks were asked for as, where the recording has it (table tensor). */
#include <sqlite3.h>

#include "sql.h"
#include "trace/event.h"

int trace_requests(struct trace *t, const int64_t *seqs, size_t n, int64_t *out)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        out[i] = UNKNOWN;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT e.seq, x.request FROM ev e JOIN kind k ON k.id = e.kind JOIN tensor x ON "
                  "x.id = k.tensor WHERE e.op = ? AND x.request > 0 ORDER BY e.seq",
                  1, (int64_t)VS_OP_BLOCK_ALLOC);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) { /* both rise */
        int64_t seq = trace_sql_int(s, 0), request = trace_sql_int(s, 1);
        while (at < n && seqs[at] < seq)
            at++;
        if (at < n && seqs[at] == seq)
            out[at] = request;
    }
    return trace_sql_done(t, s, code);
}
