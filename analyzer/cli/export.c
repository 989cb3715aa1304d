/*
 * export.c - `vramscope export`: the recording in another tool's format.
 *
 * What can be said before anything is written is said then; the writers (export/) say the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/relabel.h"
#include "base/args.h"
#include "base/choice.h"
#include "base/commands.h"
#include "export/export.h"
#include "read/symbols.h"
#include "read/steps.h"
#include "read/absent.h"

struct options {
    const char *format, *output, *at, *frames, *rows;
    int64_t device, from, to;
    int64_t steps[2];
    struct relabel relabel;
    bool force;
};

static const struct option_row rows[] = {
    {"format", 'f', "perfetto|pytorch|speedscope|folded|pprof|csv", ARG_TEXT,
     offsetof(struct options, format), "the other tool's format"},
    {"output", 'o', "FILE", ARG_TEXT, offsetof(struct options, output),
     "write FILE (default, and -: standard output)"},
    {"force", 0, NULL, ARG_FLAG, offsetof(struct options, force), "replace another recording"},
    {"at", 0, "MOMENT", ARG_TEXT, offsetof(struct options, at),
     "speedscope, folded, pprof: peak (default), oom, first-oom, largest-oom, or a time such as 1.5s"},
    {"frames", 0, "all|python|native", ARG_TEXT, offsetof(struct options, frames),
     "which frames of call stacks (default: all)"},
    {"rows", 0, "allocations|events", ARG_TEXT, offsetof(struct options, rows),
     "csv: a row for each (default: allocations)"},
    {"from", 0, "TIME", ARG_TIME, offsetof(struct options, from),
     "perfetto, pytorch, csv: start there (1.5s, 20ms)"},
    {"to", 0, "TIME", ARG_TIME, offsetof(struct options, to), "likewise: end there"},
    {"step", 0, "N[-M]", ARG_SPAN, offsetof(struct options, steps), "likewise: only these training steps"},
    {"device", 'd', "N", ARG_COUNT, offsetof(struct options, device), "only this device"},
    RELABEL_ROWS(struct options, relabel),
    {0}};

static const struct command_help help = {
    "export", "--format=FORMAT [options] FILE",
    "Writes the recording for another tool: perfetto (ui.perfetto.dev), pytorch (a snapshot for\n"
    "pytorch.org/memory_viz), speedscope, folded (flame graphs), pprof (go tool pprof), csv.\n"
    "Over time: perfetto, pytorch, csv.  Who held the bytes at one moment: speedscope, folded, pprof.\n"
    "Exit status 3: written, but events are missing, or the end of the run is not known to be there.",
    rows, false};

static const struct format {
    const char *name;
    export_writer *write;
    bool binary, timed; /* timed: over time, not at a moment */
} formats[] = {
    {"perfetto", export_perfetto, true, true},
    {"pytorch", export_pytorch, true, true},
    {"speedscope", export_speedscope, false, false},
    {"folded", export_folded, false, false},
    {"pprof", export_pprof, true, false},
    {"csv", export_csv, false, true},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const struct format *find_format(const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

static int no_format(const char *name)
{
    const char *names[FORMATS + 1] = {NULL}, *near;
    if (!name)
        return complain("export: which format? --format=perfetto, pytorch, speedscope, folded, pprof or csv");
    for (int i = 0; i < FORMATS; i++)
        names[i] = formats[i].name;
    if (!strcmp(name, "parquet"))
        return complain(
            "export: Parquet needs a library that only Python has: pip install pyarrow, then python -m "
            "vramscope.parquet FILE.db OUT.parquet");
    near = args_nearest(name, names);
    if (near)
        return complain("export: unknown format '%s': did you mean %s?", name, near);
    return complain(
        "export: unknown format '%s': perfetto, pytorch, speedscope, folded, pprof and csv are known", name);
}

/* Fills O; EXIT_GOOD, or EXIT_USAGE where the options make no sense for the format. */
static int check(const struct options *given, const struct format *f, struct export_options *o)
{
    static const char *const kinds[] = {
        [FRAMES_ALL] = "all", [FRAMES_PYTHON] = "python", [FRAMES_NATIVE] = "native"};
    bool window = given->from || given->to != UNKNOWN || given->steps[0];
    int frames = FRAMES_ALL;
    while (given->frames && frames <= FRAMES_NATIVE && strcmp(kinds[frames], given->frames) != 0)
        frames++;
    if (frames > FRAMES_NATIVE)
        return complain("export: --frames takes all, python or native, not '%s'", given->frames);
    if (given->rows && strcmp(given->rows, "allocations") != 0 && strcmp(given->rows, "events") != 0)
        return complain("export: --rows takes allocations or events, not '%s'", given->rows);
    if (given->rows && f->write != export_csv)
        return complain("export: --rows is for csv: %s has no rows", f->name);
    if (given->at && f->timed)
        return complain("export: --at is for speedscope, folded and pprof: %s is about a stretch of time",
                        f->name);
    if (window && !f->timed)
        return complain(
            "export: --from, --to and --step are for perfetto, pytorch and csv: %s shows one moment: "
            "--at=TIME",
            f->name);
    if (choice_stretch("export", given->steps, given->from, given->to))
        return EXIT_USAGE;
    *o = (struct export_options){.device = given->device,
                                 .at = given->at,
                                 .from = given->from,
                                 .to = given->to == UNKNOWN ? INT64_MAX : given->to,
                                 .frames = (enum export_frames)frames,
                                 .events = given->rows && !strcmp(given->rows, "events")};
    return EXIT_GOOD;
}

static int set_steps(struct trace *t, const int64_t *steps, struct export_options *o)
{
    if (!steps[0] || trace_step_span(t, steps[0], steps[1], &o->from, &o->to))
        return EXIT_GOOD;
    return complain("export: %s", absent_steps(t, steps));
}

/* What is missing in the recording is missing in the export. */
static int tell_incomplete(const struct trace *t)
{
    char *line = trace_not_whole_line(t);
    if (line)
        complain("export: %s: %s", t->path, line);
    free(line);
    return line ? EXIT_INCOMPLETE : EXIT_GOOD;
}

static int write_file(struct trace *t, const struct format *f, const struct options *given,
                      const struct export_options *o)
{
    struct sink sink;
    int status = sink_open(&sink, given->output, f->binary, given->force, t->path);
    if (status)
        return status;
    status = f->write(t, o, &sink);
    int closed = sink_close(&sink, status != EXIT_USAGE);
    if (closed || status == EXIT_USAGE) /* an error has its line */
        return closed ? closed : status;
    return exit_worse(status, tell_incomplete(t));
}

static int export_file(const char *path, const struct format *f, const struct options *given,
                       struct export_options *o)
{
    struct trace t;
    char why[256]; /* without names frames are shown as module+offset: not worth a word */
    if (relabel_open(&t, path, &given->relabel))
        return complain("%s", t.why);
    if (t.end != TRACE_END_RUNNING && f->write != export_csv)
        vs_symbols_fill(t.file, why, sizeof why);
    int status = set_steps(&t, given->steps, o);
    if (!status)
        status = export_past_end(&t, "--from", given->from);
    if (!status)
        status = write_file(&t, f, given, o);
    trace_close(&t);
    return status;
}

int cmd_export(int argc, char **argv)
{
    struct options given = {.device = UNKNOWN, .to = UNKNOWN};
    struct export_options o;
    char **operands, why[512];
    size_t count;
    int n = args_parse(&help, argc, argv, &given, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    const struct format *f = given.format ? find_format(given.format) : NULL;
    if (!f)
        return no_format(given.format);
    if (check(&given, f, &o))
        return EXIT_USAGE;
    if (relabel_check(&given.relabel, why, sizeof why))
        return complain("export: %s", why);
    if (n == 0)
        return complain("export: which file? vramscope export --format=%s FILE -o OUT", f->name);
    char **files = trace_files(operands, (size_t)n, &count, why, sizeof why);
    if (!files)
        return complain("%s", why);
    int status =
        count == 1
            ? export_file(files[0], f, &given, &o)
            : complain(
                  "export: one file at a time, and these are %zu: vramscope export --format=%s %s -o OUT",
                  count, f->name, files[0]);
    trace_free_files(files, count);
    return status;
}
