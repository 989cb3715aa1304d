/* places.c - call stacks as names, files and lines (places.h). */
#include "places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "trace/journal/journal.h"
#include "read/stacks.h"

enum { DEEPEST = 1024 }; /* frames of a stack: more are no recording's */

int places_load(struct places *p, struct trace *t, enum export_frames frames)
{
    *p = (struct places){.frames = frames};
    if (trace_stacks(t, &p->stacks))
        return -1;
    p->at = xrealloc(NULL, (p->stacks.frame_count + 1) * sizeof *p->at);
    memset(p->at, 0, (p->stacks.frame_count + 1) * sizeof *p->at);
    return 0;
}

void places_free(struct places *p)
{
    for (size_t i = 0; i < p->owned_count; i++)
        free(p->owned[i]);
    free(p->owned);
    free(p->at);
    free(p->path);
    trace_free_stacks(&p->stacks);
}

static bool wanted(const struct places *p, const struct trace_frame *frame)
{
    int64_t kind = frame->kind;
    if (kind == VS_FRAME_LAYER)
        return false;
    bool python = kind == VS_FRAME_PYTHON || kind == VS_FRAME_NODE;
    return p->frames == FRAMES_ALL || python == (p->frames == FRAMES_PYTHON);
}

const int64_t *places_path(struct places *p, int64_t id, size_t *n)
{
    const struct trace_stack_row *row = trace_find_stack(&p->stacks, id);
    p->path_count = 0;
    for (int depth = 0; row && depth < DEEPEST; depth++) {
        const struct trace_frame_row *frame = trace_find_frame(&p->stacks, row->frame);
        if (frame && wanted(p, &frame->is))
            *PUSH(p->path, p->path_count) = frame - p->stacks.frames;
        row = trace_find_stack(&p->stacks, row->parent);
    }
    *n = p->path_count;
    return p->path;
}

static const char *own(struct places *p, char *text)
{
    *PUSH(p->owned, p->owned_count) = text;
    return text;
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

static const char *native_name(struct places *p, const struct trace_frame *f)
{
    if (!f->function)
        return shown(own(p, xformat("%s+0x%" PRIx64, base_name(f->module),
                                    (uint64_t)(f->offset == UNKNOWN ? 0 : f->offset))));
    return shown(own(p, cxx_name(f->function)));
}

static void make_place(struct places *p, const struct trace_frame *f, struct place *out)
{
    const char *name = f->function ? shown(f->function) : "?";
    const char *file = f->file ? f->file : "";
    if (f->kind == VS_FRAME_NODE) {
        name = own(p, xformat("backward: %s", name));
        file = "autograd";
    } else if (f->kind != VS_FRAME_PYTHON) {
        name = native_name(p, f);
        file = f->file ? f->file : f->module ? f->module : "";
    }
    bool has_line = f->line != UNKNOWN && f->line > 0 && f->line <= INT32_MAX && f->file;
    name = *name ? name : "?";
    bool whole = f->kind != VS_FRAME_PYTHON && f->kind != VS_FRAME_NODE && f->function && *f->function;
    *out = (struct place){name, shown(file), whole ? shown(f->function) : name, has_line ? f->line : 0};
}

const struct place *places_at(struct places *p, int64_t frame)
{
    struct place *place = &p->at[frame];
    if (!place->name)
        make_place(p, &p->stacks.frames[frame].is, place);
    return place;
}

char *places_stackless(const struct places *p, const char *category, const char *owner)
{
    static const char *const kinds[] = {
        [FRAMES_ALL] = "call stack", [FRAMES_PYTHON] = "Python frame", [FRAMES_NATIVE] = "native frame"};
    char *text = xformat("%s%s%s (no %s)", category ? category : "unknown", owner ? ", for " : "",
                         owner ? base_name(owner) : "", kinds[p->frames]);
    const char *harmless = shown(text);
    if (harmless == text)
        return text;
    free(text);
    return xstrdup(harmless);
}
