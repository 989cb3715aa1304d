/*
 * stack.c - see stack.h.
 *
 * Each frame gets a name and a class; some frames are kept; these become lines.
 */
#include "stack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/journal/journal.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/symbols.h"

struct entry {
    const struct trace_frame *frame;
    const char *module; /* without folders */
    char *name;         /* NULL: a line of Python, or unknown */
    enum frame_use use;
    bool symbolic, kept; /* symbolic: a line of Python, a node of autograd or a layer, no address of code */
};

/* ---- names ---- */

static bool cut_prefix(const char **text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*text, prefix, n) != 0)
        return false;
    *text += n;
    return true;
}

static bool cut_suffix(const char *text, const char *suffix, size_t *length)
{
    size_t n = strlen(suffix);
    if (*length <= n || strncmp(text + *length - n, suffix, n) != 0)
        return false;
    *length -= n;
    return true;
}

/* The stub that nvcc makes to launch a kernel has the kernel's mangled name in its own. */
static char *launch_name(const char *function)
{
    if (!cut_prefix(&function, "__device_stub_") || function[0] != '_' || function[1] != 'Z')
        return NULL;
    char *plain = elf_demangle(function), *kernel = plain ? cxx_name(plain) : NULL;
    char *name = kernel ? xformat("launch of %s", kernel) : NULL;
    free(plain);
    free(kernel);
    return name;
}

/* Shortens at::_ops::addmm::call to at::addmm, and a node of backward to its class. */
static char *familiar_name(char *name)
{
    const char *text = name;
    size_t n;
    char *better = NULL;
    if (cut_prefix(&text, "at::_ops::") && (n = strlen(text)) && cut_suffix(text, "::call", &n))
        better = xformat("at::%.*s", (int)n, text);
    else if (cut_prefix(&text, "torch::autograd::generated::") && (n = strlen(text)) &&
             cut_suffix(text, "::apply", &n))
        better = xformat("%.*s", (int)n, text);
    if (!better)
        return name;
    free(name);
    return better;
}

static struct entry entry_of(const struct trace_frame *f)
{
    struct entry e = {.frame = f, .symbolic = f->kind != VS_FRAME_ADDRESS, .kept = true};
    const char *slash = f->module ? strrchr(f->module, '/') : NULL;
    e.module = slash ? slash + 1 : f->module ? f->module : "?";
    if (e.symbolic) {
        bool wrapper = f->kind == VS_FRAME_PYTHON && frame_is_wrapper(f->file, f->function);
        e.use = wrapper ? FRAME_DISPATCHER : FRAME_TELLS;
        return e;
    }
    char *name = f->function ? cxx_name(f->function) : NULL;
    e.use = frame_use(name, e.module);
    char *launch = f->function ? launch_name(f->function) : NULL;
    if (launch)
        free(name);
    e.name = launch ? launch : name ? familiar_name(name) : NULL;
    return e;
}

/* ---- which frames are kept ---- */

static bool any_python(const struct entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (e[i].frame->kind == VS_FRAME_PYTHON)
            return true;
    return false;
}

/* Marks the outermost frames of a thread, before END. */
static void drop_start(struct entry *e, size_t end)
{
    while (end && (e[end - 1].use == FRAME_START || e[end - 1].use == FRAME_LIBC))
        e[--end].kept = false;
}

static void drop_useless(struct entry *e, size_t n)
{
    bool python = any_python(e, n);
    for (size_t i = 0; i < n; i++)
        e[i].kept = e[i].use == FRAME_TELLS || e[i].use == FRAME_OPERATOR || e[i].use == FRAME_LIBC ||
                    (e[i].use == FRAME_INTERPRETER && !python);
    for (size_t i = 0; i <= n; i++)
        if (i == n || e[i].frame->kind == VS_FRAME_NODE) /* the frames outward of a node are another call's */
            drop_start(e, i);
}

/* Whether the frame is torch.empty or a relative, called by the program or by other operators. */
static bool makes_room(const struct entry *e)
{
    return !e->symbolic && e->name && strncmp(e->name, "at::empty", 9) == 0;
}

/* Whether FUNCTION only computes the operator AROUND it, as at::native::log_softmax
 * does at::log_softmax_int. */
