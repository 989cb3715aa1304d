/*
 * run.c - `vramscope run`: starts a program with the shim preloaded, and ends with its exit status, or by the
 * same signal, so that shells and launchers see no difference.
 *
 *      check everything that can be wrong  -->  environment  -->  fork, exec  -->  forward signals, wait
 *      -->  merge journals of killed processes, names of call stacks  -->  one summary line  -->  same status
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/args.h"
#include "base/shown.h"
#include "core/options.h"
#include "read/park.h"
#include "start.h"
#include "outputs.h"
#include "place.h"

struct options {
    const char *output, *stacks, *stack_depth, *sample_ms, *phases, *max_bytes, *journal_dir, *ring_events,
        *allocator, *limit, *park, *from, *spill;
    struct arg_list labels;
    bool access, no_auto_phases, no_nvtx, no_injection, simulated, quiet, verbose, off, force;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output),
     "database to write (default $VRAMSCOPE_OUTPUT, else vramscope-<host>-<pid>.db); never overwritten, but "
     "with --force; "
     "its directory is made; DIR/ is a name of its own in DIR"},
    {"force", 'f', NULL, ARG_FLAG, AT(force), "replace a recording that is there"},
    {"label", 'l', "NAME=VALUE", ARG_LIST, AT(labels),
     "what the run is called by, e.g. batch=4; several times; reports, diff and whatif read it"},
    {"stacks", 0, "off|driver|python|all", ARG_WORD, AT(stacks), "which call stacks (default python)"},
    {"stack-depth", 0, "N", ARG_TEXT, AT(stack_depth), "frames kept of a call stack"},
    {"sample-ms", 0, "MS", ARG_TEXT, AT(sample_ms),
     "time between samples of the driver's own figures; 0 = none"},
    {"phases", 0, "RULES", ARG_TEXT, AT(phases),
     "went to report, peak, plot, diff and check, which take it of any recording"},
    {"max-bytes", 0, "SIZE", ARG_TEXT, AT(max_bytes), "size that the database stays under, e.g. 4GiB"},
    {"journal-dir", 0, "DIR", ARG_TEXT, AT(journal_dir),
     "where the journal lies (default /dev/shm when that has room)"},
    {"ring-events", 0, "N", ARG_TEXT, AT(ring_events), "events that the journal holds, a power of two"},
    {"allocator", 0, "off|arena", ARG_WORD, AT(allocator),
     "what serves COMMAND's device memory: off (the driver), or arena, vramscope's own allocator"},
    {"limit", 0, "SIZE", ARG_TEXT, AT(limit),
     "COMMAND's processes get no more than SIZE each of any device; 0:20GiB,1:30GiB by device"},
    {"park", 0, "optimizer-state", ARG_WORD, AT(park),
     "what pays of these lies on the host outside of the optimizer; implies the arena and --access"},
    {"from", 0, "FILE", ARG_TEXT, AT(from),
     "with --park: a recording of COMMAND made with --access, so that nothing has to be measured first"},
    {"spill", 0, "[SIZE]", ARG_TEXT, AT(spill),
     "where the device is full, what is idle lies on the host (SIZE of it at most), instead of running out "
     "of "
     "memory; implies the arena and --access"},
    {"access", 0, NULL, ARG_FLAG, AT(access),
     "follow when the device is given each block, by kernels, copies and graphs"},
    {"no-auto-phases", 0, NULL, ARG_FLAG, AT(no_auto_phases), "don't tell PyTorch's phases automatically"},
    {"no-nvtx", 0, NULL, ARG_FLAG, AT(no_nvtx), "don't become the NVTX injection library"},
    {"no-injection", 0, NULL, ARG_FLAG, AT(no_injection),
     "don't use CUDA's injection to report processes that lost the library"},
    {"start-off", 0, NULL, ARG_FLAG, AT(off),
     "record nothing until the program calls vramscope_record_start()"},
    {"simulated", 0, NULL, ARG_FLAG, AT(simulated), "use the simulated CUDA driver: no GPU needed"},
    {"quiet", 'q', NULL, ARG_FLAG, AT(quiet), "no summary line at the end"},
    {"verbose", 'v', NULL, ARG_FLAG, AT(verbose), "let the shim say what it finds"},
    {0}};

/* ---- checks before the start ---- */

static bool build_has_arena(void)
{
#ifdef VRAMSCOPE_ARENA
    return true;
#else
    return false;
#endif
}

/* Checks for requests in the environment that this build cannot fulfil; the shim would report them too, but
 * for each process. */
