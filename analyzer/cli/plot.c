/*
 * plot.c - `vramscope plot`: the curves as a picture, through gnuplot, or in text.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/args.h"
#include "base/commands.h"
#include "read/guard.h"
#include "plot/picture.h"
#include "plot/overlay_runs.h"
#include "analysis/relabel.h"
#include "base/shown.h"

struct options {
    const char *output, *title, *labels;
    bool overlay;
    int64_t from, to, device, size[2], steps[2];
    struct relabel relabel;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, offsetof(struct options, output),
     "OUT.png, .svg, .pdf, .gp (script with its data) or .txt; without it in text"},
    {"from", 0, "TIME", ARG_TIME, offsetof(struct options, from),
     "begin there: 1.5s, 20ms, 2min ... since the run's start"},
    {"to", 0, "TIME", ARG_TIME, offsetof(struct options, to), "end there"},
    {"step", 0, "N[-M]", ARG_SPAN, offsetof(struct options, steps), "only this training step, or these"},
    {"device", 'd', "N", ARG_COUNT, offsetof(struct options, device), "only this device"},
    {"size", 0, "WxH", ARG_SIZE, offsetof(struct options, size),
     "pixels of the picture, characters of the text"},
    {"overlay", 0, NULL, ARG_FLAG, offsetof(struct options, overlay),
     "lay the runs over each other: a curve for each, aligned at their starts (or at --step)"},
    {"labels", 0, "A,B", ARG_TEXT, offsetof(struct options, labels),
     "what the runs are called with --overlay, instead of their files' names"},
    RELABEL_ROWS(struct options, relabel),
    {"title", 0, "TEXT", ARG_TEXT, offsetof(struct options, title), "instead of the command that was run"},
    {0}};

static const struct command_help help = {"plot", "[options] FILE...|DIR",
                                         "Allocated and reserved memory over time with the phases as bands "
                                         "and the peak marked, a panel for each device.\n"
                                         "With --overlay all files are runs to compare, in one panel.\n"
                                         "Pictures need gnuplot; .gp and .txt do not.\n"
                                         "Exit status 3: drawn, but events are missing, or the end of a run "
                                         "is not known to be there; the title says so.",
                                         rows, false};

enum format { FORMAT_TEXT, FORMAT_GP, FORMAT_PNG, FORMAT_SVG, FORMAT_PDF, FORMAT_BAD };

static enum format format_of(const char *path)
{
    static const char *const names[] = {"txt", "gp", "png", "svg", "pdf"};
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!path)
        return FORMAT_TEXT;
    for (int i = 0; dot && i < 5; i++)
        if (!strcmp(dot + 1, names[i]))
            return (enum format)i;
    return FORMAT_BAD;
}

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

/* The time from the first to the last moment that any process spent in these steps. */
static int set_steps(struct picture *p, struct trace *traces, size_t n, const int64_t *steps)
{
    p->from = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        int64_t from, to;
        if (!trace_step_span(&traces[i], steps[0], steps[1], &from, &to))
            return overlay_no_step(&traces[i], steps);
        p->from = from < p->from ? from : p->from;
        p->to = to > p->to ? to : p->to;
    }
    return 0;
}

static int set_window(struct picture *p, struct trace *traces, size_t n, const struct options *o)
{
    int64_t last = 0;
    if (o->steps[0])
        return set_steps(p, traces, n, o->steps);
    for (size_t i = 0; i < n; i++)
        last = traces[i].t_last > last ? traces[i].t_last : last;
    p->from = o->from;
    p->to = o->to == UNKNOWN ? last : o->to;
    if (p->from >= p->to && last > 0)
        return complain("plot: nothing lies between --from and --to: the run lasted %.9g s",
                        (double)last / 1e9);
    return 0;
}

static char *default_title(const struct trace *traces, size_t n, const int64_t *steps)
{
    char *command =
        traces[0].process.command ? title_of_command(traces[0].process.command) : xstrdup(traces[0].path);
    char *title = n > 1 ? xformat("%s (%zu processes)", command, n) : xstrdup(command);
    free(command);
    if (steps[0]) {
        char *whole = steps[0] == steps[1] ? xformat("%s, step %lld", title, (long long)steps[0])
                                           : xformat("%s, steps %lld to %lld", title, (long long)steps[0],
                                                     (long long)steps[1]);
        free(title);
        title = whole;
    }
    char *brief = shown_cut(title, 110);
    free(title);
    return brief;
}

