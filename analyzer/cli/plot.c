/*
 * plot.c - `vramscope plot`: the curves as a picture, through gnuplot, or in text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/destination.h"
#include "base/page.h"
#include "files.h"
#include "plot/picture.h"
#include "plot/overlay.h"
#include "plot/curves.h"
#include "read/replace.h"
#include "read/living.h"
#include "read/sweep.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/trace.h"

struct options {
    const char *output, *format, *title, *labels, *by, *normalize;
    bool overlay, whole;
    int64_t from, to, device, size[2], steps[2];
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output),
     "OUT.png, .svg, .pdf, .gp (script with its data) or .txt; - is standard output; without it in text"},
    {"format", 0, "png|svg|pdf|gp|txt", ARG_WORD, AT(format), "instead of what the file's name says"},
    {"from", 0, "TIME", ARG_TIME, AT(from),
     "begin there: 1.5s, 20ms, '4 h 16 min' ... since the run's start"},
    {"to", 0, "TIME", ARG_TIME, AT(to), "end there"},
    {"step", 0, "N[-M]", ARG_SPAN, AT(steps), "only this training step, or these"},
    {"whole", 0, NULL, ARG_FLAG, AT(whole),
     "the whole run; by default one of many steps shows that of the peak alone"},
    {"by", 0, "role|phase|none", ARG_WORD, AT(by),
     "divide allocated by what it was for, or by the phase that allocated it (default: role where known)"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "only this device"},
    {"size", 0, "WxH", ARG_SIZE, AT(size), "pixels of the picture, characters of the text"},
    {"overlay", 0, NULL, ARG_FLAG, AT(overlay),
     "lay the runs over each other: a curve for each, aligned at their starts (or at --step)"},
    {"labels", 0, "A,B", ARG_TEXT, AT(labels),
     "what the runs are called with --overlay, instead of their files' names"},
    {"normalize", 0, "time|memory|both", ARG_TEXT, AT(normalize),
     "gone: --overlay alone lays runs over each other"},
    RELABEL_ROWS,
    {"title", 0, "TEXT", ARG_TEXT, AT(title), "instead of the command that was run"},
    {0}};

/* ---- gathering ---- */

static int add_devices(struct picture *p, struct trace *t, const struct options *o, size_t columns,
                       bool several)
{
    for (size_t i = 0; i < t->peak_count; i++) {
        int64_t device = t->peaks[i].device;
        bool first = device >= 0;
        for (size_t k = 0; k < i; k++)
            first = first && t->peaks[k].device != device;
        if (!first || (o->device != UNKNOWN && o->device != device))
            continue;
        if (picture_add(p, t, device, columns, several))
            return complain("%s", t->why);
    }
    return 0;
}

static char *default_title(const struct trace *traces, size_t n, const struct plot_window *w)
{
    char *command =
        traces[0].process.command ? title_of_command(traces[0].process.command) : xstrdup(traces[0].path);
    char *title = n > 1 ? xformat("%s (%zu processes)", command, n) : xstrdup(command);
    free(command);
    if (*w->name) {
        char *whole = xformat("%s, %s", title, w->name);
        free(title);
        title = whole;
    }
    char *brief = shown_cut(title, 110);
    free(title);
    return brief;
}

/* Allocated is divided by role where anybody knows roles, unless --by says otherwise. */
static int choose_by(struct picture *p, struct trace *traces, size_t n, const char *by)
{
    bool roles = false;
    for (size_t i = 0; i < n; i++) {
        const char *why = by && strcmp(by, "none") != 0 ? composition_none(&traces[i]) : NULL;
        if (why)
            return complain("plot: --by: %s can't be divided, as %s: leave out --by", traces[i].path, why);
        roles = roles || trace_follows(&traces[i]);
    }
    if (by && !strcmp(by, "role") && !roles)
        return complain("plot: --by=role: no block of %s has a role: record with vramscope run --access",
                        traces[0].path);
    p->by = by && !strcmp(by, "phase")              ? COMPOSITION_PHASE
            : (!by && !roles) || (by && *by == 'n') ? COMPOSITION_NONE
                                                    : COMPOSITION_ROLE;
    return 0;
}

static int gather(struct picture *p, struct trace *traces, size_t n, const struct options *o, size_t columns)
{
    struct plot_window w;
    const struct window_options asked = {o->from, o->to, o->steps, o->device, o->whole};
    int status = plot_window(&w, traces, n, &asked);
    if (!status)
        status = choose_by(p, traces, n, o->by);
    p->from = w.from;
    p->to = w.to;
    if (!status && !o->title)
        p->title = default_title(traces, n, &w);
    for (size_t i = 0; !status && i < n; i++)
        status = add_devices(p, &traces[i], o, columns, n > 1);
    if (!status && w.of && picture_add_whole(p, w.of, w.device, w.last, columns))
        status = complain("%s", w.of->why);
    if (!status && !p->panel_count)
        status = complain("%s", absent_device(&traces[0], o->device));
    picture_color(p);
    return status;
}

