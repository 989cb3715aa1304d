/*
 * fit.c - `vramscope fit`: will a program fit a GPU that is not here?  It runs as it is, on a driver and
 * libraries that keep books and compute nothing; where it read values that only a GPU computes, once more
 * under other assumptions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reply.h"
#include "base/args.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "attempt.h"
#include "largest.h"
#include "run/outputs.h"
#include "run/start.h"
#include "base/destination.h"

#ifdef VRAMSCOPE_ARENA
enum { HAS_ARENA = 1 };
#else
enum { HAS_ARENA = 0 };
#endif

struct options {
    struct dry_options dry;
    const char *output, *keep_writes;
    struct arg_list max;
    int64_t jobs;
    bool force, json;
};

static const struct option_row rows[] = {
    DRY_OPTIONS,
    {"output", 'o', "FILE", ARG_TEXT, AT(output),
     "keep the recording, for report and the others; with --max a directory, of all that was run"},
    {"force", 'f', NULL, ARG_FLAG, AT(force), "replace a recording that is there"},
    {"keep-writes", 0, "DIR", ARG_TEXT, AT(keep_writes), "keep copies of what the program writes below DIR"},
    {"max", 0, "NAME=VALUES", ARG_LIST, AT(max),
     "the largest of 1..256 or 8,16,32 in the place of {NAME} that fits; a second time: for each of its "
     "values"},
    {"jobs", 'j', "N", ARG_COUNT, AT(jobs), "with --max, runs at a time (default: one a core)"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-fit(1)"},
    {0}};

/* ---- what is asked ---- */

static bool is_number(const char *text, double least, double most)
{
    char *end;
    double x = text && *text ? strtod(text, &end) : -1;
    return text && *text && !*end && x >= least && x <= most;
}

static bool is_count(const char *text)
{
    return *text && !text[strspn(text, "0123456789")] && strlen(text) < 10;
}

static int check_values(const struct options *o)
{
    const struct dry_options *d = &o->dry;
    if (d->steps && strcmp(d->steps, "all") != 0 && (!is_count(d->steps) || atoi(d->steps) < 1))
        return complain("fit: --steps takes a number of steps or all, not '%s'", shown(d->steps));
    if (d->skew && !is_number(d->skew, 1, 1e6))
        return complain("fit: --skew takes a number from 1 on, not '%s'", shown(d->skew));
    if (d->keep && !is_number(d->keep, 0, 1))
        return complain("fit: --keep takes a number from 0 to 1, not '%s'", shown(d->keep));
    if (d->overflow && !is_count(d->overflow))
        return complain("fit: --overflow takes a number of steps, not '%s'", shown(d->overflow));
    if (!HAS_ARENA && d->allocator && !strcmp(d->allocator, "arena"))
        return complain("fit: --allocator=arena: the arena is not in this build of vramscope");
    if (d->expandable && d->allocator)
        return complain("fit: --expandable and --allocator exclude each other");
    if (o->keep_writes && mkdir(o->keep_writes, 0777) && errno != EEXIST)
        return complain("fit: %s can't be made: %s: give another --keep-writes", shown(o->keep_writes),
                        strerror(errno));
    if (o->keep_writes && access(o->keep_writes, W_OK | X_OK))
        return complain("fit: --keep-writes %s can't be used: %s: give another", shown(o->keep_writes),
                        strerror(errno));
    return 0;
}

static int find_card(struct attempt_setup *s, const struct options *o)
{
    s->card = card_find(o->dry.gpu ? o->dry.gpu : "H200");
    s->capacity = UNKNOWN;
    if (!s->card) {
        char *keys = card_keys();
        complain("fit: --gpu=%s is none that is known: there are %s; of others, the nearest of these and "
                 "--capacity",
                 shown(o->dry.gpu), keys);
        free(keys);
        return EXIT_USAGE;
    }
    if (o->dry.capacity && (!units_read_bytes(o->dry.capacity, &s->capacity) || s->capacity <= 0))
        return complain("fit: --capacity takes a size, as 24GiB, not '%s'", shown(o->dry.capacity));
    return 0;
}

static int setup_of(struct attempt_setup *s, const struct options *o, char **command)
{
    *s = (struct attempt_setup){.command = command,
                                .steps = o->dry.steps ? o->dry.steps : "3",
                                .skew = o->dry.skew,
                                .keep = o->dry.keep,
                                .overflow = o->dry.overflow,
                                .keep_writes = o->keep_writes};
    s->whole = !strcmp(s->steps, "all") && !o->json;
    return check_values(o) || find_card(s, o) ||
                   ranks_read(&s->ranks, o->dry.ranks, o->dry.rank, o->dry.local_ranks) || attempt_check()
               ? EXIT_USAGE
               : 0;
}

static enum attempt_allocator allocator_of(const struct dry_options *d)
{
    return d->expandable                    ? ALLOCATOR_EXPANDABLE
           : !d->allocator                  ? ALLOCATOR_OWN
           : !strcmp(d->allocator, "arena") ? ALLOCATOR_ARENA
                                            : ALLOCATOR_NATIVE;
}

/* ---- the answer ---- */

