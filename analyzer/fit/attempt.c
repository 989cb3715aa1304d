/* attempt.c - runs the program once, without a GPU (attempt.h). */
#include "attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/args.h"
#include "read/guard.h"
#include "run/start.h"
#include "run/outputs.h"
#include "run/place.h"
#include "contain.h"

#define LINES   12 /* of a program that failed */
#define LOOK_MS 50 /* between two looks whether the program has ended */

/* ---- GPUs ---- */

#define MIB INT64_C(1048576)

static const struct fit_card cards[] = {
#define CARD(key, synonyms, name, capability, multiprocessors, l2, bus, clock, memory_clock, pci, bytes,     \
             context, code, measured)                                                                        \
    {key, synonyms, name, bytes, (context)*MIB, (code)*MIB, measured},
#include <cards.def>
#undef CARD
};
#define CARDS (sizeof cards / sizeof *cards)

static bool is_listed(const char *list, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncasecmp(at, key, n))
            return true;
    return false;
}

const struct fit_card *card_find(const char *key)
{
    for (size_t i = 0; i < CARDS; i++)
        if (!strcasecmp(cards[i].key, key) || is_listed(cards[i].synonyms, key))
            return &cards[i];
    return NULL;
}

char *card_keys(void)
{
    char *text = xstrdup(cards[0].key);
    for (size_t i = 1; i < CARDS; i++) {
        xappend(&text, "%s%s", i + 1 < CARDS ? ", " : " and ", cards[i].key);
    }
    return text;
}

/* ---- names ---- */

const char *attempt_allocator_name(enum attempt_allocator a)
{
    static const char *const names[] = {"PyTorch's allocator, as the program sets it", "native", "expandable",
                                        "arena"};
    return names[a];
}

const char *attempt_assumption_name(enum assumption a)
{
    static const char *const names[ASSUMPTIONS] = {"first", "second", "third"};
    return names[a];
}

/* ---- what it stands on ---- */

static int by_name(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    bool runtime = !strncmp(x, "libcudart", 9), other = !strncmp(y, "libcudart", 9);
    return runtime != other ? other - runtime : strcmp(x, y);
}

/* The libraries of DIRECTORY, the runtime first. */
static char *libraries_in(const char *directory, char *list)
{
    char **names = NULL;
    size_t n = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "lib", 3) && strstr(e->d_name, ".so."))
            *PUSH(names, n) = xstrdup(e->d_name);
    if (d)
        closedir(d);
    if (n)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        xappend(&list, "%s%s/%s", *list ? ":" : "", directory, names[i]);
        free(names[i]);
    }
    free(names);
    return list;
}

/* The driver first, then what is built on it; before them, where there is no namespace to be had, what keeps
 * files apart. */
static char *stand_ins(bool contained)
{
    char *sim = place_stand_ins("sim"), *dry = place_stand_ins("dry");
    char *list = libraries_in(dry, libraries_in(sim, contained ? xstrdup("") : xformat("%s/writes.so", dry)));
    free(sim);
    free(dry);
    return list;
}

int attempt_check(void)
{
    char *sim = place_stand_ins("sim"), *dry = place_stand_ins("dry");
    bool there = sim && dry;
    free(sim);
    free(dry);
    return there ? 0
                 : complain("fit: this vramscope was built without what a dry run stands on: install "
                            "vramscope anew");
}

/* ---- what it is told ---- */

static void set_or_not(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void set_number(const char *name, int64_t value)
{
    char *text = xformat("%" PRId64, value);
    set_or_not(name, value == UNKNOWN ? NULL : text);
    free(text);
}

/* The settings that the user gave PyTorch's allocator, without expandable_segments, and with it as asked. */
static char *settings(const char *given, bool expandable)
{
    char *text = xstrdup("");
    char *copy = xstrdup(given ? given : ""), *at = copy, *one;
    while ((one = strsep(&at, ",")))
        if (*one && !strstr(one, "expandable_segments"))
            xappend(&text, "%s,", one);
    xappend(&text, "expandable_segments:%s", expandable ? "True" : "False");
    free(copy);
    return text;
}

static void set_allocator(enum attempt_allocator a)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}; /* new, old */
    static char *given;
    static bool known;
    for (size_t i = 0; !known && i < 2; i++)
        if (!given && getenv(names[i]))
            given = xstrdup(getenv(names[i]));
    known = true;
    if (a != ALLOCATOR_OWN)
        setenv("VRAMSCOPE_ALLOCATOR", a == ALLOCATOR_ARENA ? "arena" : "off", 1);
    if (a == ALLOCATOR_OWN || a == ALLOCATOR_ARENA) /* nothing is asked of PyTorch's own */
        return;
    char *text = settings(given, a == ALLOCATOR_EXPANDABLE);
    for (size_t i = 0; i < 2; i++)
        setenv(names[i], text, 1);
    free(text);
}