static bool computes(const struct entry *function, const struct entry *around)
{
    const char *f = function->name, *o = around->name;
    if (!f || function->use != FRAME_TELLS || around->use != FRAME_OPERATOR ||
        !cut_prefix(&f, "at::native::") || !cut_prefix(&o, "at::"))
        return false;
    cut_prefix(&f, "structured_");
    size_t same = strlen(f) < strlen(o) ? strlen(f) : strlen(o);
    return strncmp(f, o, same) == 0;
}

/* Whether FUNCTION is that of the node of backward whose frame is AROUND it. */
static bool is_node(const struct entry *function, const struct entry *around)
{
    return function->name && around->frame->kind == VS_FRAME_NODE && around->frame->function &&
           strcmp(function->name, around->frame->function) == 0;
}

static void drop_repetition(struct entry *e, size_t n)
{
    const struct entry *outer = NULL;
    for (size_t i = n; i-- > 0;) {
        if (!e[i].kept)
            continue;
        if (outer && (computes(&e[i], outer) || is_node(&e[i], outer)))
            e[i].kept = false;
        else
            outer = &e[i];
    }
}

static bool any_kept(const struct entry *e, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (e[i].kept)
            return true;
    return false;
}

/* In the run of native frames from FROM to TO shows torch.empty only if no other operator called it. */
static void decide_on_empty(struct entry *e, size_t from, size_t to)
{
    size_t outermost = to;
    bool others = false;
    for (size_t i = from; i < to; i++) {
        if (makes_room(&e[i])) {
            e[i].kept = false;
            outermost = i;
        }
        others = others || (e[i].kept && e[i].use != FRAME_INTERPRETER);
    }
    if (outermost < to && !others)
        e[outermost].kept = true;
}

static void decide_on_runs(struct entry *e, size_t n)
{
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to < n && !e[to].symbolic; to++) {
        }
        decide_on_empty(e, from, to);
    }
}

static void choose(struct entry *e, size_t n)
{
    drop_useless(e, n);
    drop_repetition(e, n);
    decide_on_runs(e, n);
    if (!any_kept(e, 0, n))
        for (size_t i = 0; i < n; i++)
            e[i].kept = true;
}

/* ---- lines ---- */

/* Whether two neighbours share a line: the same function again, or unnamed frames of one library. */
static bool same_line(const struct entry *a, const struct entry *b)
{
    if (a->symbolic || b->symbolic || strcmp(a->module, b->module) != 0)
        return false;
    return a->name && b->name ? strcmp(a->name, b->name) == 0 : !a->name && !b->name;
}

/* The library behind a name; an imported trace names functions and no libraries. */
static char *with_module(const struct entry *e, char *name)
{
    char *text = e->frame->module ? xformat("%s  (%s)", name, shown(e->module)) : xstrdup(name);
    free(name);
    return text;
}

static char *named_line(const struct entry *e, size_t times)
{
    const struct trace_frame *f = e->frame;
    if (times > 1)
        return with_module(e, xformat("%s ×%zu", shown(e->name), times));
    char *text = with_module(e, xstrdup(shown(e->name)));
    if (!f->file)
        return text;
    char *placed = f->line == UNKNOWN && !f->module
                       ? xformat("%s  %s", text, shown(f->file))
                       : xformat("%s  %s:%" PRId64, text, shown(f->file), f->line == UNKNOWN ? 0 : f->line);
    free(text);
    return placed;
}

static char *line_of(const struct entry *e, size_t times)
{
    if (e->symbolic || (!e->name && times == 1))
        return frame_text(e->frame, false);
    if (e->name)
        return named_line(e, times);
    char *first = frame_text(e->frame, false), *line = xformat("%s, and %zu more", first, times - 1);
    free(first);
    return line;
}

static void add_lines(struct stack_lines *s, const struct entry *e, size_t n)
{
    const struct entry *first = NULL; /* the first frame of the present line */
    size_t times = 0;
    for (size_t i = 0; i < n; i++) {
        if (!e[i].kept)
            continue;
        if (first && !same_line(first, &e[i])) {
            *PUSH(s->line, s->count) = line_of(first, times);
            first = NULL;
        }
        times = first ? times + 1 : 1;
        first = first ? first : &e[i];
    }
    if (first)
        *PUSH(s->line, s->count) = line_of(first, times);
}

