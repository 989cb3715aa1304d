/*
 * unproven.c - see unproven.h.
 */
#include "unproven.h"

#include "base/shown.h"
#include "base/wrap.h"

void report_unproven(const struct trace *t, const char *part, int indent, FILE *out)
{
    const char *why = trace_unproven(t, part);
    if (why)
        wrap_print(out, indent, indent + 2, "%s", shown(why));
}