/* ---- drawing ---- */

/* Columns of the picture, and its size where none was given. */
static size_t choose_size(enum picture_format format, const struct options *o, int64_t *size, size_t panels)
{
    if (format == FORMAT_TEXT) {
        size[1] = o->size[1];
        return (o->size[0] > 12 ? (size_t)o->size[0] : page_width() > 30 ? page_width() : 30) - 11;
    }
    size_t across = o->overlay ? 1 : picture_across(panels), below = (panels + across - 1) / across;
    size_t high = below <= 16 ? 330 * below : 180 * below > 330 * 16 ? 180 * below : 330 * 16;
    size[0] = o->size[0] ? o->size[0] : 1600;
    size[1] = o->size[1] ? o->size[1] : below > 1 ? (int64_t)(140 + high) : 640;
    size_t columns = (size_t)size[0] / across;
    return columns > 4000 ? 4000 : columns;
}

static size_t count_panels(const struct trace *traces, size_t n)
{
    size_t panels = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < traces[i].peak_count; k++)
            panels += traces[i].peaks[k].device >= 0 && traces[i].peaks[k].kind &&
                      !strcmp(traces[i].peaks[k].kind, "allocated");
    return panels;
}

static int gather_overlay(struct picture *p, struct trace *traces, size_t n, const struct options *o,
                          size_t columns)
{
    struct overlay_options overlay = {o->labels, o->from, o->to, o->steps, o->device};
    int status = overlay_gather(p, traces, n, &overlay, columns);
    if (!status && !o->title)
        p->title = overlay_default_title(p, traces);
    return status;
}

/* Puts what a reader must know at the beginning of the title, because pictures are looked at by
 * themselves. */
static int tell_incomplete(struct picture *p, const struct trace *traces, size_t n)
{
    const char *word = NULL;
    for (size_t i = 0; i < n; i++) {
        char *line = trace_not_whole_line(&traces[i]);
        if (line)
            complain("plot: %s: %s", traces[i].path, line);
        word = word ? word : trace_not_whole(&traces[i]);
        free(line);
    }
    if (!word)
        return EXIT_GOOD;
    char *title = xformat("%s: %s", word, p->title);
    free(p->title);
    p->title = title;
    return EXIT_INCOMPLETE;
}

/* A size that was asked for is refused where the panels would lie over each other; one of ours grows. */
static int check_size(struct picture *p, const struct options *o)
{
    int64_t least[2];
    picture_least(p, least);
    if (!o->size[0] && p->size[1] < least[1])
        p->size[1] = least[1] + 100;
    if (p->size[0] >= least[0] && p->size[1] >= least[1])
        return 0;
    return complain("plot: --size: this picture needs at least %lldx%lld: %zu panel%s, and the legend",
                    (long long)(p->size[0] > least[0] ? p->size[0] : least[0]), (long long)least[1],
                    p->panel_count, p->panel_count == 1 ? "" : "s");
}

static int plot(struct trace *traces, size_t n, const struct options *o)
{
    enum picture_format format = output_format(o->output, o->format);
    struct picture p = {.title = o->title ? xstrdup(o->title) : NULL};
    size_t columns =
        choose_size(format, o, p.size, o->device == UNKNOWN ? count_panels(traces, o->overlay ? 1 : n) : 1);
    int status = o->overlay ? gather_overlay(&p, traces, n, o, columns) : gather(&p, traces, n, o, columns);
    if (!status && format != FORMAT_TEXT)
        status = check_size(&p, o);
    int whole = status ? status : tell_incomplete(&p, traces, n);
    if (!status)
        status = output_draw(&p, o->output, format);
    picture_free(&p);
    return exit_worse(status, whole);
}

/* Whether PATH is the file that NAME means. */
static bool is_recording(const char *path, const char *name)
{
    char *file = trace_file(name, NULL);
    bool same = same_file(path, file);
    free(file);
    return same;
}

static int plot_files(char *const *files, size_t count, const struct options *o, bool directory)
{
    struct ranks_seen seen = {0};
    struct trace *traces = xrealloc(NULL, count * sizeof *traces);
    size_t open = 0;
    int status = 0;
    for (size_t i = 0; !status && o->output && i < count; i++)
        if (is_recording(o->output, files[i]))
            status = complain("plot: %s is the recording: give the picture another name with -o", o->output);
    if (!status && o->output && replace_is_recording(o->output))
        status = complain("plot: %s is a recording: give the picture another name with -o", o->output);
    for (; !status && open < count; open += !status)
        if (relabel_open(&traces[open], files[open], &o->relabel))
            status = complain("%s", traces[open].why);
        else
            traces[open].label = trace_label(files, count, open);
    if (!status)
        status = plot(traces, count, o);
    for (size_t i = 0; directory && i < open; i++)
        ranks_seen_add(&seen, &traces[i]);
    status = exit_worse(status, ranks_seen_end(&seen, status != EXIT_USAGE));
    while (open-- > 0)
        trace_close(&traces[open]);
    free(traces);
    return status;
}

