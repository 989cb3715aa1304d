/*
 * work.c - runs the points of a sweep: on a GPU one after another, each alone; dry runs as many at a time as
 * there are cores.
 *
 * A dry run gets a process of ours because child.c takes all children of its process for one program's.  That
 * ends with its parent, and ends the program before.
 */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "base/base.h"
#include "base/destination.h"

#define NO_ANSWER 3 /* nobody has said why */

/* ---- one line at the foot of a terminal that says what is being done; nothing anywhere else ---- */

static bool progress_there;

/* TEXT in its place; what does not fit the terminal is left out. */
static void progress_show(const char *text)
{
    struct winsize size = {0};
    const char *terminal = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !terminal || !strcmp(terminal, "dumb"))
        return;
    int width = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1 : 79;
    fprintf(stderr, "\r\033[K%.*s", width, text);
    fflush(stderr);
    progress_there = true;
}

static void progress_clear(void)
{
    if (progress_there)
        fputs("\r\033[K", stderr);
    progress_there = false;
}

/* ---- a folder of points belongs to one command, and to one sweep at a time ---- */

/* Held until we and every process of a point have ended, also where we are killed: whoever of them runs on
 * has the GPU, and its recording. */
static int lock_folder(const char *who, const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY); /* children have it, too */
    if (fd < 0)
        return complain("%s: %s can't be opened: %s", who, folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) { /* some file systems have none */
        close(fd);
        return complain("%s: another sweep runs in %s, or a process that one left behind: give another -o",
                        who, folder);
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

static int write_text(const char *who, const char *path, const char *text, size_t size)
{
    struct destination to;
    FILE *out = destination_open(&to, who, path);
    if (!out)
        return 2;
    fwrite(text, 1, size, out);
    return destination_close(&to, out, true);
}

static void write_words(char *const *list, FILE *out)
{
    for (; list && *list; list++)
        fwrite(*list, 1, strlen(*list) + 1, out);
}

/* A folder belongs to one command, its words each with a 0 behind it: points of another would be beside its
 * own. */
int claim_folder(const char *who, const char *folder, char *const *own, char *const *command)
{
    char *path = xformat("%s/command", folder), *text = NULL;
    size_t size;
    FILE *words = xmemstream(&text, &size);
    write_words(own, words);
    write_words(command, words);
    fclose(words);
    int bad = mkdir(folder, 0777) && errno != EEXIST
                  ? complain("%s: %s can't be made: %s: give another -o", who, folder, strerror(errno))
                  : lock_folder(who, folder);
    int same = bad ? 1 : has_text(path, text, size);
    if (same == 0)
        bad = complain("%s: %s has points of another command (%s/command): give another -o", who, folder,
                       folder);
    else if (same < 0)
        bad = errno == ENOENT ? write_text(who, path, text, size)
                              : complain("%s: %s can't be read: %s", who, path, strerror(errno));
    free(path);
    free(text);
    return bad;
}

/* ---- one point ---- */

static char **command_at(const struct work *w, const struct point *p)
{
    char self[PATH_MAX], **words = NULL;
    size_t n = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    *PUSH(words, n) = xstrdup(self);
    for (size_t i = 0; w->own[i]; i++)
        *PUSH(words, n) = xstrdup(w->own[i]);
    *PUSH(words, n) = xstrdup("-o");
    *PUSH(words, n) = xformat("%s/run.db", p->folder);
    *PUSH(words, n) = xstrdup("--");
    for (size_t i = 0; w->command[i]; i++)
        *PUSH(words, n) = grid_fill(&w->sweep->grid, p->values, w->command[i]);
    *PUSH(words, n) = NULL;
    return words;
}

static void say(const struct point *p)
{
    double least, mean, greatest;
    char *status = point_status(p);
    bool bad = (p->outcome == POINT_CRASH || p->outcome == POINT_OOM || p->dry.there) && *status;
    int64_t refused = point_refused(p);
    progress_clear();
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

static int finish(const struct work *w, struct point *p, const struct child_end *end)
{
    if (end->interrupted)
        return 1;
    if (end->stuck)
        return complain("%s: a process of %s can't be ended: the next point would not be alone on the GPU",
                        w->sweep->who, p->name);
    bool answered = point_answer(p);
    return w->sweep->dry && !answered && !end->timed_out ? NO_ANSWER : point_finish(p, end, w->sweep->who);
}

/* 0; 2, said; 1: we were asked to end; or NO_ANSWER. */
static int run_point(const struct work *w, struct point *p)
{
    struct child_end end;
    if (mkdir(p->folder, 0777) && errno != EEXIST)
        return complain("%s: %s can't be made: %s", w->sweep->who, p->folder, strerror(errno));
    point_clear(p);
    char **words = command_at(w, p), *log = xformat("%s/log", p->folder),
         *answer = w->sweep->dry ? xformat("%s/answer", p->folder) : NULL;
    setenv("VRAMSCOPE_LABELS", p->name, 1);
    int error = child_run(words, log, answer, w->limit, &end);
    words_free(words);
    int bad = error ? complain("%s: %s can't be started: %s", w->sweep->who, p->name, strerror(error))
                    : finish(w, p, &end);
    free(answer);
    free(log);
    return bad;
}

/* ---- several at a time ---- */

struct running {
    pid_t pid;
    struct point *point;
};

struct crew {
    struct work *work;
    struct running *all;
    size_t n;
    sigset_t mask; /* as it was */
    struct timespec begun;
    int status;
};

size_t work_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
}

static _Noreturn void become_worker(const struct crew *c, struct point *p, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &c->mask, NULL);
    if (getppid() != parent)
        _exit(1);
    int status = run_point(c->work, p);
    fflush(stdout);
    _exit(status);
}

