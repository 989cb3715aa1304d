/*
 * estimate.h - `vramscope estimate`: the page of an estimate, alone or beside what a recording measured.
 *
 * Beside a recording each row has the bytes that lived at the device's measured peak and were for the same:
 * by their roles or, where a block has none or is said to be temporary, by the phase of its birth (beside.c).
 * What is of no row has one of its own.  Three things add up to the difference between the estimate and what
 * the driver said when the device was fullest: the rows (measured less estimate), what was reserved then and
 * not allocated, and what the driver said beyond (context, code).
 */
#ifndef VS_SHOW_ESTIMATE_ESTIMATE_H
#define VS_SHOW_ESTIMATE_ESTIMATE_H

#include "base/json.h"
#include "estimate/estimate.h"
#include "show/report/report.h"

struct beside_row {
    char *name;                 /* owned */
    int64_t estimate, measured; /* UNKNOWN: it has none */
    enum estimate_row of;       /* ESTIMATE_ROWS: a row without an estimate */
};

struct beside { /* one device of a recording */
    int64_t device;
    enum estimate_phase phase; /* whose estimate the rows are compared with */
    const char *measured_in;   /* the phase of the measured peak; NULL unknown */
    bool other_phase; /* the measured peak lies in none that is estimated: compared with the estimate's own */
    int64_t by_birth; /* of the rows, what has no role and was put there by the phase of its birth */
    bool roles;       /* roles are known: without them there are no rows */
    int64_t allocated, phases[ESTIMATE_PHASES]; /* measured peaks; UNKNOWN */
    int64_t reserved;                           /* its peak */
    int64_t driver_used, beyond_allocated,
        residual;      /* at the fullest moment: reserved - allocated's peak, and the rest */
    bool whole_device; /* other processes' memory may be in residual */
    struct beside_row *rows;
    size_t row_count;
    int64_t logits_fp32;   /* measured: logits at the peak, of which these bytes are beyond one copy in the
                              model's type; 0 */
    int64_t foreach_bytes; /* of the temporaries at the peak PyTorch's foreach implementation made these */
};

/* Of device D of R; for beside_free. */
struct beside beside_make(const struct report *r, const struct device_report *d, const struct setup *s,
                          const struct estimate *e);
void beside_free(struct beside *b);

/* The row of what explains most of the gap between the estimate and all that was measured: its name, which
 * the caller frees, and its part in *PART; the gap in *GAP.  NULL: there is no gap, or nothing was measured.
 */
char *beside_explains(const struct beside *b, const struct estimate *e, int64_t *gap, int64_t *part);

void estimate_text(const struct setup *s, const struct estimate *e, int64_t context, FILE *out, bool exact);
void estimate_json(const struct setup *s, const struct estimate *e, int64_t context,
                   struct json *j); /* members */
void beside_text(const struct beside *b, const struct estimate *e, FILE *out, bool exact);
void beside_json(const struct beside *b, const struct estimate *e, struct json *j); /* one object */

#endif
