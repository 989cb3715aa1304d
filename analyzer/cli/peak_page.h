/* peak_page.h - the parts of `vramscope peak`: a device at its peak, or when memory ran out. */
#ifndef VS_CLI_PEAK_PAGE_H
#define VS_CLI_PEAK_PAGE_H

#include "analysis/relabel.h"
#include "base/args.h"
#include "files.h"
#include "show/report/report.h"

enum { PEAK_ROWS = 10 }; /* of each table, unless --top says otherwise */

struct options {
    bool json, bytes, full, why;
    int only; /* of peak_questions; -1: all of which something is known */
    int at;   /* which moment */
    struct choice choice;
    struct relabel relabel;
};

enum { PEAK_QUESTIONS = BY_STACK + 1, PEAK_CAPTURES = PEAK_QUESTIONS };
extern const char *const peak_questions[]; /* names of enum holder_by, "capture", and NULL */

struct peak_page { /* one device, and how to show it */
    struct trace *t;
    const struct options *o;
    const struct device_report *d;
    const struct oom_report *oom; /* NULL: at the peak */
};

/* What was reserved and not allocated; of captures: at the moment of the two when they held the most. */
const struct unused *peak_unused(const struct peak_page *p);
const struct unused *peak_captures(const struct peak_page *p);

/* Greatest first; the caller frees them. */
struct holder *peak_groups(const struct peak_page *p, enum holder_by by, size_t *n);
/* The group's name; the caller frees it, as the one below. */
char *peak_group_name(const struct peak_page *p, const struct holder *h, enum holder_by by);
/* The name in the table: a call stack's number says nothing alone, so the line of Python stands beside it, or
 * the innermost informative function. */
char *peak_row_name(const struct peak_page *p, const struct holder *h, enum holder_by by);
/* As they come, or as --sort says: by how many they are, those of as many by name, or by name. */
void peak_sort_groups(const struct peak_page *p, struct holder *groups, size_t n, enum holder_by by);
/* Whether anything is known that question BY asks for. */
bool peak_has_any(const struct peak_page *p, enum holder_by by);

void peak_text(const struct peak_page *p);
void peak_json(const struct peak_page *p, struct json *j);

#endif
