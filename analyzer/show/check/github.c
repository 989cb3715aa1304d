/*
 * github.c - the rows of a check in a GitHub workflow: annotations ("::error
 * file=F,line=N,title=T::MESSAGE" on a step's output, with escapes of their own) at the line that held or
 * rose the most, and a table for the job's summary.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "check.h"

/* In a property, colons and commas would end it. */
static void put(FILE *out, const char *text, bool property)
{
    for (; *text; text++)
        if (*text == '%' || *text == '\r' || *text == '\n' || (property && (*text == ':' || *text == ',')))
            fprintf(out, "%%%02X", (unsigned)*text);
        else
            fputc(*text, out);
}

/* Of "FILE:LINE FUNCTION" the file, relative to the workspace where it lies in it, and the line; false where
 * it is none. */
static bool place_of(const char *line, char **file, long *number)
{
    static const char forward[] = "forward: ";
    if (line && !strncmp(line, forward, sizeof forward - 1))
        line += sizeof forward - 1;
    for (const char *colon = line ? strchr(line, ':') : NULL; colon; colon = strchr(colon + 1, ':')) {
        char *end;
        *number = strtol(colon + 1, &end, 10);
        if (!isdigit((unsigned char)colon[1]) || *end != ' ')
            continue;
        const char *workspace = getenv("GITHUB_WORKSPACE");
        size_t n = workspace ? strlen(workspace) : 0;
        bool inside = n && !strncmp(line, workspace, n) && line[n] == '/';
        line += inside ? n + 1 : 0;
        *file = xformat("%.*s", (int)(colon - line), line);
        return true;
    }
    return false;
}

static void annotate(FILE *out, const struct check_row *r)
{
    char *title = check_title(r), *finding = check_finding(r), *file;
    long line;
    fprintf(out, "::%s ", r->verdict == VERDICT_BEYOND ? "error" : "warning");
    if (place_of(r->cause.line.name, &file, &line)) {
        fputs("file=", out);
        put(out, shown(file), true);
        fprintf(out, ",line=%ld,", line);
        free(file);
    }
    fputs("title=vramscope%3A ", out);
    put(out, check_verdict_name(r->verdict), true);
    fputs("::", out);
    put(out, shown(r->label), false);
    fputs(": ", out);
    put(out, title, false);
    fputs(": ", out);
    put(out, finding, false);
    fputc('\n', out);
    free(title);
    free(finding);
}

void check_github(const struct check *c, FILE *out)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].verdict != VERDICT_WITHIN)
            annotate(out, &c->rows[i]);
}

/* A cell: what Markdown or HTML would take for their own is escaped. */
static void put_cell(FILE *out, const char *text)
{
    fputs(" ", out);
    for (; *text; text++)
        if (strchr("|\\`*_<>[]", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    fputs(" |", out);
}

/* Where that file can't be written the step's own output has it all. */
void check_github_summary(const struct check *c, const char *path)
{
    FILE *out = fopen(path, "a");
    if (!out)
        return;
    fputs("### vramscope check\n\n| | file | what | found |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < c->count; i++) {
        const struct check_row *r = &c->rows[i];
        char *title = check_title(r), *finding = check_finding(r);
        fputs("|", out);
        put_cell(out, check_verdict_name(r->verdict));
        put_cell(out, shown(r->label));
        put_cell(out, title);
        put_cell(out, finding);
        fputc('\n', out);
        free(title);
        free(finding);
    }
    fputc('\n', out);
    fclose(out);
}
