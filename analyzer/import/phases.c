/* phases.c - which phase a call stack shows (phases.h). */
#include "phases.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static bool begins(const char *text, size_t n, const char *with)
{
    size_t length = strlen(with);
    return n >= length && memcmp(text, with, length) == 0;
}

static bool ends(const char *text, size_t n, const char *with)
{
    size_t length = strlen(with);
    return n >= length && memcmp(text + n - length, with, length) == 0;
}

static bool holds(const char *text, size_t n, const char *what)
{
    return memmem(text, n, what, strlen(what)) != NULL;
}

/* Whether the file of F ends in PATH, which has slashes; on Windows files have others. */
static bool file_is(const struct snapshot_frame *f, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < n; i++) {
        char c = f->file_length >= n ? f->file[f->file_length - n + i] : '\0';
        if (c != path[i] && !(c == '\\' && path[i] == '/'))
            return false;
    }
    return true;
}

static bool unfound(const char *text, size_t n)
{
    return n == 2 && memcmp(text, "??", 2) == 0;
}

static bool is_source(const struct snapshot_frame *f)
{
    static const char *const endings[] = {".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hpp"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends(f->file, f->file_length, endings[i]))
            return true;
    return false;
}

/* libtorch_cpu.so, libc.so.6 */
static bool is_library(const char *file, size_t n)
{
    const char *so = memmem(file, n, ".so", 3);
    return so && (so + 3 == file + n || so[3] == '.');
}

/* python3.12, python3.13t: the interpreter, and no script that is called so */
static bool is_interpreter(const char *file, size_t n)
{
    if (!begins(file, n, "python"))
        return false;
    size_t at = sizeof "python" - 1;
    while (at < n && (isdigit((unsigned char)file[at]) || file[at] == '.'))
        at++;
    return at == n || (at + 1 == n && (file[at] == 't' || file[at] == 'd'));
}

/* Machine code, of which the line is the place in it: beyond any line of a script without a suffix.  A
 * library without a folder is a frame of an export of ours, which says whose memory it is. */
static bool is_object(const struct snapshot_frame *f)
{
    enum { LINES_MOST = 1 << 20 };
    const char *slash = memrchr(f->file, '/', f->file_length), *base = slash ? slash + 1 : f->file;
    size_t n = (size_t)(f->file + f->file_length - base);
    return (slash && is_library(base, n)) || is_interpreter(base, n) || ends(base, n, ".o") ||
           (f->line > LINES_MOST && !ends(base, n, ".py"));
}

bool phases_native(const struct snapshot_frame *f)
{
    return !f->file_length || unfound(f->file, f->file_length) || unfound(f->name, f->name_length) ||
           is_source(f) || is_object(f) || holds(f->name, f->name_length, "::");
}

bool phases_nameless(const struct snapshot_frame *f)
{
    return unfound(f->name, f->name_length) || (!f->name_length && phases_native(f));
}

uint32_t phases_line(const struct snapshot_frame *f)
{
    return phases_native(f) && !is_source(f) ? 0 : f->line;
}

bool phases_recorder(const struct snapshot_frame *f)
{
    return begins(f->name, f->name_length, "torch::unwind::") ||
           begins(f->name, f->name_length, "torch::CapturedTraceback::") ||
           begins(f->name, f->name_length, "torch::cuda::(anonymous namespace)::gather");
}

size_t phases_exported_node(const struct snapshot_frame *f, const char **name)
{
    static const char before[] = "backward: ";
    if (f->file_length != 8 || memcmp(f->file, "autograd", 8) != 0 ||
        !begins(f->name, f->name_length, before))
        return 0;
    *name = f->name + sizeof before - 1;
    return f->name_length - (sizeof before - 1);
}

size_t phases_node(const struct snapshot_frame *f, const char **name)
{
    static const char space[] = "torch::autograd::", generated[] = "generated::", after[] = "::apply(";
    if (!begins(f->name, f->name_length, space))
        return 0;
    const char *class = f->name + sizeof space - 1, *end = f->name + f->name_length;
    if (begins(class, (size_t)(end - class), generated))
        class += sizeof generated - 1;
    size_t n = 0;
    while (class + n < end && (isalnum((unsigned char)class[n]) || class[n] == '_'))
        n++;
    *name = class;
    return begins(class + n, (size_t)(end - class) - n, after) ? n : 0;
}

