/*
 * run.c - `vramscope run`: starts a program with the shim preloaded, and ends with its exit status.
 *
 *      check everything that can be wrong  -->  environment  -->  fork, exec  -->  forward signals, wait
 *      -->  merge journals of killed processes, names of call stacks  -->  one summary line  -->  same status
 *
 * Signals.  The terminal sends Ctrl-C to the whole foreground group, program included: such a signal
 * (SI_KERNEL) is not forwarded a second time.  A signal that was sent to us alone is forwarded.  If a signal
 * kills the program we die of the same signal, so that shells and launchers see the same status.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/args.h"
#include "base/commands.h"
#include "environment.h"
#include "labels.h"
#include "place.h"
#include "outputs.h"
#include "read/guard.h"
#include "read/trace.h"

struct options {
    const char *output, *stacks, *stack_depth, *sample_ms, *phases, *max_bytes, *journal_dir, *ring_events,
        *allocator;
    struct arg_list labels;
    bool access, no_auto_phases, no_nvtx, no_injection, simulated, quiet, verbose, off, force;
};

#define ENV_ROW(name, value, field, help)                                                                    \
    {                                                                                                        \
        name, 0, value, ARG_TEXT, offsetof(struct options, field), help                                      \
    }

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, offsetof(struct options, output),
     "database to write (default $VRAMSCOPE_OUTPUT, else vramscope-<host>-<pid>.db); never overwritten, but "
     "with --force; "
     "its directory is made; DIR/ is a name of its own in DIR"},
    {"force", 'f', NULL, ARG_FLAG, offsetof(struct options, force), "replace a recording that is there"},
    {"label", 'l', "NAME=VALUE", ARG_LIST, offsetof(struct options, labels),
     "what the run is called by, e.g. batch=4; several times; reports, diff and whatif read it"},
    ENV_ROW("stacks", "WHICH", stacks, "call stacks: off, driver, python or all (default python)"),
    ENV_ROW("stack-depth", "N", stack_depth, "frames kept of a call stack"),
    ENV_ROW("sample-ms", "MS", sample_ms, "time between samples of the driver's own figures; 0 = none"),
    ENV_ROW("phases", "RULES", phases, "which NVTX ranges name phases: name=pattern[,name=pattern...]"),
    ENV_ROW("max-bytes", "SIZE", max_bytes, "size that the database stays under, e.g. 4GiB"),
    ENV_ROW("journal-dir", "DIR", journal_dir,
            "where the journal lies (default /dev/shm when that has room)"),
    ENV_ROW("ring-events", "N", ring_events, "events that the journal holds, a power of two"),
    ENV_ROW("allocator", "WHICH", allocator,
            "what serves COMMAND's device memory: off (the driver), or arena, vramscope's own allocator"),
    {"access", 0, NULL, ARG_FLAG, offsetof(struct options, access),
     "follow when the device is given each block, by kernels, copies and graphs"},
    {"no-auto-phases", 0, NULL, ARG_FLAG, offsetof(struct options, no_auto_phases),
     "don't tell PyTorch's phases automatically"},
    {"no-nvtx", 0, NULL, ARG_FLAG, offsetof(struct options, no_nvtx),
     "don't become the NVTX injection library"},
    {"no-injection", 0, NULL, ARG_FLAG, offsetof(struct options, no_injection),
     "don't have the driver tell of processes that lost the library"},
    {"start-off", 0, NULL, ARG_FLAG, offsetof(struct options, off),
     "record nothing until the program calls vramscope_record_start()"},
    {"simulated", 0, NULL, ARG_FLAG, offsetof(struct options, simulated),
     "use the simulated CUDA driver: no GPU needed"},
    {"quiet", 'q', NULL, ARG_FLAG, offsetof(struct options, quiet), "no summary line at the end"},
    {"verbose", 'v', NULL, ARG_FLAG, offsetof(struct options, verbose), "let the shim say what it finds"},
    {0}};

static const struct command_help help = {"run", "[options] [--] COMMAND [ARGUMENT...]",
                                         "Runs COMMAND and records its GPU memory, its phases and its call "
                                         "stacks into a database. COMMAND is not changed:\n"
                                         "same output, same results, same exit status; signals reach it. The "
                                         "first process that uses the GPU writes FILE,\n"
                                         "others write FILE with their rank and pid inserted.",
                                         rows, true};

/* ---- checks before the start ---- */

static char *default_output(void)
{
    char host[256] = "host";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, "/")] = 0;
    return xformat("vramscope-%s-%d.db", host, (int)getpid());
}

struct output {
    char *path;  /* absolute */
    bool shared; /* it was set by an outer `vramscope run` */
};

static char *absolute(const char *path)
{
    char cwd[PATH_MAX];
    if (*path == '/' || !getcwd(cwd, sizeof cwd))
        return xstrdup(path);
    return xformat("%s/%s", cwd, path);
}

/* The output: from -o, else from the variable.  An outer run has set the variable, and CLAIM with it, for
 * all processes of its job: our files get names beside its own, and it prints the summary. */