static void do_without_arena(void)
{
    const char *asked = getenv("VRAMSCOPE_ALLOCATOR");
    if (build_has_arena() || !asked || strcmp(asked, "arena") != 0)
        return;
    complain("run: VRAMSCOPE_ALLOCATOR=arena: the arena is not in this build of vramscope; the driver's own "
             "allocator serves");
    setenv("VRAMSCOPE_ALLOCATOR", "off", 1);
}

/* "batch=4,seq=1024", as VRAMSCOPE_LABELS has them: the first N; the caller frees it. */
static char *labels_join(const struct arg_list *list, size_t n)
{
    char *text = xstrdup("");
    for (size_t i = 0; i < n; i++)
        xappend(&text, "%s%s", i ? "," : "", list->values[i]);
    return text;
}

/* 0, or 2, said, where one of them is no label or a name comes twice. */
static int labels_check(const struct arg_list *list)
{
    for (size_t i = 0; i < list->count; i++) { /* the first that makes the list wrong */
        size_t at;
        char *text = labels_join(list, i + 1);
        const char *wrong = strchr(list->values[i], ',') ? "a label has no comma: give each its own --label"
                            : !*list->values[i]          ? "a label is NAME=VALUE"
                                                         : vs_labels_wrong(text, &at);
        free(text);
        if (wrong)
            return complain("run: --label '%s': %s", shown(list->values[i]), wrong);
    }
    return 0;
}

/* Likewise of a limit, which a variable may have set. */
static int limit_check(const char *given)
{
    uint64_t bytes[VS_LIMITED_DEVICES];
    const char *limit = given ? given : getenv("VRAMSCOPE_LIMIT");
    const char *wrong = limit && (given || *limit)
                            ? *limit ? vs_device_limits(limit, bytes) : "a limit is a size such as 20GiB"
                            : NULL;
    if (!wrong)
        return 0;
    return complain("run: %s '%s': %s", given ? "--limit" : "VRAMSCOPE_LIMIT", shown(limit), wrong);
}

/* Likewise of what moves memory to the host. */
static int moves_check(const struct options *o)
{
    uint64_t bytes;
    const char *name = o->spill ? "spill" : "park";
    bool arena = o->allocator && !strcmp(o->allocator, "arena");
    if (!build_has_arena() && (o->park || o->spill || arena))
        return complain("run: --%s: the arena is not in this build of vramscope",
                        o->park || o->spill ? name : "allocator=arena");
    if ((o->park || o->spill) && o->allocator && !arena)
        return complain("run: --%s needs the arena: leave out --allocator=%s", name, shown(o->allocator));
    if (o->park && o->spill)
        return complain("run: --spill and --park exclude each other: --spill finds by itself what is idle");
    if (o->spill && strcmp(o->spill, "on") != 0 && (!vs_option_bytes(o->spill, &bytes) || bytes == 0))
        return complain("run: --spill takes a size such as 64GiB, or none, not '%s'", shown(o->spill));
    return 0;
}

/* Refuses values that the shim would only warn about and ignore. */
static int check_values(const struct options *o)
{
    const struct {
        const char *option, *name, *value, *takes;
    } numbers[] = {
        {"stack-depth", "VRAMSCOPE_STACK_DEPTH", o->stack_depth, "a whole number from 1 to 256"},
        {"sample-ms", "VRAMSCOPE_SAMPLE_MS", o->sample_ms, "a whole number such as 100"},
        {"ring-events", "VRAMSCOPE_RING_EVENTS", o->ring_events, "a power of two from 1024 to 16777216"},
        {"max-bytes", "VRAMSCOPE_MAX_BYTES", o->max_bytes, "a size such as 4GiB"}};
    if (labels_check(&o->labels) || limit_check(o->limit) || moves_check(o))
        return EXIT_USAGE;
    if (o->phases)
        return complain(
            "run: --phases is given to what reads the recording: vramscope report --phases='%s' run.db",
            o->phases);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value && !vs_option_takes(numbers[i].name, numbers[i].value))
            return complain("run: --%s takes %s, not '%s'", numbers[i].option, numbers[i].takes,
                            numbers[i].value);
    if (o->journal_dir && access(o->journal_dir, W_OK | X_OK))
        return complain("run: --journal-dir %s can't be used: %s: name another, or none", o->journal_dir,
                        strerror(errno));
    return 0;
}

/* ---- environment ---- */

static void set_given(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
}