static struct entry *entries_of(const struct trace_frame *frames, size_t n)
{
    struct entry *e = xrealloc(NULL, (n + 1) * sizeof *e);
    for (size_t i = 0; i < n; i++)
        e[i] = entry_of(&frames[i]);
    choose(e, n);
    return e;
}

static void free_entries(struct entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(e[i].name);
    free(e);
}

struct stack_lines stack_lines_of(const struct trace_frame *frames, size_t n, bool full)
{
    struct stack_lines s = {0};
    if (full) {
        for (size_t i = 0; i < n; i++)
            *PUSH(s.line, s.count) = frame_text(&frames[i], true);
        return s;
    }
    struct entry *e = entries_of(frames, n);
    add_lines(&s, e, n);
    for (size_t i = 0; i < n; i++)
        s.hidden += !e[i].kept;
    free_entries(e, n);
    return s;
}

void stack_lines_free(struct stack_lines *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->line[i]);
    free(s->line);
    *s = (struct stack_lines){0};
}

/* "trainer.c:12 allocate", "allocate (trainer)"; INNER: the function that it called, or NULL. */
static char *place_of(const struct entry *e, const struct entry *inner)
{
    const struct trace_frame *f = e->frame;
    const char *slash = f->file ? strrchr(f->file, '/') : NULL;
    const char *arrow = inner ? " → " : "", *callee = inner ? shown(inner->name) : "";
    if (e->symbolic || !e->name)
        return line_of(e, 1);
    if (!f->file || f->line == UNKNOWN)
        return with_module(e, xformat("%s%s%s", shown(e->name), arrow, callee));
    return xformat("%s:%" PRId64 " %s%s%s", shown(slash ? slash + 1 : f->file), f->line, shown(e->name),
                   arrow, callee);
}

/* The next kept place in code from FROM on; N: there is none. */
static size_t next_code(const struct entry *e, size_t n, size_t from)
{
    while (from < n &&
           (!e[from].kept || e[from].frame->kind == VS_FRAME_LAYER || e[from].frame->kind == VS_FRAME_NODE))
        from++;
    return from;
}

/* A program's own allocation function has many callers, and these are informative. */
static bool is_caller(const struct entry *outer, const struct entry *inner)
{
    return outer->name && inner->name && outer->use == FRAME_TELLS && inner->use == FRAME_TELLS &&
           strcmp(outer->module, inner->module) == 0 && strcmp(outer->name, inner->name) != 0;
}

char *stack_place(const struct trace_frame *frames, size_t n)
{
    struct entry *e = entries_of(frames, n);
    size_t first = next_code(e, n, 0), second = next_code(e, n, first + 1);
    char *place = NULL;
    if (first < n && second < n && is_caller(&e[second], &e[first]))
        place = place_of(&e[second], &e[first]);
    else if (first < n)
        place = place_of(&e[first], NULL);
    free_entries(e, n);
    return place;
}

char *stack_where(struct trace *t, int64_t stack)
{
    struct trace_frame *frames;
    const char *line = trace_line(t, stack);
    size_t n;
    if (line)
        return line_text(line);
    if (trace_stack(t, stack, &frames, &n))
        return xstrdup("an unknown place");
    char *place = stack_place(frames, n);
    free(frames);
    return place ? place : xstrdup("an unknown place");
}

size_t stack_print(struct trace *t, int64_t stack, size_t most, bool full, int indent, FILE *out)
{
    struct trace_frame *frames;
    size_t n, hidden;
    if (stack <= 0 || trace_stack(t, stack, &frames, &n))
        return 0;
    struct stack_lines s = stack_lines_of(frames, n, full);
    for (size_t i = 0; i < s.count && (!most || i < most); i++)
        fprintf(out, "%*s%s\n", indent, "", s.line[i]);
    if (most && s.count > most)
        fprintf(out, "%*sand %zu more\n", indent, "", s.count - most);
    hidden = s.hidden;
    stack_lines_free(&s);
    free(frames);
    return hidden;
}

void stack_print_hidden(size_t hidden, FILE *out)
{
    if (hidden)
        fprintf(out, "    (left out: %s of allocators, dispatchers, wrappers: see --full)\n",
                units_count((int64_t)hidden, "frame").s);
}
