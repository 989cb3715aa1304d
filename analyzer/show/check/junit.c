/*
 * junit.c - the rows of a check as JUnit XML: a failure where a limit was exceeded, an error where nobody
 * can tell.  Elements, their order and their attributes are those that Ant's and Jenkins' schemas have in
 * common.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/shown.h"
#include "check.h"
#include "base/destination.h"

/* XML has no way to write most control characters, and no byte that is no UTF-8: shown() leaves none. */
static void put(FILE *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)shown(text); *s;) {
        int32_t code;
        int n = shown_next(s, &code);
        if (*s == '&')
            fputs("&amp;", out);
        else if (*s == '<')
            fputs("&lt;", out);
        else if (*s == '>')
            fputs("&gt;", out);
        else if (*s == '"')
            fputs("&quot;", out);
        else if (code >= 0 && code != 0xfffe && code != 0xffff)
            fwrite(s, 1, (size_t)n, out);
        s += n;
    }
}

static void put_attribute(FILE *out, const char *name, const char *text)
{
    fprintf(out, " %s=\"", name);
    put(out, text);
    fputc('"', out);
}

static void put_finding(FILE *out, const struct check_row *r)
{
    const char *element = r->verdict == VERDICT_BEYOND ? "failure" : "error";
    char *finding = check_finding(r);
    fprintf(out, ">\n      <%s", element);
    put_attribute(out, "message", finding);
    put_attribute(out, "type", r->verdict == VERDICT_BEYOND ? "beyond the limit" : "cannot tell");
    fputc('>', out);
    put(out, finding);
    fprintf(out, "</%s>\n    </testcase>\n", element);
    free(finding);
}

static void put_case(FILE *out, const struct check_row *r)
{
    char *title = check_title(r), *name = xformat("%s [%s]", title, r->given);
    fputs("    <testcase", out);
    put_attribute(out, "classname", r->label);
    put_attribute(out, "name", name);
    fputs(" time=\"0\"", out);
    if (r->verdict == VERDICT_WITHIN)
        fputs("/>\n", out);
    else
        put_finding(out, r);
    free(title);
    free(name);
}

static void put_suite(FILE *out, const struct check *c)
{
    char host[256] = "", when[32];
    time_t now = time(NULL);
    gethostname(host, sizeof host - 1);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", gmtime(&now));
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
    put_attribute(out, "name", "vramscope check");
    put_attribute(out, "package", "vramscope");
    put_attribute(out, "timestamp", when);
    put_attribute(out, "hostname", *host ? host : "localhost"); /* no schema takes an empty one */
    fprintf(out, " id=\"0\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" time=\"0\">\n    <properties/>\n",
            c->count, c->verdicts[VERDICT_BEYOND], c->verdicts[VERDICT_UNTOLD]);
    for (size_t i = 0; i < c->count; i++)
        put_case(out, &c->rows[i]);
    fputs("    <system-out/>\n    <system-err/>\n  </testsuite>\n</testsuites>\n", out);
}

int check_junit(const struct check *c, const char *path)
{
    struct destination to;
    FILE *out = destination_open(&to, "check: --junit", path);
    if (!out)
        return 2;
    put_suite(out, c);
    return destination_close(&to, out, true);
}