static int gather(struct picture *p, struct trace *traces, size_t n, const struct options *o, size_t columns)
{
    int status = set_window(p, traces, n, o);
    p->title = o->title ? xstrdup(o->title) : default_title(traces, n, o->steps);
    for (size_t i = 0; !status && i < n; i++)
        status = add_devices(p, &traces[i], o, columns, n > 1);
    if (!status && !p->panel_count)
        status = o->device == UNKNOWN
                     ? complain("%s: %s: nothing to plot", traces[0].path, trace_no_device(&traces[0]))
                     : complain("%s has nothing on device %lld", traces[0].path, (long long)o->device);
    picture_color(p);
    return status;
}

/* ---- drawing ---- */

static char *terminal_of(enum format format, const int64_t *size)
{
    long long w = size[0], h = size[1];
    switch (format) {
    case FORMAT_SVG:
        return xformat(
            "svg size %lld,%lld noenhanced font \"DejaVu Sans,Liberation Sans,sans-serif,12\" fontscale 1.33 "
            "background \"#ffffff\"",
            w, h);
    case FORMAT_PDF: /* inches; 100 pixels to one */
        return xformat("pdfcairo size %.2f,%.2f noenhanced font \"DejaVu Sans,12\" fontscale 0.72 background "
                       "\"#ffffff\"",
                       (double)w / 100, (double)h / 100);
    default:
        return xformat("pngcairo size %lld,%lld noenhanced font \"DejaVu Sans,12\" background "
                       "\"#ffffff\"",
                       w, h);
    }
}

static char *with_extension(const char *path, const char *extension)
{
    const char *dot = strrchr(path, '.');
    return xformat("%.*s%s", (int)(dot - path), path, extension);
}

static int write_script(const struct picture *p, const char *path, enum format format, const char *picture)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return complain("plot: %s can't be written: %s", path, strerror(errno));
    char *terminal = terminal_of(format, p->size);
    gnuplot_write(p, out, terminal, picture);
    free(terminal);
    bool good = !ferror(out);
    if (fclose(out) || !good) {
        unlink(path);
        return complain("plot: %s can't be written: is the disk full?", path);
    }
    return 0;
}

static int gnuplot_failed(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return complain(
            "plot: gnuplot is not installed: install it (Debian: apt-get install gnuplot-nox), or "
            "use -o FILE.gp or -o FILE.txt, which need none");
    return complain("plot: gnuplot failed: what it said stands above");
}

static int run_gnuplot(const char *script)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        guard_memory_end();
        unsetenv("LD_PRELOAD"); /* gnuplot need not be recorded */
        unsetenv("GNUTERM");
        execlp("gnuplot", "gnuplot", "-d", script, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return complain("plot: gnuplot can't be started: %s", strerror(errno));
    return status ? gnuplot_failed(status) : 0;
}

/* gnuplot draws into a temporary file, which is then renamed, because a name that begins with '-' or has a
 * quote would mean something to gnuplot. */
static int draw_picture(const struct picture *p, const char *path, enum format format)
{
    const char *tmp = getenv("TMPDIR");
    char *script = xformat("%s/vramscope-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    char *drawn = xformat("%s.part", path);
    int fd = mkostemp(script, O_CLOEXEC);
    if (fd < 0) {
        int status = complain("plot: %s can't be written: %s; TMPDIR may name another directory", script,
                              strerror(errno));
        free(script);
        free(drawn);
        return status;
    }
    close(fd);
    FILE *probe = fopen(drawn, "w");
    int status = probe ? 0 : complain("plot: %s can't be written: %s", path, strerror(errno));
    if (probe)
        fclose(probe);
    if (!status)
        status = write_script(p, script, format, drawn);
    if (!status)
        status = run_gnuplot(script);
    struct stat st;
    if (!status && (stat(drawn, &st) || st.st_size == 0 || rename(drawn, path)))
        status = complain("plot: %s can't be written: is the disk full?", path);
    if (status)
        unlink(drawn);
    unlink(script);
    free(script);
    free(drawn);
    return status;
}

static int draw_text(const struct picture *p, const char *path, const int64_t *size)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    const char *no_color = getenv("NO_COLOR");
    bool color = !path && isatty(STDOUT_FILENO) && !(no_color && *no_color);
    if (!out)
        return complain("plot: %s can't be written: %s", path, strerror(errno));
    text_draw(p, out, size[1] ? (size_t)size[1] : 14, color);
    bool good = !ferror(out);
    if (path && (fclose(out) || !good))
        return complain("plot: %s can't be written: is the disk full?", path);
    return 0;
}