enum import_phase phases_of_frame(const struct snapshot_frame *f)
{
    const char *name = f->name, *node;
    size_t n = f->name_length;
    if (holds(f->file, f->file_length, "/torch/optim/") || holds(f->file, f->file_length, "\\torch\\optim\\"))
        return begins(f->last, f->last_length, "zero_grad") ? IMPORT_NONE : IMPORT_OPTIMIZER;
    if (begins(name, n, "torch::autograd::Engine::") || phases_exported_node(f, &node) ||
        (begins(f->last, f->last_length, "backward") && file_is(f, "/torch/_tensor.py")) ||
        file_is(f, "/torch/autograd/__init__.py") ||
        (begins(name, n, "_engine_run_backward") && file_is(f, "/torch/autograd/graph.py")))
        return IMPORT_BACKWARD;
    if (file_is(f, "/torch/utils/checkpoint.py") &&
        (begins(f->last, f->last_length, "backward") || begins(f->last, f->last_length, "unpack_hook")))
        return IMPORT_BACKWARD;
    if (holds(name, n, "_call_impl") && file_is(f, "/torch/nn/modules/module.py"))
        return IMPORT_FORWARD;
    return n == 8 && memcmp(name, "<module>", 8) == 0 ? IMPORT_OUTSIDE : IMPORT_NONE;
}

static enum import_phase by_stack(const struct snapshot *s, uint32_t stack)
{
    enum import_phase phase = IMPORT_NONE;
    struct snapshot_frame f, first = {.name = "", .file = "", .last = ""};
    for (size_t i = 0; snapshot_frame(s, stack, i, &f); i++) {
        enum import_phase said = phases_of_frame(&f);
        phase = said > phase ? said : phase;
        first = phases_native(&f) ? first : f;
    }
    /* the first Python code of a thread: autograd's, which runs a function's backward */
    bool node =
        begins(first.last, first.last_length, "apply") && file_is(&first, "/torch/autograd/function.py");
    return node && phase < IMPORT_BACKWARD ? IMPORT_BACKWARD : phase;
}

enum import_phase phases_then(enum import_phase open, enum import_phase said)
{
    if (said == IMPORT_NONE || (said == IMPORT_OUTSIDE && open <= IMPORT_FORWARD))
        return open;
    return said == IMPORT_OUTSIDE ? IMPORT_NONE : said;
}

static bool is_timed(const struct snapshot *s)
{
    for (int d = 0; d < s->devices; d++)
        if (!s->traces[d].timed)
            return false;
    return true;
}

static void find_steps(struct phases *p, struct snapshot *s)
{
    size_t depth = 0;
    for (size_t i = 0; is_timed(s) && i < s->range_count; i++) {
        struct snapshot_range *r = &s->ranges[i];
        if (!begins(r->name, r->length, "Optimizer.step#"))
            continue;
        r->steps = r->begins ? depth == 0 : depth == 1 || !p->marked;
        depth = r->begins ? depth + 1 : depth ? depth - 1 : 0;
        p->marked = true;
    }
}

void phases_read(struct phases *p, struct snapshot *s)
{
    bool seen[IMPORT_PHASES] = {false};
    *p = (struct phases){.of_stack = xrealloc(NULL, s->stack_count + 1)};
    for (size_t i = 0; i < s->stack_count; i++) {
        p->of_stack[i] = s->told ? IMPORT_NONE : (uint8_t)by_stack(s, (uint32_t)i + 1);
        seen[p->of_stack[i]] = true;
    }
    if (seen[IMPORT_FORWARD] && seen[IMPORT_BACKWARD])
        p->without_a_stack = IMPORT_BACKWARD;
    if (!s->told)
        find_steps(p, s);
}

void phases_free(struct phases *p)
{
    free(p->of_stack);
    *p = (struct phases){0};
}
