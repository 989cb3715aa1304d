/*
 * sweep.c - `vramscope sweep`: a command at every point of a grid, each under `vramscope run`.
 *
 *      grid --> for each point not done: folder, run, end of its time, outcome --> table, CSV, picture
 *
 * A point that hangs, crashes or runs out of memory is a result like others.  What is done stays done: the
 * same command line goes on where a sweep was interrupted, and a larger grid adds points.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/args.h"
#include "base/commands.h"
#include "base/destination.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/wrap.h"
#include "database.h"
#include "law/law.h"
#include "show.h"

#define FIT_LEAST 3
#define FIT_MOST  5
#define SIZE_MOST (INT64_C(1) << 24) /* laws go no further */

struct options {
    const char *output, *csv, *plot, *again;
    struct arg_list grid;
    int64_t timeout;
    bool simulated, quiet;
};

static const struct option_row rows[] = {
    {"output", 'o', "DIR", ARG_TEXT, offsetof(struct options, output), "where points, table and picture go"},
    {"grid", 'g', "NAME=VALUES", ARG_LIST, offsetof(struct options, grid),
     "an axis: 1,2,4 or 1..64 (doubled); several times"},
    {"timeout", 't', "TIME", ARG_TIME, offsetof(struct options, timeout),
     "what a point may take (default 1h; 0: no end); then all its processes are ended"},
    {"again", 0, "LIST", ARG_TEXT, offsetof(struct options, again),
     "run points again that ended so: hang,crash,oom or ok"},
    {"csv", 0, "FILE", ARG_TEXT, offsetof(struct options, csv), "a row a rank (default DIR/sweep.csv)"},
    {"plot", 0, "FILE", ARG_TEXT, offsetof(struct options, plot),
     "a picture, .png, .svg, .pdf, .gp or .txt: least, mean and most over the ranks"},
    {"simulated", 0, NULL, ARG_FLAG, offsetof(struct options, simulated),
     "use the simulated CUDA driver: no GPU needed"},
    {"quiet", 'q', NULL, ARG_FLAG, offsetof(struct options, quiet), "no line for each point as it ends"},
    {0}};

static const struct command_help help = {
    "sweep", "[options] -o DIR --grid NAME=VALUES... [--] COMMAND [ARGUMENT...]",
    "Runs COMMAND at every point of a grid, {NAME} in its arguments replaced by the value, each under\n"
    "`vramscope run`, one after another, and collects what every rank held and how fast it was.  A point "
    "that\n"
    "hangs, crashes or runs out of memory is a result; points that are done are not run again.  With axes "
    "named\n"
    "batch and seq, from three points on: what laws made of the smallest say of the others.",
    rows, true};

/* ---- what is asked ---- */

static int check_command(const struct grid *g, char **command)
{
    for (size_t a = 0; a < g->n; a++)
        if (!grid_uses(g, a, command))
            return complain("sweep: {%s} stands nowhere in the command: every point would be the same",
                            g->axes[a].name);
    char *unknown = grid_unknown(g, command);
    int bad = unknown
                  ? complain("sweep: %s is in the command, and no --grid has that name (braces that are the "
                             "command's own: put them into a script)",
                             shown(unknown))
                  : 0;
    free(unknown);
    return bad;
}

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
            return complain("sweep: --again takes hang, crash, oom and ok, not '%s'", shown(at));
    }
    return 0;
}

/* Held until we and every process of a point have ended, also where we are killed: whoever of them runs on
 * has the GPU, and its recording. */
static int lock_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY); /* children have it, too */
    if (fd < 0)
        return complain("sweep: %s can't be opened: %s", folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) { /* some file systems have none */
        close(fd);
        return complain("sweep: another sweep runs in %s, or a process that one left behind", folder);
    }
    return 0;
}

/* 1: PATH has these SIZE bytes; 0: others; -1 and errno */
static int has_text(const char *path, const char *text, size_t size)
{
    char *was = xrealloc(NULL, size + 1);
    FILE *in = fopen(path, "re");
    int same = -1;
    if (in) {
        size_t n = fread(was, 1, size + 1, in);
        same = ferror(in) ? -1 : n == size && !memcmp(was, text, size);
        fclose(in);
    }
    free(was);
    return same;
}