/* Whether something was asked that recordings have, and a sweep has not. */
static bool of_recordings(const struct options *o)
{
    return o->overlay || o->steps[0] || o->from || o->to != UNKNOWN || o->whole || o->by ||
           o->device != UNKNOWN || o->relabel.process || o->relabel.phases || o->relabel.steps;
}

/* A file that recordings of no point were merged into, too: they are not in the sweep's picture. */
static void tell_left_out(struct trace *t, const struct trace_sweep *sweep)
{
    int64_t *ids = NULL;
    size_t n = 0, drawn = 0;
    if (trace_process_ids(t, &ids, &n))
        n = 0;
    for (size_t i = 0; i < n; i++) {
        bool of_point = false;
        for (size_t p = 0; p < sweep->n && !of_point; p++)
            for (size_t r = 0; r < sweep->points[p].rank_count && !of_point; r++)
                of_point = sweep->points[p].ranks[r].process == ids[i];
        drawn += of_point;
    }
    if (drawn < n)
        complain("plot: %s of no point of the sweep: not in the picture (FILE#N draws one recording)",
                 units_count((int64_t)(n - drawn), "recording").s);
    free(ids);
}

/* Draws the sweep that FILE is of; -1: it is of none. */
static int plot_sweep(const char *file, const struct options *o, enum picture_format format)
{
    struct trace t;
    struct trace_sweep sweep;
    if (!trace_is_merged(file) || trace_open_brief(&t, file, 0))
        return -1;
    int status = trace_sweep_load(&t, &sweep) ? complain("%s", t.why) : EXIT_GOOD;
    bool is_one = status || sweep.n, missing = false;
    if (!status && sweep.n && o->output && (same_file(o->output, t.path) || replace_is_recording(o->output)))
        status = complain("plot: %s is a recording: give the picture another name with -o", o->output);
    if (!status && sweep.n) {
        const struct sweep_picture how = {o->output, o->title, format, {o->size[0], o->size[1]}};
        status = sweep_picture_draw(&sweep, &how);
        if (!status)
            tell_left_out(&t, &sweep);
    }
    for (size_t i = 0; i < sweep.n; i++)
        missing = missing || trace_sweep_point_missing(&sweep.points[i]);
    trace_sweep_free(&sweep);
    trace_close(&t);
    return !is_one ? -1 : exit_worse(status, missing ? EXIT_INCOMPLETE : EXIT_GOOD);
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct files files;
    if (n == 0)
        return complain("plot: which file? vramscope plot FILE -o OUT.png");
    if (o->labels && !o->overlay)
        return complain("plot: --labels names the runs of --overlay: give both");
    if (files_stretch("plot", o->steps, o->from, o->to))
        return EXIT_USAGE;
    if (o->whole && (o->steps[0] || o->from || o->to != UNKNOWN))
        return complain("plot: --whole excludes --step, --from and --to");
    if (o->normalize)
        return complain("plot: --normalize is gone: --overlay alone lays runs over each other");
    if (o->by && o->overlay)
        return complain("plot: --by and --overlay exclude each other");
    enum picture_format format = output_format(o->output, o->format);
    if (format == FORMAT_BAD)
        return complain("plot: %s: the name must end in .png, .svg, .pdf, .gp or .txt", o->output);
    if (files_find(&files, "plot", operands, n, &o->relabel, false))
        return EXIT_USAGE;
    int status = files.n == 1 && !of_recordings(o) ? plot_sweep(files.at[0], o, format) : -1;
    files_free(&files);
    if (status >= 0)
        return status;
    if (files_find(&files, "plot", operands, n, &o->relabel, true))
        return EXIT_USAGE;
    status = plot_files(files.at, files.n, o, files.ranks);
    files_free(&files);
    return status;
}

const struct command command_plot = {
    "plot",
    "allocated and reserved over time: png, svg, pdf, gnuplot script or text",
    "[options] FILE...|DIR",
    "Allocated and reserved memory over time with the phases as bands and the peak marked, a panel for "
    "each device.\n"
    "With --overlay all files are runs to compare, in one panel. A sweep's database is drawn over its "
    "axes.\n"
    "Pictures need gnuplot; .gp and .txt do not.\n"
    "Exit status 3: drawn, but events are missing, or the end of a run is not known to be there; the "
    "title says so.",
    rows,
    call,
    COMMAND_OPTIONS(.to = UNKNOWN, .device = UNKNOWN)};