/* "fit.db" and "-3" are "fit-3.db". */
static char *inserted(const char *output, const char *more)
{
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    int stem = dot ? (int)(dot - output) : (int)strlen(output);
    return xformat("%.*s%s%s", stem, output, more, output + stem);
}

static int check_free(const char *path, bool force)
{
    struct stat st;
    return force || lstat(path, &st) ? 0
                                     : complain("fit: %s exists and is never overwritten without --force: "
                                                "give another -o",
                                                path);
}

/* The recordings of ranks, before anything runs. */
static int check_all_free(const struct attempt_setup *s, const struct options *o, const char *output)
{
    int bad = s->ranks.n ? 0 : check_free(output, o->force);
    for (size_t k = 0; !bad && k < s->ranks.n; k++) {
        char *rank = xformat("-%d", s->ranks.run[k]), *path = inserted(output, rank);
        bad = check_free(path, o->force);
        free(rank);
        free(path);
    }
    return bad;
}

/* The recordings to where the user wants them; those of further processes keep what their names have more. */
static int deliver(struct reply *a, const struct options *o, const char *output)
{
    int bad = 0;
    for (size_t i = 0; !bad && i < a->runs[0].n; i++) {
        const char *name = strrchr(a->runs[0].files[i], '/') + 1;
        char *part = xformat("%.*s", (int)(strlen(name) - 6), name + 3), *more = inserted(output, part);
        bad = check_free(more, o->force);
        if (!bad && rename(a->runs[0].files[i], more))
            bad = destination_failed("fit", more, errno);
        free(part);
        free(a->runs[0].files[i]);
        a->runs[0].files[i] = more;
        if (!a->path)
            a->path = xstrdup(more);
    }
    return bad;
}

static void print_answer(const struct reply *a, bool json, bool to_errors)
{
    if (json) {
        reply_json(a, stdout);
        return;
    }
    if (to_errors)
        dup2(STDERR_FILENO, STDOUT_FILENO); /* what the program printed is all that is there */
    wrap_page_begin(false);
    reply_text(a, stdout);
    wrap_page_end();
}

static int answer(const struct attempt_setup *s, const struct options *o, const char *output,
                  const char *folder)
{
    struct reply a = {0};
    int bad = o->output ? check_all_free(s, o, output) : 0;
    if (!bad)
        bad = reply_find(&a, s, allocator_of(&o->dry), folder);
    if (!bad && a.runs[0].error)
        bad = start_failed("fit", s->command[0], a.runs[0].error);
    if (!bad && o->output)
        bad = deliver(&a, o, output);
    if (!bad)
        print_answer(&a, o->json, s->whole);
    int status = bad ? EXIT_USAGE : reply_status(&a);
    reply_free(&a);
    return status;
}

static int find_largest(const struct attempt_setup *s, const struct options *o)
{
    if (o->keep_writes || o->force)
        return complain("fit: --max goes with neither --keep-writes nor --force");
    return largest_find(s, &(struct largest_options){&o->max, &o->dry, o->output, o->jobs, o->json});
}

static int answer_to(struct options *o, char **command)
{
    struct attempt_setup s;
    int status = setup_of(&s, o, command);
    if (o->max.count)
        return status ? status : find_largest(&s, o);
    struct output output = output_of(o->output ? o->output : "fit.db");
    output.shared = output.shared || s.ranks.n; /* nothing is written by that name itself */
    if (!status && o->output)
        status = output_check(&output, o->force, "fit");
    if (!status) {
        struct folder folder;
        status = folder_make(&folder, o->output ? output.path : NULL);
        if (!status) {
            s.contained = contain_possible(folder.path);
            status = answer(&s, o, output.path, folder.path);
        }
        folder_remove(&folder);
    }
    free(output.path);
    return status;
}

static int call(void *options, char **command, int n)
{
    struct options *o = options;
    if (n == 0)
        return complain("fit: which command? vramscope fit --gpu=A100-40GB -- python train.py");
    if (!model_is(command[0]))
        return answer_to(o, command);
    char **trainer = model_command(&command_fit, command, n, o, &o->dry.ranks);
    int status = trainer ? answer_to(o, trainer) : EXIT_USAGE;
    free(trainer);
    return status;
}

const struct command command_fit = {
    "fit",
    "will it fit? a dry run without a GPU, on whichever card",
    "[options] [--] COMMAND [ARGUMENT...]|CONFIG.json [--batch=N --seq=N ...]",
    "Says whether COMMAND, a training in PyTorch, fits a GPU, and what it holds at its peak, to the "
    "byte: without a GPU. COMMAND runs as it is, for three steps, on a driver and libraries that compute "
    "nothing. What it writes is thrown away. Of a Hugging Face config.json the model is "
    "made by transformers and trained on made-up data: --batch, --seq, --dtype, --optimizer, "
    "--checkpoint, --lora, --qlora, --fsdp, --zero=3:8 and others, see vramscope fit config.json --help.\n"
    "Exit status: 0 it fits, 1 it does not, 2 usage, or COMMAND failed by itself, 3 nobody can tell.",
    rows,
    call,
    COMMAND_OPTIONS(),
    .stop_at_operand = true};
