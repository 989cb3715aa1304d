/* marks.c - what the frames of a call stack say of blocks (lives.h). */
#include "lives.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static bool is(const struct snapshot_frame *f, const char *name)
{
    return f->last_length == strlen(name) && memcmp(f->last, name, f->last_length) == 0;
}

static bool has(const char *text, size_t n, const char *what)
{
    return memmem(text, n, what, strlen(what)) != NULL;
}

/* Whether the path of F, on whatever system, has PATH in it, which has slashes. */
static bool lies_in(const struct snapshot_frame *f, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i + n <= f->file_length; i++) {
        size_t k = 0;
        while (k < n && (f->file[i + k] == path[k] || (f->file[i + k] == '\\' && path[k] == '/')))
            k++;
        if (k == n)
            return true;
    }
    return false;
}

/* Code of PyTorch's that stands between a constructor and the request: torch.device(...) as a context. */
static bool is_between(const struct snapshot_frame *f)
{
    return lies_in(f, "/torch/utils/_device.py") || lies_in(f, "/torch/overrides.py");
}

static bool is_workspace(const struct snapshot_frame *f)
{
    static const char *const names[] = {"getCUDABlasLtWorkspace", "getNewWorkspace",
                                        "getCurrentCUDABlasHandle", "getCublasWorkspace"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has(f->name, f->name_length, names[i]))
            return true;
    return false;
}

/* FNV-1a over file and line: equal lines of code, whatever the stack. */
static uint64_t place_of(const struct snapshot_frame *f)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (uint32_t i = 0; i < f->file_length; i++)
        hash = (hash ^ (unsigned char)f->file[i]) * UINT64_C(1099511628211);
    return (hash ^ f->line) * UINT64_C(1099511628211);
}

/* Of a stack's innermost Python frame. */
static void mark_innermost(struct stack_marks *m, const struct snapshot_frame *f)
{
    if (is(f, "zero_grad") &&
        (lies_in(f, "/torch/optim/optimizer.py") || lies_in(f, "/torch/nn/modules/module.py")))
        m->bits |= MARK_ZEROED;
    if (is(f, "__init__") && lies_in(f, "/torch/nn/modules/")) {
        m->bits |= MARK_BUILT;
        m->place = place_of(f);
    }
}

static void mark_frame(struct stack_marks *m, const struct snapshot_frame *f)
{
    /* averages of weights are models, and schedulers are neither */
    if (phases_of_frame(f) == IMPORT_OPTIMIZER && !lies_in(f, "/torch/optim/swa_utils.py") &&
        !lies_in(f, "/torch/optim/lr_scheduler.py")) {
        m->bits |= MARK_OPTIMIZER;
        m->bits |= is(f, "_init_group") ? MARK_STATE : 0;
    }
    if (phases_of_frame(f) == IMPORT_BACKWARD)
        m->bits |= MARK_BACKWARD;
    if (phases_of_frame(f) == IMPORT_FORWARD)
        m->bits |= MARK_MODULE;
    if (!(m->bits & MARK_MOVED) && is(f, "_apply") && lies_in(f, "/torch/nn/modules/module.py")) {
        m->bits |= MARK_MOVED;
        m->place = place_of(f);
        m->line = f->line;
    }
}

static void mark_stack(struct stack_marks *m, const struct snapshot *s, uint32_t stack)
{
    struct snapshot_frame f;
    bool inside = false; /* of Python's frames */
    for (size_t i = 0; snapshot_frame(s, stack, i, &f); i++) {
        if (phases_native(&f)) {
            m->bits |= is_workspace(&f) ? MARK_WORKSPACE : 0;
        } else if (!inside && !is_between(&f)) {
            mark_innermost(m, &f);
            inside = true;
        }
        mark_frame(m, &f);
    }
}

struct stack_marks *marks_read(const struct snapshot *s)
{
    struct stack_marks *marks = xrealloc(NULL, (s->stack_count + 1) * sizeof *marks);
    memset(marks, 0, (s->stack_count + 1) * sizeof *marks);
    for (size_t i = 0; i < s->stack_count; i++)
        mark_stack(&marks[i], s, (uint32_t)i + 1);
    return marks;
}