static void begin(struct crew *c, struct point *p)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_worker(c, p, parent);
    if (pid > 0)
        *PUSH(c->all, c->n) = (struct running){pid, p};
    else
        c->status = complain("%s: %s can't be started: %s", c->work->sweep->who, p->name, strerror(errno));
}

static void show_progress(const struct crew *c)
{
    struct timespec now;
    char *text = NULL;
    size_t size;
    clock_gettime(CLOCK_MONOTONIC, &now);
    FILE *out = xmemstream(&text, &size);
    if (c->work->state)
        fprintf(out, "%s; ", c->work->state);
    fprintf(out, "%zu done, %zu running:", c->work->runs, c->n);
    for (size_t i = 0; i < c->n; i++)
        fprintf(out, " %s", c->all[i].point->name);
    fprintf(out, ", %s", units_time((now.tv_sec - c->begun.tv_sec) * INT64_C(1000000000)).s);
    fclose(out);
    progress_show(text);
    free(text);
}

static void end_all(struct crew *c)
{
    for (size_t i = 0; i < c->n; i++)
        kill(c->all[i].pid, SIGTERM);
}

/* What `fit` said in place of an answer, which is about all points as a rule: a command that is none. */
static int say_no_answer(const char *who, const struct point *p)
{
    static const char ours[] = "vramscope: ";
    char line[512] = "", last[512] = "", *log = xformat("%s/log", p->folder);
    FILE *in = fopen(log, "re");
    while (in && fgets(line, sizeof line, in))
        memcpy(last, line, sizeof last);
    if (in)
        fclose(in);
    free(log);
    last[strcspn(last, "\n")] = 0;
    return complain("%s: %s has no answer%s%s", who, p->name, *last ? ": " : "",
                    shown(last + (strncmp(last, ours, sizeof ours - 1) ? 0 : sizeof ours - 1)));
}

/* What a worker's end says: of one that was ended itself the point is none. */
static void take(struct crew *c, struct running *r, int status)
{
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && c->status != 1)
        ended = complain("%s: the process that runs %s was killed", c->work->sweep->who, r->point->name);
    if (ended == NO_ANSWER && !c->status)
        ended = say_no_answer(c->work->sweep->who, r->point);
    if (ended && !c->status)
        c->status = ended;
    point_load(r->point);
    c->work->runs++;
    if (!ended && !c->work->quiet)
        say(r->point);
    *r = c->all[--c->n];
}

static void take_ended(struct crew *c)
{
    int status;
    for (size_t i = c->n; i-- > 0;)
        if (waitpid(c->all[i].pid, &status, WNOHANG) == c->all[i].pid)
            take(c, &c->all[i], status);
}

static void wait_for_one(struct crew *c, const sigset_t *waited)
{
    bool told = c->status != 0;
    show_progress(c);
    int signal = sigtimedwait(waited, NULL, &(struct timespec){1, 0});
    if (signal > 0 && signal != SIGCHLD)
        c->status = 1;
    take_ended(c);
    if (c->status && !told)
        end_all(c);
}

static int run_crew(struct work *w, const size_t *which, size_t n)
{
    struct crew c = {.work = w};
    sigset_t waited;
    size_t next = 0;
    clock_gettime(CLOCK_MONOTONIC, &c.begun);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    sigaddset(&waited, SIGINT);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGHUP);
    sigprocmask(SIG_BLOCK, &waited, &c.mask);
    while ((next < n && !c.status) || c.n) {
        while (next < n && !c.status && c.n < w->jobs)
            begin(&c, &w->sweep->points[which[next++]]);
        if (c.n)
            wait_for_one(&c, &waited);
    }
    progress_clear();
    sigprocmask(SIG_SETMASK, &c.mask, NULL);
    free(c.all);
    return c.status;
}

int work_run(struct work *w, const size_t *which, size_t n)
{
    int status = 0;
    if (w->sweep->dry)
        return run_crew(w, which, n);
    for (size_t i = 0; i < n && !status; i++) {
        struct point *p = &w->sweep->points[which[i]];
        status = run_point(w, p);
        w->runs++;
        if (!status && !w->quiet)
            say(p);
    }
    return status;
}
