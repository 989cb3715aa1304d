/*
 * causes.h - the first screen of a report: a sentence for each cause of a device's peak that the recording
 * shows.
 */
#ifndef VS_SHOW_REPORT_CAUSES_H
#define VS_SHOW_REPORT_CAUSES_H

#include <stdio.h>

#include "report.h"
#include "read/steps.h"

/* Computes d->causes from the step, savings and growth, which must be loaded. */
void report_load_causes(struct trace *t, struct device_report *d, const struct trace_step_memory *m);

void report_causes_text(const struct device_report *d, FILE *out, bool exact);
void report_causes_json(const struct device_report *d, struct json *j); /* an object */

#endif
