/*
 * waste.h - what lay unused, and by how much the peak would be lower at most without it: `vramscope waste`.
 */
#ifndef VS_SHOW_REPORT_WASTE_H
#define VS_SHOW_REPORT_WASTE_H

#include <stdio.h>

#include "analysis/waste.h"
#include "read/living.h"
#include "report.h"

struct waste_page { /* of a device */
    const struct device_report *device;
    struct trace_followed followed;
    struct trace_waste *rows, *most_rows;
    struct waste_report report; /* where each use that was seen is one */
    struct waste_report most;   /* where only the sure ones are */
    bool known;                 /* the bounds are */
    bool sure;                  /* which uses are sure is, and with that what the peak is at the least */
    const char *why;            /* where not: why not */
};

/* 0, or -1 with the reason in t->why. */
int waste_page_load(struct waste_page *p, const struct report *r, const struct device_report *d);
void waste_page_free(struct waste_page *p);

/* TOP: rows shown, 0 all.  FULL: places are not cut. */
void waste_page_text(const struct waste_page *p, FILE *out, int64_t top, bool exact, bool full);
void waste_page_json(const struct waste_page *p, int64_t top, struct json *j); /* an object */

#endif