/* What the recording says of itself: which device, how far, what was assumed. */
static char *mark_of(const struct attempt *a, const struct attempt_setup *s)
{
    return xformat("gpu=%s,bytes=%" PRId64 ",steps=%s,values=%s%s%s%s%s%s%s", s->card->key,
                   s->capacity == UNKNOWN ? s->card->bytes : s->capacity, s->steps,
                   attempt_assumption_name(a->assumption), s->skew ? ",skew=" : "", s->skew ? s->skew : "",
                   s->keep ? ",keep=" : "", s->keep ? s->keep : "", s->overflow ? ",overflow=" : "",
                   s->overflow ? s->overflow : "");
}

/* Trackers send nothing; where a program asks for more the Python package stops it (_dry_writes.py). */
static void set_offline(void)
{
    static const char *const names[][2] = {{"WANDB_MODE", "offline"},
                                           {"NEPTUNE_MODE", "debug"},
                                           {"CLEARML_OFFLINE_MODE", "1"},
                                           {"MLFLOW_ALLOW_FILE_STORE", "true"},
                                           {"MLFLOW_DISABLE_TELEMETRY", "true"}};
    const char *given = getenv("WANDB_MODE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (i > 0 || !given || strcmp(given, "disabled") != 0)
            setenv(names[i][0], names[i][1], 1);
}

static char *output_in(const char *folder, const struct attempt_setup *s)
{
    return xformat("%s/run%s.db", folder, s->ranks.world ? "-%r" : "");
}

static void set_dry(const struct attempt *a, const struct attempt_setup *s, const char *folder)
{
    char *facts = xformat("%s/facts", folder), *output = output_in(folder, s), *mark = mark_of(a, s),
         *apart = xformat("%s/apart", folder);
    setenv("SIMCUDA_DRY", "1", 1);
    setenv("SIMCUDA_BANNER", "0", 1); /* the answer says it */
    setenv("SIMCUDA_GPU", s->card->key, 1);
    set_number("SIMCUDA_CAPACITY", s->capacity);
    setenv("VRAMSCOPE_DRY", "1", 1);
    setenv("VRAMSCOPE_DRY_SETUP", mark, 1);
    setenv("VRAMSCOPE_DRY_FACTS", facts, 1);
    setenv("VRAMSCOPE_DRY_STEPS", s->steps, 1);
    setenv("VRAMSCOPE_DRY_ASSUME", attempt_assumption_name(a->assumption), 1);
    set_or_not("VRAMSCOPE_DRY_WRITES", s->contained ? NULL : apart);
    set_or_not("VRAMSCOPE_DRY_SKEW", s->skew);
    set_or_not("VRAMSCOPE_DRY_KEEP", s->keep);
    set_or_not("VRAMSCOPE_DRY_OVERFLOW", s->overflow);
    setenv("VRAMSCOPE_OUTPUT", output, 1);
    setenv("VRAMSCOPE_CLAIM", "1", 1);
    set_offline();
    unsetenv("CUDA_VISIBLE_DEVICES"); /* of the machine's own devices, which are left alone */
    free(facts);
    free(output);
    free(mark);
    free(apart);
}

static int set_environment(const struct attempt *a, const struct attempt_setup *s, const char *folder)
{
    char why[512], *library = place_library(why, sizeof why);
    if (!library)
        return complain("fit: %s", why);
    set_allocator(a->allocator);
    set_dry(a, s, folder);
    char *behind = stand_ins(s->contained), *sim = place_stand_ins("sim"), *dry = place_stand_ins("dry");
    struct environment e = {library, true, true, environment_wants_python(false), behind};
    int status = environment_preload("fit", &e);
    environment_prepend("LD_LIBRARY_PATH", dry);
    environment_prepend("LD_LIBRARY_PATH", sim);
    free(behind);
    free(sim);
    free(dry);
    free(library);
    return status;
}

/* ---- what it says on its standard error: shown as it comes, or not, and its last lines kept ---- */

enum { TAIL_BYTES = 8192 };

struct tail {
    int ends[2]; /* of the pipe; the program has the second as its standard error */
    bool shown, running;
    atomic_bool over;
    pthread_t thread;
    char last[2 * TAIL_BYTES]; /* what was read, the old half thrown away when it is full */
    size_t n;
};

static void keep(struct tail *t, const char *text, size_t n)
{
    if (t->n + n > sizeof t->last) {
        size_t left = t->n < TAIL_BYTES ? t->n : TAIL_BYTES;
        memmove(t->last, t->last + t->n - left, left);
        t->n = left;
    }
    memcpy(t->last + t->n, text, n);
    t->n += n;
}

static void show(const char *text, size_t n)
{
    while (n) {
        ssize_t written = write(STDERR_FILENO, text, n);
        if (written < 0 && errno != EINTR)
            return; /* nobody reads it any more: the program goes on */
        text += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

/* Whether there was something. */
static bool take(struct tail *t)
{
    char part[TAIL_BYTES];
    ssize_t n = read(t->ends[0], part, sizeof part);
    if (n <= 0)
        return false;
    if (t->shown)
        show(part, (size_t)n);
    keep(t, part, (size_t)n);
    return true;
}

static void *read_all(void *context)
{
    struct tail *t = context;
    for (;;) {
        bool over = atomic_load(&t->over); /* before the look: what was written until then is read */
        struct pollfd p = {.fd = t->ends[0], .events = POLLIN};
        int ready = poll(&p, 1, over ? 0 : LOOK_MS);
        if ((ready > 0 && !take(t)) || (ready == 0 && over) || (ready < 0 && errno != EINTR))
            return NULL;
    }
}

/* 0, or an errno. */
static int tail_begin(struct tail *t, bool shown)
{
    *t = (struct tail){.shown = shown};
    return pipe2(t->ends, O_CLOEXEC) ? errno : 0;
}

/* The program has started and has its end of the pipe. */
static void tail_started(struct tail *t)
{
    sigset_t all, mask;
    close(t->ends[1]);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask); /* signals are for the thread that forwards them */
    t->running = pthread_create(&t->thread, NULL, read_all, t) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* The program has ended; what others hold the pipe for is not waited for.  Its last LINES, which the caller
 * frees. */
static char *tail_end(struct tail *t, int lines)
{
    atomic_store(&t->over, true);
    if (t->running)
        pthread_join(t->thread, NULL);
    close(t->ends[0]);
    size_t end = t->n, from;
    while (end && t->last[end - 1] == '\n')
        end--;
    for (from = end; from > 0; from--)
        if (t->last[from - 1] == '\n' && --lines == 0)
            break;
    return xformat("%.*s", (int)(end - from), t->last + from);
}

/* ---- the run ---- */

struct child {
    struct tail *tail; /* NULL: its output is untouched */
    bool shown;
    struct contain *contain;
    pid_t parent;
};

/* Where the answer goes to standard output what the program prints there goes to ours of errors. */
static int redirect(const struct child *c)
{
    int out = c->shown ? dup(STDERR_FILENO) : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(c->tail->ends[1], STDERR_FILENO) < 0)
        return errno;
    close(out);
    return 0;
}

/* In the child. */
static int become(void *context)
{
    const struct child *c = context;
    guard_memory_end(); /* what a damaged recording may take of us is no limit of the program's */
    int error = c->tail ? redirect(c) : 0;
    error = error || !c->contain ? error : contain_enter(c->contain);
    if (!error)
        contain_descriptors(c->contain);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody wants what it computes, once we are gone */
    if (getppid() != c->parent)
        raise(SIGTERM);
    return error;
}

/* The caches of torch.compile are those of the runs of one answer, of which the first begins with empty ones.
 */
static void begin_caches(const char *caches)
{
    mkdir(caches, 0700);
    setenv("TORCHINDUCTOR_CACHE_DIR", caches, 1);
    setenv("VRAMSCOPE_DRY_COMPILED", caches, 1); /* a folder of the program's own choice is kept apart */
}

int attempt_run(struct attempt *a, const struct attempt_setup *s, const char *folder, const char *caches,
                bool shown)
{
    struct tail tail;
    struct contain contain;
    struct child child = {s->whole ? NULL : &tail, shown, s->contained ? &contain : NULL, getpid()};
    if (mkdir(folder, 0700))
        return complain("fit: %s can't be made: %s", folder, strerror(errno));
    begin_caches(caches);
    if (set_environment(a, s, folder) || (!s->contained && written_make_apart(folder)))
        return EXIT_USAGE;
    if ((child.tail && tail_begin(&tail, shown)) ||
        (child.contain && contain_begin(&contain, folder, caches, s->keep_writes)))
        return complain("fit: no run can begin: %s", strerror(errno));
    char *output = output_in(folder, s), *facts = xformat("%s/facts", folder);
    time_t since = time(NULL) - 1; /* file systems' clocks may be coarse */
    pid_t pid = start_command(
        s->command,
        &(struct start_child){become, &child, s->ranks.world ? ranks_become : NULL, (void *)&s->ranks},
        &a->error);
    if (child.tail)
        tail_started(&tail);
    if (child.contain)
        contain_started(&contain);
    a->status = pid > 0 ? start_wait(pid) : 0;
    a->said = child.tail ? tail_end(&tail, LINES) : NULL;
    if (child.contain)
        contain_end(&contain, &a->written);
    else
        written_read_apart(&a->written, folder, s->keep_writes);
    a->compiled = rmdir(caches) != 0;
    a->files = run_outputs(output, since, pid, &a->n);
    facts_read(&a->facts, facts);
    free(output);
    free(facts);
    return 0;
}

void attempt_free(struct attempt *a)
{
    run_free_outputs(a->files, a->n);
    written_free(&a->written);
    facts_free(&a->facts);
    free(a->said);
    *a = (struct attempt){0};
}