static int write_text(const char *path, const char *text, size_t size)
{
    struct destination to;
    destination_find(&to, path);
    FILE *out = fopen(destination_name(&to), "we");
    bool good = out && fwrite(text, 1, size, out) == size;
    int error = good ? 0 : errno;
    if (out && fclose(out) && good) {
        error = errno;
        good = false;
    }
    int ended = destination_end(&to, good);
    error = good ? ended : error;
    return good && !ended ? 0 : complain("sweep: %s can't be written: %s", path, strerror(error));
}

/* A folder belongs to one command, its words each with a 0 behind it: points of another would be beside its
 * own. */
static int check_folder(const char *folder, char *const *command)
{
    char *path = xformat("%s/command", folder), *text = NULL;
    size_t size;
    FILE *words = xmemstream(&text, &size);
    for (; *command; command++)
        fwrite(*command, 1, strlen(*command) + 1, words);
    fclose(words);
    int bad = mkdir(folder, 0777) && errno != EEXIST
                  ? complain("sweep: %s can't be made: %s", folder, strerror(errno))
                  : lock_folder(folder);
    int same = bad ? 1 : has_text(path, text, size);
    if (same == 0)
        bad =
            complain("sweep: %s has points of another command (%s/command): give another -o", folder, folder);
    else if (same < 0)
        bad = errno == ENOENT ? write_text(path, text, size)
                              : complain("sweep: %s can't be read: %s", path, strerror(errno));
    free(path);
    free(text);
    return bad;
}

/* ---- points ---- */

static void list_points(struct sweep *s, const char *folder)
{
    s->n = s->grid.points;
    s->points = xrealloc(NULL, s->n * sizeof *s->points);
    for (size_t i = 0; i < s->n; i++) {
        struct point *p = &s->points[i];
        *p = (struct point){.name = grid_name(&s->grid, i), .expected = 1};
        p->folder = xformat("%s/%s", folder, p->name);
        point_load(p);
    }
}

static void free_command(char **words)
{
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
}

/* This program's `run`, and behind it COMMAND at point I. */
static char **command_at(const struct sweep *s, size_t i, const struct options *o, char *const *command)
{
    char self[PATH_MAX], **words = NULL;
    size_t n = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    *PUSH(words, n) = xstrdup(self);
    *PUSH(words, n) = xstrdup("run");
    *PUSH(words, n) = xstrdup("-q");
    *PUSH(words, n) = xstrdup("-o");
    *PUSH(words, n) = xformat("%s/run.db", s->points[i].folder);
    for (size_t a = 0; a < s->grid.n; a++) {
        *PUSH(words, n) = xstrdup("--label");
        *PUSH(words, n) = xformat("%s=%s", s->grid.axes[a].name, grid_value(&s->grid, i, a));
    }
    if (o->simulated)
        *PUSH(words, n) = xstrdup("--simulated");
    *PUSH(words, n) = xstrdup("--");
    for (; *command; command++)
        *PUSH(words, n) = grid_fill(&s->grid, i, *command);
    *PUSH(words, n) = NULL;
    return words;
}

static void say(const struct point *p)
{
    double least, mean, greatest;
    char *status = point_status(p);
    bool bad = p->outcome == POINT_CRASH || p->outcome == POINT_OOM;
    int64_t refused = point_refused(p);
    wrap_page_begin(false);
    printf("%s: %s%s%s, %s", p->name, outcome_names[p->outcome], bad ? ", " : "", bad ? status : "",
           units_time(p->ns).s);
    free(status);
    if (refused != UNKNOWN)
        printf(", %s refused", units_bytes(refused, false).s);
    if (point_span(p, FIGURE_POINT_RESERVED, &least, &mean, &greatest))
        printf(", at most %s reserved", units_bytes((int64_t)greatest, false).s);
    if (!p->n)
        printf(", nothing recorded: no process used the GPU (%s/log)", p->folder);
    else if (p->n < (size_t)p->expected)
        printf(", %zu of %" PRId64 " ranks recorded", p->n, p->expected);
    if (p->left)
        printf("; processes that it had left behind were ended");
    puts("");
    wrap_page_end();
    fflush(stdout);
}

