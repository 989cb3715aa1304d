/* facts.c - reads what a dry run told (attempt.h). Lines of other kinds, and damaged ones, are not for us. */
#include "attempt.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[FACT_KINDS] = {"missing", "guess",  "value", "wrote",
                                              "ended",   "beside", "torch", "launch"};

static char *whole_file(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t size, n;
    char part[4096];
    FILE *out = xmemstream(&text, &size);
    while (in && (n = fread(part, 1, sizeof part, in)) > 0)
        fwrite(part, 1, n, out);
    if (in)
        fclose(in);
    fclose(out);
    return text;
}

static bool same(const struct fact *a, const struct fact *b)
{
    bool equal = a->kind == b->kind;
    for (int i = 0; equal && i < FACT_FIELDS; i++)
        equal = !strcmp(a->fields[i], b->fields[i]);
    return equal;
}

/* Each once, however often it was said. */
static void add(struct facts *f, const struct fact *fact)
{
    for (size_t i = 0; i < f->n; i++)
        if (same(&f->all[i], fact)) {
            f->all[i].times += fact->times;
            return;
        }
    *PUSH(f->all, f->n) = *fact;
}

static void take_line(struct facts *f, char *line)
{
    struct fact fact = {.fields = {"", "", "", "", ""}, .times = 1};
    char *at = line, *kind = strsep(&at, "\t");
    int k = 0;
    while (k < FACT_KINDS && strcmp(kinds[k], kind) != 0)
        k++;
    if (k == FACT_KINDS)
        return;
    fact.kind = (enum fact_kind)k;
    for (int i = 0; i < (fact.kind == FACT_VALUE ? 3 : FACT_FIELDS) && at; i++)
        fact.fields[i] = strsep(&at, "\t");
    if (at && fact.kind == FACT_VALUE)
        fact.times = strtoll(at, NULL, 10);
    add(f, &fact);
}

void facts_read(struct facts *f, const char *path)
{
    *f = (struct facts){.text = whole_file(path)};
    for (char *at = f->text, *line; (line = strsep(&at, "\n"));)
        if (*line)
            take_line(f, line);
}

void facts_free(struct facts *f)
{
    free(f->all);
    free(f->text);
    *f = (struct facts){0};
}

const struct fact *facts_first(const struct facts *f, enum fact_kind kind)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->all[i].kind == kind)
            return &f->all[i];
    return NULL;
}

size_t facts_count(const struct facts *f, enum fact_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += f->all[i].kind == kind;
    return n;
}