static struct output output_of(const char *option)
{
    const char *variable = getenv("VRAMSCOPE_OUTPUT"), *claim = getenv("VRAMSCOPE_CLAIM");
    bool said = !option && variable && *variable;
    char *given = option ? xstrdup(option) : said ? xstrdup(variable) : default_output();
    if (given[strlen(given) - 1] == '/') {
        char *own = default_output(), *inside = xformat("%s%s", given, own);
        free(own);
        free(given);
        given = inside;
    }
    struct output out = {absolute(given), said && claim && !strcmp(claim, "1")};
    free(given);
    return out;
}

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

/* DIRECTORY and what it lies in; whatever goes wrong is said where it is used. */
static void make_directories(const char *directory)
{
    char *path = xstrdup(directory);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    mkdir(path, 0777);
    free(path);
}

/* Removes the recording PATH; 0, or 2, said, where it is none, or one that is still being written. */
static int replace(const char *path)
{
    struct trace t;
    if (trace_open(&t, path))
        return complain("run: --force replaces recordings alone, and this is none: %s", t.why);
    bool running = t.end == TRACE_END_RUNNING;
    trace_close(&t);
    guard_memory_end(); /* the program that is started inherits our limits */
    if (running)
        return complain("run: %s is still being written: --force replaces what is complete", path);
    static const char *const parts[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *name = xformat("%s%s", path, parts[i]);
        int result = unlink(name);
        free(name);
        if (result && i == 0)
            return complain("run: %s can't be removed: %s", path, strerror(errno));
    }
    return 0;
}

/* 0, or 2 with the reason said. */
static int check_output(const struct output *o, bool force)
{
    const char *path = o->path;
    char *copy = xstrdup(path);
    const char *directory = dirname(copy);
    struct stat st;
    int status = 0;
    if (!strchr(directory, '%')) /* what the recorded processes put there nobody knows yet */
        make_directories(directory);
    bool exists = !o->shared && lstat(path, &st) == 0;
    if (exists && !force)
        status = complain("run: %s exists and is never overwritten without --force: give another -o", path);
    else if (exists && replace(path))
        status = EXIT_USAGE;
    else if (stat(directory, &st))
        status = complain("run: the directory of %s can't be used: %s", path, strerror(errno));
    else if (!S_ISDIR(st.st_mode) || access(directory, W_OK | X_OK))
        status = complain("run: the directory %s is not writable: give another -o", directory);
    free(copy);
    return status;
}

static bool is_one_of(const char *value, const char *const *list)
{
    while (*list && strcmp(value, *list))
        list++;
    return *list;
}

/* Refuses values that the shim would only warn about and ignore. */
static int check_values(const struct options *o)
{
    static const char *const stacks[] = {"off", "driver", "python", "all", NULL};
    static const char *const allocators[] = {"off", "arena", NULL};
    const char *const numbers[][2] = {
        {"stack-depth", o->stack_depth}, {"sample-ms", o->sample_ms}, {"ring-events", o->ring_events}};
    if (labels_check(&o->labels))
        return EXIT_USAGE;
    if (o->allocator && !is_one_of(o->allocator, allocators))
        return complain("run: --allocator takes off or arena, not '%s'", o->allocator);
    if (!build_has_arena() && o->allocator && !strcmp(o->allocator, "arena"))
        return complain("run: --allocator=arena: the arena is not in this build of vramscope");
    if (o->stacks && !is_one_of(o->stacks, stacks))
        return complain("run: --stacks takes off, driver, python or all, not '%s'", o->stacks);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i][1] && (!*numbers[i][1] || numbers[i][1][strspn(numbers[i][1], "0123456789")]))
            return complain("run: --%s takes a whole number, not '%s'", numbers[i][0], numbers[i][1]);
    if (o->journal_dir && access(o->journal_dir, W_OK | X_OK))
        return complain("run: --journal-dir %s can't be used: %s", o->journal_dir, strerror(errno));
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
        return complain("run: --simulated: this vramscope was built without the simulated driver");
    environment_prepend("LD_LIBRARY_PATH", directory);
    setenv("VRAMSCOPE_SIMULATED", "1", 1); /* PyTorch's hook says that it can't use it */
    free(directory);
    return 0;
}

static int set_environment(const struct options *o, const char *output, const char *library)
{
    set_given("VRAMSCOPE_ALLOCATOR", o->allocator);
    do_without_arena();
    struct environment e = {library, !o->no_nvtx, !o->no_injection,
                            environment_wants_python(o->no_auto_phases)};
    if (environment_preload("run", &e))
        return EXIT_USAGE;
    /* the shim expands %h, %p and %r */
    setenv("VRAMSCOPE_OUTPUT", output, 1);
    setenv("VRAMSCOPE_CLAIM", "1", 1);
    set_given("VRAMSCOPE_STACKS", o->stacks);
    set_given("VRAMSCOPE_STACK_DEPTH", o->stack_depth);
    set_given("VRAMSCOPE_SAMPLE_MS", o->sample_ms);
    set_given("VRAMSCOPE_PHASES", o->phases);
    char *labels = labels_join(&o->labels, o->labels.count);
    set_given("VRAMSCOPE_LABELS", *labels ? labels : NULL);
    free(labels);
    set_given("VRAMSCOPE_MAX_BYTES", o->max_bytes);
    set_given("VRAMSCOPE_JOURNAL_DIR", o->journal_dir);
    set_given("VRAMSCOPE_RING_EVENTS", o->ring_events);
    set_given("VRAMSCOPE_ACCESS", o->access ? "on" : NULL);
    set_given("VRAMSCOPE_VERBOSE", o->verbose ? "on" : NULL);
    set_given("VRAMSCOPE_ENABLED", o->off ? "off" : NULL);
    return o->simulated ? set_simulated() : 0;
}