/* 0; 2, said; or 1: we were asked to end. */
static int run_point(struct sweep *s, size_t i, const struct options *o, char *const *command)
{
    struct point *p = &s->points[i];
    struct child_end end;
    if (mkdir(p->folder, 0777) && errno != EEXIST)
        return complain("sweep: %s can't be made: %s", p->folder, strerror(errno));
    point_clear(p);
    char **words = command_at(s, i, o, command), *log = xformat("%s/log", p->folder);
    int error = child_run(words, log, o->timeout, &end);
    free_command(words);
    free(log);
    if (error)
        return complain("sweep: %s can't be started: %s", p->name, strerror(error));
    if (end.interrupted)
        return 1;
    if (end.stuck)
        return complain("sweep: a process of %s can't be ended: the next point would not be alone on the GPU",
                        p->name);
    int bad = point_finish(p, &end);
    if (!bad && !o->quiet)
        say(p);
    return bad;
}

/* ---- predictions ---- */

static bool is_size(int64_t x)
{
    return x >= 1 && x <= SIZE_MOST;
}

/* Whether both axes are numbers at point I, which laws have: "auto" is none. */
static bool has_sizes(const struct sweep *s, size_t i)
{
    return is_size(grid_number(&s->grid, i, "batch")) && is_size(grid_number(&s->grid, i, "seq"));
}

static bool tells(const struct sweep *s, const size_t *order, size_t n, const char *axis)
{
    int64_t first = UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        int64_t x = grid_number(&s->grid, order[i], axis);
        if (first != UNKNOWN && x != first)
            return true;
        first = x;
    }
    for (size_t i = 0; i < s->n; i++) /* the axis has one value: nothing is to be told */
        if (has_sizes(s, i) && grid_number(&s->grid, i, axis) != first)
            return false;
    return true;
}

static int64_t tokens(const struct sweep *s, size_t i)
{
    return grid_number(&s->grid, i, "batch") * grid_number(&s->grid, i, "seq");
}

static int by_tokens(const void *a, const void *b, void *context)
{
    int64_t x = tokens(context, *(const size_t *)a), y = tokens(context, *(const size_t *)b);
    return (x > y) - (x < y);
}

/* How many of the points in ORDER, the smallest first, laws are made of; 0: they tell too little. */
static size_t points_for_laws(const struct sweep *s, const size_t *order, size_t n)
{
    for (size_t k = FIT_LEAST; k < n; k++)
        if (tells(s, order, k, "batch") && tells(s, order, k, "seq"))
            return k > FIT_MOST ? k : n - 1 < FIT_MOST ? n - 1 : FIT_MOST;
    return 0;
}

static bool holds_more(const struct rank_figures *a, const struct rank_figures *b)
{
    return a->framework_reserved != b->framework_reserved ? a->framework_reserved > b->framework_reserved
                                                          : a->framework_allocated > b->framework_allocated;
}

/* The recording of rank RANK, UNKNOWN: the one that held most; NULL: there is none with blocks. */
static char *path_of(const struct point *p, int64_t rank)
{
    const struct rank_figures *best = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const struct rank_figures *r = &p->ranks[i];
        if (r->framework_allocated != UNKNOWN && (rank == UNKNOWN || r->rank == rank) &&
            (!best || holds_more(r, best)))
            best = r;
    }
    return best ? best->path : NULL;
}

/* The rank that held most at the largest of the N points in ORDER, and that all have. */
static int64_t rank_of_most(const struct sweep *s, const size_t *order, size_t n)
{
    const struct point *last = &s->points[order[n - 1]];
    const struct rank_figures *best = NULL;
    for (size_t i = 0; i < last->n; i++) {
        const struct rank_figures *r = &last->ranks[i];
        bool everywhere = r->rank != UNKNOWN && r->framework_reserved != UNKNOWN;
        for (size_t k = 0; k < n && everywhere; k++)
            everywhere = path_of(&s->points[order[k]], r->rank) != NULL;
        if (everywhere && (!best || holds_more(r, best)))
            best = r;
    }
    return best ? best->rank : UNKNOWN;
}

/* What laws made of the first USED points in ORDER say of all of which the sizes are known. */
static int forecast(struct sweep *s, const size_t *order, size_t used)
{
    size_t n = 0, *of = xrealloc(NULL, s->n * sizeof *of);
    char **files = xrealloc(NULL, used * sizeof *files);
    struct law_forecast *all = xrealloc(NULL, s->n * sizeof *all);
    for (size_t i = 0; i < used; i++)
        files[i] = path_of(&s->points[order[i]], s->predicted_rank);
    for (size_t i = 0; i < s->n; i++)
        if (has_sizes(s, i)) {
            of[n] = i;
            all[n++] = (struct law_forecast){grid_number(&s->grid, i, "batch"),
                                             grid_number(&s->grid, i, "seq"), UNKNOWN, UNKNOWN};
        }
    int bad = law_forecast(files, used, all, n);
    if (!bad) {
        for (size_t i = 0; i < n; i++) {
            s->points[of[i]].predicted_allocated = all[i].allocated;
            s->points[of[i]].predicted_reserved = all[i].reserved;
        }
        for (size_t i = 0; i < used; i++)
            s->points[order[i]].fitted = true;
    }
    free(of);
    free(files);
    free(all);
    return bad;
}

