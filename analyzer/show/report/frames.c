/* frames.c - see stack.h. */
#include "stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/journal/journal.h"
#include "base/shown.h"
#include "base/units.h"

static const char *after(const char *text, const char *mark)
{
    const char *at = strstr(text, mark);
    return at ? at + strlen(mark) : NULL;
}

static const char *package_path(const char *file)
{
    const char *in_site = after(file, "/site-packages/"), *in_dist = after(file, "/dist-packages/");
    return in_site ? in_site : in_dist ? in_dist : file;
}

static char *python_text(const struct trace_frame *f)
{
    const char *file = f->file ? shown(package_path(f->file)) : "?";
    const char *function = f->function ? shown(f->function) : "?";
    if (f->line == UNKNOWN)
        return xformat("%s %s", file, function);
    return xformat("%s:%" PRId64 " %s", file, f->line, function);
}

/* Frames that are not code: the node that ran (its callers are those that made it), and the layer. */
static char *marking_text(const struct trace_frame *f)
{
    char *name = xstrdup(f->function ? shown(f->function) : "?"), *text;
    if (f->kind == VS_FRAME_NODE)
        text = xformat("backward: %s", name);
    else
        text = f->file ? xformat("in %s (%s)", name, shown(f->file)) : xformat("in %s", name);
    free(name);
    return text;
}

char *frame_text(const struct trace_frame *f, bool where)
{
    if (f->kind == VS_FRAME_PYTHON)
        return python_text(f);
    if (f->kind == VS_FRAME_NODE || f->kind == VS_FRAME_LAYER)
        return marking_text(f);
    const char *slash = f->module ? strrchr(f->module, '/') : NULL;
    const char *module = slash ? slash + 1 : f->module ? f->module : "?";
    if (!f->function)
        return xformat("%s+0x%" PRIx64, shown(module), (uint64_t)(f->offset == UNKNOWN ? 0 : f->offset));
    if (!f->module && where && f->file && f->line != UNKNOWN) /* an imported trace names no module */
        return xformat("%s  %s:%" PRId64, shown(f->function), shown(f->file), f->line);
    if (!f->module)
        return xstrdup(shown(f->function));
    if (where && f->file)
        return xformat("%s  (%s)  %s:%" PRId64, shown(f->function), shown(module), shown(f->file),
                       f->line == UNKNOWN ? 0 : f->line);
    return xformat("%s  (%s)", shown(f->function), shown(module));
}

static char *place_text(const char *line)
{
    /* file names may have blanks and colons; the name begins after the last slash before ".py:" */
    const char *end = strstr(line, ".py:"), *name = line;
    for (const char *c = line; c < (end ? end : line + strcspn(line, " ")); c++)
        if (*c == '/')
            name = c + 1;
    if (strncmp(name, "__init__.py", 11) == 0 && name - line > 1)
        for (name--; name > line && name[-1] != '/';)
            name--;
    return xstrdup(shown(name));
}

/* Of "/home/ada/train.py:37 > /venv/.../modeling.py:175 Mlp.forward" where the second file begins; TEXT: it
 * has one. */
static const char *behind_caller(const char *text)
{
    static const char by[] = " > ";
    const char *at = strstr(text, by);
    while (at && (at == text || !strchr("0123456789", at[-1])))
        at = strstr(at + 1, by);
    return at ? at + sizeof by - 1 : text;
}

char *line_text(const char *line)
{
    static const char forward[] = "forward: ";
    size_t before = strncmp(line, forward, sizeof forward - 1) ? 0 : sizeof forward - 1;
    const char *inner = behind_caller(line + before);
    char *bare = place_text(inner), *caller = NULL;
    if (inner > line + before) {
        char *whole = xformat("%.*s", (int)(inner - (line + before)), line + before);
        caller = place_text(whole);
        free(whole);
    }
    char *text = xformat("%.*s%s%s", (int)before, line, caller ? caller : "", bare);
    free(caller);
    free(bare);
    return text;
}

char *stack_line_text(struct trace *t, int64_t stack)
{
    const char *line = stack > 0 ? trace_line(t, stack) : NULL;
    char *text = line ? line_text(line) : NULL, *all = text ? xformat(" %s", text) : xstrdup("");
    free(text);
    return all;
}