/* ---- the child ---- */

static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded };

static volatile pid_t child; /* 0 until it is known */

static void forward(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    if (child > 0 && info->si_code != SI_KERNEL)
        kill(child, sig);
    if (sig == SIGTSTP) /* stop as well, so that the shell gets its prompt back */
        kill(getpid(), SIGSTOP);
    errno = saved;
}

struct dispositions {
    struct sigaction before[FORWARDED];
    sigset_t mask;
};

static void take_signals(struct dispositions *d)
{
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t block;
    sigemptyset(&action.sa_mask);
    sigemptyset(&block);
    for (int i = 0; i < FORWARDED; i++)
        sigaddset(&block, forwarded[i]);
    sigprocmask(SIG_BLOCK, &block, &d->mask); /* until the child's pid is known */
    for (int i = 0; i < FORWARDED; i++) {
        sigaction(forwarded[i], NULL, &d->before[i]);
        /* signals that nohup and & ignore stay ignored, here and in the child */
        if (d->before[i].sa_handler != SIG_IGN)
            sigaction(forwarded[i], &action, NULL);
    }
}

static _Noreturn void become(char **command, const struct dispositions *d, int report)
{
    for (int i = 0; i < FORWARDED; i++)
        sigaction(forwarded[i], &d->before[i], NULL);
    sigprocmask(SIG_SETMASK, &d->mask, NULL);
    execvp(command[0], command);
    int error = errno;
    if (write(report, &error, sizeof error) < 0) {
        /* ignored: the exit status reports the failure too */
    }
    _exit(error == ENOENT ? 127 : 126);
}

/* Starts COMMAND; its pid, or -1 with *ERROR. The pipe closes at a successful exec and carries errno
 * otherwise. */
static pid_t start(char **command, struct dispositions *d, int *error)
{
    int report[2];
    *error = 0;
    take_signals(d);
    pid_t pid = pipe2(report, O_CLOEXEC) ? -1 : fork();
    if (pid == 0)
        become(command, d, report[1]);
    if (pid < 0) {
        *error = errno;
        return -1;
    }
    child = pid;
    sigprocmask(SIG_SETMASK, &d->mask, NULL);
    close(report[1]);
    ssize_t n;
    do
        n = read(report[0], error, sizeof *error);
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n != sizeof *error)
        *error = 0;
    return pid;
}

/* Waits until the child has ended and returns its status as waitpid() gives it; 0 (success) if it is
 * unknown. */
static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    child = 0; /* the pid may be reused from now on */
    return status;
}

static int cannot_start(const char *command, int error)
{
    if (error == ENOENT && !strchr(command, '/'))
        complain("run: %s: command not found", command);
    else
        complain("run: %s can't be started: %s", command, strerror(error));
    return error == ENOENT ? 127 : 126;
}

/* Dies of the signal that killed the child; returns 128 + signal if that signal does not kill us. */
static int end_as(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    int sig = WTERMSIG(status);
    sigset_t one;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* only the child should leave a core file */
    fflush(NULL);
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
    return 128 + sig;
}

/* All checks before the command is started; 0 or 2. */
static int prepare(const struct options *o, const struct output *output)
{
    char why[512];
    if (check_output(output, o->force) || check_values(o))
        return EXIT_USAGE;
    char *library = place_library(why, sizeof why);
    int status = library ? set_environment(o, output->path, library) : complain("run: %s", why);
    free(library);
    return status;
}

static int conduct(char **command, const struct output *output, const struct options *o)
{
    struct dispositions d;
    int error;
    time_t since = time(NULL) - 1; /* file systems' clocks may be coarse */
    pid_t pid = start(command, &d, &error);
    if (pid < 0)
        return complain("run: no process can be started: %s", strerror(error));
    int status = wait_for(pid);
    if (error)
        return cannot_start(command[0], error);
    if (!output->shared)
        run_finish_outputs(output->path, since, pid, o->quiet);
    return end_as(status);
}

int cmd_run(int argc, char **argv)
{
    struct options o = {0};
    char **command;
    int n = args_parse(&help, argc, argv, &o, &command);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("run: which command? vramscope run -o run.db -- python train.py");
    struct output output = output_of(o.output);
    command[n] = NULL;
    int status = prepare(&o, &output);
    if (!status)
        status = conduct(command, &output, &o);
    free(output.path);
    free(o.labels.values);
    return status;
}