static size_t terminal_width(void)
{
    struct winsize w;
    const char *columns = getenv("COLUMNS");
    long n = columns ? strtol(columns, NULL, 10) : 0;
    if (n <= 0 && isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w))
        n = w.ws_col;
    return n < 30 || n > 1000 ? 100 : (size_t)n;
}

/* Columns of the picture, and its size where none was given. */
static size_t choose_size(enum format format, const struct options *o, int64_t *size, size_t panels)
{
    if (format == FORMAT_TEXT)
        return (o->size[0] > 12 ? (size_t)o->size[0] : terminal_width()) - 11;
    size[0] = o->size[0] ? o->size[0] : 1600;
    size[1] = o->size[1] ? o->size[1] : panels > 1 ? (int64_t)(140 + 330 * (panels < 16 ? panels : 16)) : 640;
    return (size_t)size[0] > 4000 ? 4000 : (size_t)size[0];
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
    if (!status)
        p->title = o->title ? xstrdup(o->title) : overlay_default_title(p, traces);
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

static int plot(struct trace *traces, size_t n, const struct options *o)
{
    struct picture p = {0};
    enum format format = format_of(o->output);
    size_t columns =
        choose_size(format, o, p.size, o->device == UNKNOWN ? count_panels(traces, o->overlay ? 1 : n) : 1);
    int status = o->overlay ? gather_overlay(&p, traces, n, o, columns) : gather(&p, traces, n, o, columns);
    int whole = status ? status : tell_incomplete(&p, traces, n);
    if (!status && format == FORMAT_TEXT)
        status = draw_text(&p, o->output, o->size);
    else if (!status && format == FORMAT_GP) {
        char *picture = with_extension(o->output, ".png");
        status = write_script(&p, o->output, FORMAT_PNG, picture);
        free(picture);
    } else if (!status)
        status = draw_picture(&p, o->output, format);
    picture_free(&p);
    return exit_worse(status, whole);
}

static int plot_files(char *const *files, size_t count, const struct options *o)
{
    struct trace *traces = xrealloc(NULL, count * sizeof *traces);
    size_t open = 0;
    int status = 0;
    for (; !status && open < count; open += !status)
        if (relabel_open(&traces[open], files[open], &o->relabel))
            status = complain("%s", traces[open].why);
        else
            traces[open].label = trace_label(files, count, open);
    if (!status)
        status = plot(traces, count, o);
    while (open-- > 0)
        trace_close(&traces[open]);
    free(traces);
    return status;
}

int cmd_plot(int argc, char **argv)
{
    struct options o = {.to = UNKNOWN, .device = UNKNOWN};
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("plot: which file? vramscope plot FILE -o OUT.png");
    if (o.labels && !o.overlay)
        return complain("plot: --labels names the runs of --overlay");
    if (o.steps[0] && (o.from || o.to != UNKNOWN))
        return complain("plot: --step and --from or --to exclude each other");
    if (format_of(o.output) == FORMAT_BAD)
        return complain("plot: %s: the name must end in .png, .svg, .pdf, .gp or .txt", o.output);
    if (o.size[0] && format_of(o.output) != FORMAT_TEXT && (o.size[0] < 480 || o.size[1] < 320))
        return complain("plot: --size: a picture needs at least 480x320");
    if (relabel_check(&o.relabel, why, sizeof why))
        return complain("plot: %s", why);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    if (!files)
        return complain("%s", why);
    int status = plot_files(files, count, &o);
    trace_free_files(files, count);
    return status;
}
