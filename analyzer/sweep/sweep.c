/*
 * sweep.c - `vramscope sweep`: a command at every point of a grid, each under `vramscope run`.
 *
 * A point that hangs, crashes or runs out of memory is a result like others.  What is done stays done: the
 * same command line goes on where a sweep was interrupted, and a larger grid adds points.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/shown.h"
#include "sweep.h"

struct options {
    const char *output, *csv, *plot, *again;
    struct arg_list grid;
    int64_t timeout, jobs;
    bool simulated, quiet, runs_dry;
    struct dry_options dry;
};

static const struct option_row rows[] = {
    {"output", 'o', "DIR", ARG_TEXT, AT(output), "where points and their table go"},
    {"grid", 'g', "NAME=VALUES", ARG_LIST, AT(grid), "an axis: 1,2,4 or 1..64 (doubled); several times"},
    {"timeout", 't', "TIME", ARG_TIME, AT(timeout),
     "what a point may take (default 1h; 0: no end); then all its processes are ended"},
    {"again", 0, "LIST", ARG_TEXT, AT(again),
     "run points again that ended so: hang,crash,oom,between,unknown or ok"},
    {"csv", 0, "FILE", ARG_TEXT, AT(csv), "a row a rank (default DIR/sweep.csv)"},
    {"plot", 0, "FILE", ARG_TEXT, AT(plot), "gone: `vramscope plot DIR -o FILE` draws what a sweep left"},
    {"simulated", 0, NULL, ARG_FLAG, AT(simulated), "use the simulated CUDA driver: no GPU needed"},
    {"dry", 0, NULL, ARG_FLAG, AT(runs_dry),
     "as `vramscope fit` runs it: no GPU, nothing is computed; the options below are of that"},
    DRY_OPTIONS,
    {"jobs", 'j', "N", ARG_COUNT, AT(jobs), "dry runs at a time (default: one a core)"},
    {"quiet", 'q', NULL, ARG_FLAG, AT(quiet), "no line for each point as it ends"},
    {0}};

/* ---- what is asked ---- */

static bool again(const struct options *o, enum outcome outcome)
{
    const char *name = outcome_names[outcome];
    size_t n = strlen(name);
    for (const char *at = o->again; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncmp(at, name, n))
            return true;
    return false;
}

static int check_again(const char *list)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t n = strcspn(at, ",");
        int i = 0;
        while (i < OUTCOMES && (strlen(outcome_names[i]) != n || strncmp(at, outcome_names[i], n) != 0))
            i++;
        if (i == OUTCOMES)
            return complain("sweep: --again takes hang, crash, oom and ok, of dry runs also between and "
                            "unknown, not '%s'",
                            shown(at));
    }
    return 0;
}

static int check_dry(const struct options *o)
{
    char **words = dry_words(&o->dry);
    int bad = o->runs_dry && o->simulated ? complain("sweep: --dry and --simulated exclude each other")
              : !o->runs_dry && words[2]
                  ? complain("sweep: %.*s goes with --dry alone", (int)strcspn(words[2], "="), words[2])
                  : 0;
    words_free(words);
    return bad;
}

/* What of this program runs a point. */
static char **own_words(const struct options *o)
{
    char **words = NULL;
    size_t n = 0;
    if (o->runs_dry)
        return dry_words(&o->dry);
    *PUSH(words, n) = xstrdup("run");
    *PUSH(words, n) = xstrdup("-q");
    if (o->simulated)
        *PUSH(words, n) = xstrdup("--simulated");
    *PUSH(words, n) = NULL;
    return words;
}

/* ---- points ---- */

static void list_points(struct sweep *s, const char *folder)
{
    const char *values[GRID_AXES];
    s->n = s->grid.points;
    s->points = xrealloc(NULL, s->n * sizeof *s->points);
    for (size_t i = 0; i < s->n; i++) {
        for (size_t a = 0; a < s->grid.n; a++)
            values[a] = grid_value(&s->grid, i, a);
        point_begin(&s->points[i], &s->grid, folder, values);
    }
}

/* ---- all of it ---- */

static int run_all(struct work *w, const struct options *o)
{
    size_t n = 0, *which = NULL;
    struct sweep *s = w->sweep;
    for (size_t i = 0; i < s->n; i++)
        if (!s->points[i].done || again(o, s->points[i].outcome))
            *PUSH(which, n) = i;
    int status = work_run(w, which, n);
    if (!n && !o->quiet)
        printf("nothing was run: every point is done (--again runs those that ended so)\n");
    free(which);
    return status;
}

static bool is_whole(const struct sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->points[i].done || s->points[i].n < (size_t)s->points[i].expected)
            return false;
    return true;
}

static int sweep(struct sweep *s, struct work *w, const struct options *o)
{
    int status = grid_check(&s->grid, w->command);
    if (!status)
        status = database_check(s->who, o->output);
    if (!status)
        status = claim_folder(s->who, o->output, o->runs_dry ? w->own : NULL, w->command);
    if (status)
        return status;
    list_points(s, o->output);
    int ran = run_all(w, o);
    if (!o->runs_dry)
        predict(s);
    if (!o->quiet)
        puts("");
    show_table(s);
    status = database_all(s, o->output, o->csv);
    if (ran == 1)
        return complain("sweep: interrupted: the same command goes on where it was");
    return ran ? ran : status ? status : is_whole(s) ? EXIT_GOOD : EXIT_INCOMPLETE;
}

static int call(void *options, char **command, int n)
{
    struct options *o = options;
    struct sweep s = {.who = "sweep", .predicted_rank = UNKNOWN};
    if (o->plot)
        return complain("sweep: --plot is gone: vramscope plot DIR -o FILE draws what a sweep left in DIR");
    int status =
        !o->output
            ? complain(
                  "sweep: where to? vramscope sweep -o DIR --grid batch=1,2,4 -- COMMAND --batch={batch}")
            : 0;
    if (!status && !o->grid.count)
        status = complain(
            "sweep: which sizes? vramscope sweep -o DIR --grid batch=1,2,4 -- COMMAND --batch={batch}");
    if (!status)
        status = grid_read(&s.grid, "sweep: --grid", &o->grid);
    if (!status && n == 0)
        status = complain("sweep: which command? vramscope sweep -o DIR --grid batch=1,2 -- python train.py "
                          "--batch={batch}");
    if (!status)
        status = check_again(o->again);
    s.dry = o->runs_dry;
    if (!status)
        status = check_dry(o);
    char **own = own_words(o);
    struct work w = {.sweep = &s,
                     .own = own,
                     .command = command,
                     .limit = o->timeout,
                     .quiet = o->quiet,
                     .jobs = o->jobs ? (size_t)o->jobs : work_cores()};
    if (!status)
        status = sweep(&s, &w, o);
    words_free(own);
    for (size_t i = 0; i < s.n; i++)
        point_free(&s.points[i]);
    free(s.points);
    grid_free(&s.grid);
    return status;
}

const struct command command_sweep = {
    "sweep",
    "a command over a grid of sizes: every rank, hangs and crashes included",
    "[options] -o DIR --grid NAME=VALUES... [--] COMMAND [ARGUMENT...]",
    "Runs COMMAND at every point of a grid, {NAME} in its arguments replaced by the value, each under "
    "`vramscope run`, one after another, and collects what every rank held and how fast it was. A point "
    "that hangs, crashes or runs out of memory is a result; points that are done are not run again. With "
    "axes named batch and seq, and three points or more, it also says what the smallest points predict for "
    "the others.",
    rows,
    call,
    COMMAND_OPTIONS(.timeout = INT64_C(3600) * 1000000000),
    .stop_at_operand = true};
