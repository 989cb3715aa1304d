/*
 * measure.h - what limits and comparisons share: a figure with its bounds, the verdict, what made it.
 */
#ifndef VS_SHOW_CHECK_MEASURE_H
#define VS_SHOW_CHECK_MEASURE_H

#include "check.h"

/* The peak of D; *WHY (NULL before) gets the reason where only a part of it is known. */
struct measured check_measure_peak(const struct check_file *f, const struct device_report *d, bool reserved,
                                   char **why);
/* Whether a total of KIND on DEVICE may be too high, because ends were lost. */
bool check_too_high(const struct trace *t, int64_t device, const char *kind);
const struct trace_phase *check_find_phase(const struct trace *t, int64_t device, const char *name);

/* The verdict on R's figure.  DOUBT, which it takes: the figure may have been greater; NULL. */
void check_judge(struct check_row *r, char *doubt, int64_t limit_least, int64_t limit_most);

/* The moment of a cause. */
void check_cause_at(struct check_cause *cause, struct trace *t, int64_t when, const char *phase);
/* What held the most when P was at its greatest; with BASE and Q, the same phase of another run, what rose.
 */
void check_cause_of_phase(struct check_row *r, struct check_file *f, const struct trace_phase *p,
                          struct check_file *base, const struct trace_phase *q);

#endif
