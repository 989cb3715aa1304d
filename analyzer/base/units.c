/* units.c - see units.h. */
#include "units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct text units_bytes(int64_t bytes, bool exact)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct text out;
    if (bytes == UNKNOWN) {
        snprintf(out.s, sizeof out.s, "unknown");
        return out;
    }
    double value = (double)bytes;
    int unit = 0;
    while (fabs(value) >= 1023.995 && unit < 5) {
        value /= 1024;
        unit++;
    }
    if (exact)
        snprintf(out.s, sizeof out.s, "%lld", (long long)bytes);
    else if (unit == 0)
        snprintf(out.s, sizeof out.s, "%lld B", (long long)bytes);
    else
        snprintf(out.s, sizeof out.s, "%.*f %s", fabs(value) >= 99.95 ? 1 : 2, value, names[unit]);
    return out;
}

struct text units_time(int64_t ns)
{
    struct text out;
    double s = (double)ns / 1e9;
    int64_t whole = ns / 1000000000;
    if (ns == UNKNOWN)
        snprintf(out.s, sizeof out.s, "unknown");
    else if (whole >= 3600)
        snprintf(out.s, sizeof out.s, "%lld h %02lld min", (long long)whole / 3600,
                 (long long)whole / 60 % 60);
    else if (whole >= 100)
        snprintf(out.s, sizeof out.s, "%lld min %02lld s", (long long)whole / 60, (long long)whole % 60);
    else if (s >= 0.9995)
        snprintf(out.s, sizeof out.s, "%.3g s", s);
    else if (s >= 0.0009995)
        snprintf(out.s, sizeof out.s, "%.3g ms", s * 1e3);
    else
        snprintf(out.s, sizeof out.s, "%.3g us", s * 1e6);
    return out;
}

struct text units_share(int64_t part, int64_t whole)
{
    struct text out;
    if (part == UNKNOWN || whole == UNKNOWN || whole <= 0)
        snprintf(out.s, sizeof out.s, "-");
    else
        snprintf(out.s, sizeof out.s, "%.1f %%",
                 0.1 * round(1000.0 * (double)part / (double)whole) + 0.0); /* + 0.0: no -0 */
    return out;
}

struct text units_change(int64_t a, int64_t b)
{
    struct text out;
    double ratio = a > 0 && b != UNKNOWN ? (double)b / (double)a : -1,
           percent = round(1000 * (ratio - 1)) / 10;
    if (ratio < 0)
        snprintf(out.s, sizeof out.s, "-");
    else if (ratio >= 10)
        snprintf(out.s, sizeof out.s, "x %.3g", ratio);
    else
        snprintf(out.s, sizeof out.s, "%s%.1f %%", percent > 0 ? "+" : "", percent + 0.0);
    return out;
}

struct text units_bytes_change(int64_t bytes, bool exact)
{
    struct text out, amount = units_bytes(bytes, exact);
    if (bytes == UNKNOWN)
        snprintf(out.s, sizeof out.s, "-");
    else
        snprintf(out.s, sizeof out.s, "%s%.40s", bytes > 0 ? "+" : "", amount.s);
    return out;
}

struct text units_count(int64_t n, const char *noun)
{
    struct text out;
    snprintf(out.s, sizeof out.s, "%lld %s%s", (long long)n, noun, n == 1 ? "" : "s");
    return out;
}

struct text units_pid(int64_t pid)
{
    struct text out = {"unknown pid"};
    if (pid != UNKNOWN)
        snprintf(out.s, sizeof out.s, "pid %lld", (long long)pid);
    return out;
}

struct text units_date(int64_t realtime_ns)
{
    struct text out;
    struct tm parts;
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    if (realtime_ns == UNKNOWN || !gmtime_r(&seconds, &parts))
        snprintf(out.s, sizeof out.s, "unknown");
    else
        strftime(out.s, sizeof out.s, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return out;
}

/* The unit that TEXT begins with and its length; NULL: none. */
static const char *read_unit(const char *text, double *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"min", 60e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}, {"h", 3600e9}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if (!strncmp(text, units[i].name, n) && !isalpha((unsigned char)text[n])) {
            *ns = units[i].ns;
            return text + n;
        }
    }
    return NULL;
}

bool units_read_time(const char *text, int64_t *ns)
{
    double sum = 0, unit = 1e9, before = INFINITY;
    bool first = true;
    for (; *text || first; first = false) {
        char *end;
        double value = strtod(text, &end);
        if (end == text || !isfinite(value) || value < 0 || !(isdigit((unsigned char)*text) || *text == '.'))
            return false;
        end += strspn(end, " ");
        const char *next = *end ? read_unit(end, &unit) : end;
        if (!*end && first)
            unit = 1e9;
        if (!next || (!*end && !first) || unit >= before) /* the units go down: "4 h 16 min" */
            return false;
        sum += value * unit;
        before = unit;
        text = next + strspn(next, " ");
    }
    if (!(sum < 9e18))
        return false;
    *ns = (int64_t)sum;
    return true;
}

bool units_read_bytes(const char *text, int64_t *bytes)
{
    static const char letters[] = "KMGTP";
    char *end;
    double value = strtod(text, &end), unit = 1;
    if (end == text || !isfinite(value) || value < 0)
        return false;
    while (*end == ' ')
        end++;
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    if (letter) {
        bool decimal = !strcasecmp(end + 1, "B");
        if (!decimal && end[1] && strcasecmp(end + 1, "iB"))
            return false;
        unit = pow(decimal ? 1000 : 1024, (double)(letter - letters + 1));
    } else if (*end && strcasecmp(end, "B")) {
        return false;
    }
    if (value * unit >= 9e18)
        return false;
    *bytes = llround(value * unit);
    return true;
}

bool units_lacks_unit(const char *text)
{
    int64_t bytes;
    return text[strcspn(text, "0123456789")] && !text[strspn(text, "0123456789. ")] &&
           units_read_bytes(text, &bytes) && bytes > 0 && bytes < 1 << 20;
}
