/*
 * export.c - `vramscope export`: the recording in another tool's format.
 *
 * What can be said before anything is written is said then; the writers (export/) say the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "files.h"
#include "export/export.h"
#include "read/symbols.h"
#include "read/steps.h"
#include "read/trace.h"

struct options {
    const char *format, *output, *at;
    int frames, rows; /* rows: -1, or which of "allocations|events" */
    int64_t device, from, to;
    int64_t steps[2];
    struct relabel relabel;
    bool force;
};

static const struct option_row rows[] = {
    {"format", 'f', "perfetto|pytorch|folded|pprof|csv", ARG_TEXT, AT(format), "the other tool's format"},
    {"output", 'o', "FILE", ARG_TEXT, AT(output), "write FILE (default, and -: standard output)"},
    {"force", 0, NULL, ARG_FLAG, AT(force), "replace another recording"},
    {"at", 0, "MOMENT", ARG_TEXT, AT(at),
     "folded, pprof: peak (default), oom, first-oom, largest-oom, or a time such as 1.5s"},
    {"frames", 0, "all|python|native", ARG_INDEX, AT(frames), "which frames of call stacks (default: all)"},
    {"rows", 0, "allocations|events", ARG_INDEX, AT(rows), "csv: a row for each (default: allocations)"},
    {"from", 0, "TIME", ARG_TIME, AT(from), "perfetto, pytorch, csv: start there (1.5s, 20ms)"},
    {"to", 0, "TIME", ARG_TIME, AT(to), "likewise: end there"},
    {"step", 0, "N[-M]", ARG_SPAN, AT(steps), "likewise: only these training steps"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "only this device"},
    RELABEL_ROWS,
    {0}};

static const struct format {
    const char *name;
    export_writer *write;
    bool binary, timed; /* timed: over time, not at a moment */
} formats[] = {
    {"perfetto", export_perfetto, true, true}, {"pytorch", export_pytorch, true, true},
    {"folded", export_folded, false, false},   {"pprof", export_pprof, true, false},
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
        return complain("export: which format? --format=perfetto, pytorch, folded, pprof or csv");
    for (int i = 0; i < FORMATS; i++)
        names[i] = formats[i].name;
    if (!strcmp(name, "parquet"))
        return complain(
            "export: Parquet is made of csv, by pandas or DuckDB: vramscope export --format=csv FILE.db -o "
            "FILE.csv");
    if (!strcmp(name, "speedscope"))
        return complain("export: the format speedscope is gone: speedscope.app opens --format=folded");
    near = args_nearest(name, names);
    if (near)
        return complain("export: unknown format '%s': did you mean %s?", name, near);
    return complain("export: unknown format '%s': perfetto, pytorch, folded, pprof and csv are known", name);
}

/* Fills O; EXIT_GOOD, or EXIT_USAGE where the options make no sense for the format. */
static int check(const struct options *given, const struct format *f, struct export_options *o)
{
    bool window = given->from || given->to != UNKNOWN || given->steps[0];
    if (given->rows >= 0 && f->write != export_csv)
        return complain("export: --rows is for csv: %s has no rows", f->name);
    if (given->at && f->timed)
        return complain("export: --at is for folded and pprof: %s is about a stretch of time", f->name);
    if (window && !f->timed)
        return complain(
            "export: --from, --to and --step are for perfetto, pytorch and csv: %s shows one moment: "
            "--at=TIME",
            f->name);
    if (files_stretch("export", given->steps, given->from, given->to))
        return EXIT_USAGE;
    *o = (struct export_options){.device = given->device,
                                 .at = given->at,
                                 .from = given->from,
                                 .to = given->to == UNKNOWN ? INT64_MAX : given->to,
                                 .frames = (enum export_frames)given->frames,
                                 .events = given->rows == 1};
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

static int call(void *options, char **operands, int n)
{
    struct options *given = options;
    struct export_options o;
    struct files files;
    const struct format *f = given->format ? find_format(given->format) : NULL;
    if (!f)
        return no_format(given->format);
    if (check(given, f, &o))
        return EXIT_USAGE;
    if (n == 0)
        return complain("export: which file? vramscope export --format=%s FILE -o OUT", f->name);
    if (files_find(&files, "export", operands, n, &given->relabel, false))
        return EXIT_USAGE;
    int status =
        files.n == 1
            ? export_file(files.at[0], f, given, &o)
            : complain(
                  "export: one file at a time, and these are %zu: vramscope export --format=%s %s -o OUT",
                  files.n, f->name, files.at[0]);
    files_free(&files);
    return status;
}

const struct command command_export = {
    "export",
    "for other tools: perfetto, pytorch, folded, pprof, csv",
    "--format=FORMAT [options] FILE",
    "Writes the recording for another tool: perfetto (ui.perfetto.dev), pytorch (a snapshot for "
    "pytorch.org/memory_viz), folded (flame graphs, speedscope.app), pprof (go tool pprof), csv.\n"
    "Over time: perfetto, pytorch, csv. Who held the bytes at one moment: folded, pprof.\n"
    "Exit status 3: written, but events are missing, or the end of the run is not known to be there.",
    rows,
    call,
    COMMAND_OPTIONS(.rows = -1, .device = UNKNOWN, .to = UNKNOWN)};