static int set_simulated(void)
{
    char *directory = place_stand_ins("sim");
    if (!directory)
        return complain("run: --simulated: this vramscope was built without the simulated driver: vramscope "
                        "demo needs none");
    environment_prepend("LD_LIBRARY_PATH", directory);
    setenv("VRAMSCOPE_SIMULATED", "1", 1); /* PyTorch's hook says that it can't use it */
    free(directory);
    return 0;
}

static int set_environment(const struct options *o, const char *output, const char *library)
{
    set_given("VRAMSCOPE_ALLOCATOR", o->park || o->spill ? "arena" : o->allocator);
    set_given("VRAMSCOPE_PARK", o->park);
    set_given("VRAMSCOPE_SPILL", o->spill);
    do_without_arena();
    struct environment e = {library, !o->no_nvtx, !o->no_injection,
                            environment_wants_python(o->no_auto_phases), NULL};
    if (environment_preload("run", &e))
        return EXIT_USAGE;
    /* the shim expands %h, %p and %r */
    setenv("VRAMSCOPE_OUTPUT", output, 1);
    setenv("VRAMSCOPE_CLAIM", "1", 1);
    set_given("VRAMSCOPE_STACKS", o->stacks);
    set_given("VRAMSCOPE_STACK_DEPTH", o->stack_depth);
    set_given("VRAMSCOPE_SAMPLE_MS", o->sample_ms);
    char *labels = labels_join(&o->labels, o->labels.count);
    set_given("VRAMSCOPE_LABELS", *labels ? labels : NULL);
    free(labels);
    set_given("VRAMSCOPE_LIMIT", o->limit);
    set_given("VRAMSCOPE_MAX_BYTES", o->max_bytes);
    set_given("VRAMSCOPE_JOURNAL_DIR", o->journal_dir);
    set_given("VRAMSCOPE_RING_EVENTS", o->ring_events);
    set_given("VRAMSCOPE_ACCESS", o->access || o->park || o->spill ? "on" : NULL);
    set_given("VRAMSCOPE_VERBOSE", o->verbose ? "on" : NULL);
    set_given("VRAMSCOPE_ENABLED", o->off ? "off" : NULL);
    return o->simulated ? set_simulated() : 0;
}

/* What the recording of --from knows; 0 or 2. */
static int set_plan(const struct options *o)
{
    struct trace t;
    if (!o->from)
        return 0;
    if (!o->park)
        return complain("run: --from=%s is read for --park=optimizer-state: name that, too", shown(o->from));
    if (trace_open(&t, o->from))
        return complain("run: --from: %s", t.why);
    char *plan = trace_park_plan(&t);
    trace_close(&t);
    if (!plan)
        return complain(
            "run: --from=%s knows no optimizer states of 2 MiB or more that the optimizer alone uses: "
            "record two steps or more with --access",
            shown(o->from));
    setenv("VRAMSCOPE_PARK_FROM", plan, 1);
    free(plan);
    return 0;
}

/* All checks before the command is started; 0 or 2. */
static int prepare(const struct options *o, const struct output *output)
{
    char why[512];
    if (output_check(output, o->force, "run") || check_values(o) || set_plan(o))
        return EXIT_USAGE;
    char *library = place_library(why, sizeof why);
    int status = library ? set_environment(o, output->path, library) : complain("run: %s", why);
    free(library);
    return status;
}

static int conduct(char **command, const struct output *output, const struct options *o)
{
    int error;
    time_t since = time(NULL) - 1; /* file systems' clocks may be coarse */
    pid_t pid = start_command(command, &(struct start_child){0}, &error);
    if (pid < 0)
        return complain("run: no process can be started: %s", strerror(error));
    int status = start_wait(pid);
    if (error)
        return start_failed("run", command[0], error);
    if (!output->shared)
        run_finish_outputs(output->path, since, &(struct run_end){command, pid, status}, o->quiet);
    return start_end_as(status);
}

static int call(void *options, char **command, int n)
{
    struct options *o = options;
    if (n == 0)
        return complain("run: which command? vramscope run -o run.db -- python train.py");
    struct output output = output_of(o->output);
    int status = prepare(o, &output);
    if (!status)
        status = conduct(command, &output, o);
    free(output.path);
    return status;
}

const struct command command_run = {
    "run",
    "run a program and record its GPU memory",
    "[options] [--] COMMAND [ARGUMENT...]",
    "Runs COMMAND and records its GPU memory, its phases and its call stacks into a database. COMMAND is "
    "not changed:\n"
    "same output, same results, same exit status; signals reach it. The first process that uses the GPU "
    "writes FILE, others write FILE with their rank and pid inserted.",
    rows,
    call,
    COMMAND_OPTIONS(),
    .stop_at_operand = true};