static bool has_axis(const struct sweep *s, const char *name)
{
    for (size_t a = 0; a < s->grid.n; a++)
        if (!strcmp(s->grid.axes[a].name, name))
            return true;
    return false;
}

static void predict(struct sweep *s)
{
    size_t n = 0, *order = NULL;
    s->predicted_rank = UNKNOWN;
    if (s->grid.n != 2 || !has_axis(s, "batch") || !has_axis(s, "seq")) {
        s->unpredicted = "predictions are made for grids of --grid batch and --grid seq alone";
        return;
    }
    s->unpredicted =
        "too few points ended well with blocks of a framework: predictions need three, of two batches "
        "and two lengths where the grid has them";
    for (size_t i = 0; i < s->n; i++)
        if (has_sizes(s, i) && s->points[i].done && s->points[i].outcome == POINT_OK &&
            path_of(&s->points[i], UNKNOWN))
            *PUSH(order, n) = i;
    if (n)
        qsort_r(order, n, sizeof *order, by_tokens, s);
    size_t used = points_for_laws(s, order, n);
    if (used) {
        s->predicted_rank = rank_of_most(s, order, used);
        s->unpredicted = forecast(s, order, used) ? "the recordings give no laws" : NULL;
    }
    free(order);
}

/* ---- all of it ---- */

static int run_all(struct sweep *s, const struct options *o, char *const *command)
{
    int status = 0;
    bool any = false;
    for (size_t i = 0; i < s->n && !status; i++)
        if (!s->points[i].done || again(o, s->points[i].outcome)) {
            any = true;
            status = run_point(s, i, o, command);
        }
    if (!any && !o->quiet)
        printf("nothing was run: every point is done (--again runs those that ended so)\n");
    return status;
}

static bool is_whole(const struct sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->points[i].done || s->points[i].n < (size_t)s->points[i].expected)
            return false;
    return true;
}

static int sweep(struct sweep *s, const struct options *o, char **command)
{
    char *database = xformat("%s/sweep.db", o->output);
    int status = check_command(&s->grid, command);
    if (!status)
        status = database_check(database);
    if (!status)
        status = check_folder(o->output, command);
    if (status) {
        free(database);
        return status;
    }
    list_points(s, o->output);
    int ran = run_all(s, o, command);
    predict(s);
    if (!o->quiet)
        puts("");
    show_table(s);
    char *csv = o->csv ? xstrdup(o->csv) : xformat("%s/sweep.csv", o->output);
    status = show_csv(s, csv);
    free(csv);
    if (!status)
        status = database_write(s, database);
    if (!status && o->plot)
        status = show_picture(s, o->plot);
    free(database);
    if (ran == 1)
        return complain("sweep: interrupted: the same command goes on where it was");
    return ran ? ran : status ? status : is_whole(s) ? EXIT_GOOD : EXIT_INCOMPLETE;
}

int cmd_sweep(int argc, char **argv)
{
    struct options o = {.timeout = INT64_C(3600) * 1000000000};
    struct sweep s = {.n = 0};
    char **command;
    int n = args_parse(&help, argc, argv, &o, &command);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    int status =
        !o.output ? complain("sweep: where to? vramscope sweep -o DIR --grid batch=1,2,4 -- COMMAND") : 0;
    if (!status)
        status = grid_read(&s.grid, &o.grid);
    if (!status && n == 0)
        status = complain("sweep: which command? vramscope sweep -o DIR --grid batch=1,2 -- python train.py "
                          "--batch={batch}");
    if (!status)
        status = check_again(o.again);
    command[n] = NULL;
    if (!status)
        status = sweep(&s, &o, command);
    for (size_t i = 0; i < s.n; i++)
        point_free(&s.points[i]);
    free(s.points);
    grid_free(&s.grid);
    free(o.grid.values);
    return status;
}
