/* units.h - numbers for people: bytes, durations, shares.  By value, so that several fit in one printf. */
#ifndef VS_BASE_UNITS_H
#define VS_BASE_UNITS_H

#include "base.h"

struct text {
    char s[48];
};

/* "3.71 GiB"; with EXACT "3983589376"; UNKNOWN is "unknown". */
struct text units_bytes(int64_t bytes, bool exact);
/* "1.23 s", "12.3 ms", "2 h 03 min" */
struct text units_time(int64_t ns);
/* "12.3 %", "-" of nothing */
struct text units_share(int64_t part, int64_t whole);
/* From A to B: "+12.3 %", "-72.5 %", tenfold and more "x 12.3"; "-" where there is nothing to compare. */
struct text units_change(int64_t a, int64_t b);
/* "+1.23 GiB", "-12.0 MiB", "0 B"; UNKNOWN is "-" */
struct text units_bytes_change(int64_t bytes, bool exact);
/* "1 event", "2 events"; the plural takes an s */
struct text units_count(int64_t n, const char *noun);
/* "pid 4711", "unknown pid" */
struct text units_pid(int64_t pid);
/* "2026-11-20 14:03:11 UTC" */
struct text units_date(int64_t realtime_ns);

/* Reads "12", "1.5s", "20ms", "3us", "2min", "1h" (seconds without a unit), and as units_time writes them "4
 * h 16 min" and "12 min 03 s", into nanoseconds. */
bool units_read_time(const char *text, int64_t *ns);
/* Reads "20GiB", "1.5 GiB", "512M" (of 1024, like KiB, MiB and TiB), "20GB" (of 1000), "4096", in any case of
 * letters, into bytes. */
bool units_read_bytes(const char *text, int64_t *bytes);
/* Whether TEXT is a number so small that its unit was forgotten: "20". */
bool units_lacks_unit(const char *text);

#endif
