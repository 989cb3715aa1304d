/*
 * top.c - `vramscope top`: what processes that record now hold, live.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/page.h"
#include "show/top/top.h"

struct options {
    bool once;
    int64_t interval, window, prometheus;
};

static const struct option_row rows[] = {
    {"once", 0, NULL, ARG_FLAG, AT(once),
     "one frame as plain text, and the end; so too where there is no terminal"},
    {"interval", 'i', "TIME", ARG_TIME, AT(interval), "between frames (default 1s)"},
    {"window", 'w', "TIME", ARG_TIME, AT(window), "shown by the curve (default 60s)"},
    {"prometheus", 0, "PORT", ARG_COUNT, AT(prometheus),
     "serve the figures to a monitor instead, as http://127.0.0.1:PORT/metrics (0: a free port)"},
    {0}};

enum { LEAST_MS = 100, RATE_MS = 1100 };

/* ---- which processes ---- */

static bool is_known(const struct top *top, const char *journal)
{
    for (size_t i = 0; i < top->count; i++)
        if (!strcmp(top->processes[i]->live.journal, journal))
            return true;
    return false;
}

static void add_journal(struct top *top, const char *journal)
{
    char why[512];
    struct top_process *p = xrealloc(NULL, sizeof *p);
    *p = (struct top_process){.has_before = false};
    if (live_open(&p->live, journal, why, sizeof why)) {
        *PUSH(top->processes, top->count) = p;
    } else {
        *PUSH(top->lines, top->line_count) = xstrdup(why);
        free(p);
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct live *x = &(*(struct top_process *const *)a)->live,
                      *y = &(*(struct top_process *const *)b)->live;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Takes in journals that are new; lines about what can't be looked at are those of this time.  An operand
 * that is not there is an error the FIRST time; later its processes are known already, and end by themselves.
 */
static int find_all(struct top *top, char *const *operands, size_t n, bool first)
{
    char why[512];
    for (size_t i = 0; i < top->line_count; i++)
        free(top->lines[i]);
    top->line_count = 0;
    free(top->lines);
    top->lines = NULL;
    for (size_t i = 0; i < (n ? n : 1); i++) {
        size_t count;
        char **journals = live_find(n ? operands[i] : NULL, &count, why, sizeof why);
        if (!journals && first)
            return complain("top: %s", why);
        if (!journals && n && !is_known(top, operands[i]))
            *PUSH(top->lines, top->line_count) = xstrdup(why);
        for (size_t k = 0; k < count; k++) {
            if (!is_known(top, journals[k]))
                add_journal(top, journals[k]);
            free(journals[k]);
        }
        free(journals);
    }
    if (top->count)
        qsort(top->processes, top->count, sizeof *top->processes, by_rank);
    return 0;
}

static bool ended(const struct live *l)
{
    return l->state == LIVE_ENDED || l->state == LIVE_KILLED || l->state == LIVE_CUT;
}

/* Whether nothing more will come. */
static bool all_ended(const struct top *top)
{
    for (size_t i = 0; i < top->count; i++)
        if (!ended(&top->processes[i]->live))
            return false;
    return true;
}

/* Those that ended are said once and then forgotten, where others are watched for. */
static void drop_ended(struct top *top)
{
    size_t kept = 0;
    for (size_t i = 0; i < top->count; i++)
        if (ended(&top->processes[i]->live)) {
            live_close(&top->processes[i]->live);
            free(top->processes[i]->held);
            free(top->processes[i]);
        } else {
            top->processes[kept++] = top->processes[i];
        }
    top->count = kept;
}

/* ---- showing ---- */

static int none_there(const struct top *top, char *const *operands, size_t n)
{
    for (size_t i = 0; i < top->line_count; i++)
        complain("top: %s", top->lines[i]);
    if (!top->line_count && n)
        complain(access(operands[0], F_OK) == 0
                     ? "top: no process of %s records now: vramscope report %s shows what was recorded"
                     : "top: no process of %s records now: vramscope top shows all that do",
                 operands[0], operands[0]);
    else if (!top->line_count)
        complain("top: no process records on this host now, as vramscope run -- python train.py would (where "
                 "VRAMSCOPE_JOURNAL_DIR was set for it, set it here)");
    return EXIT_INCOMPLETE;
}

static int show_once(struct top *top)
{
    top_look(top);
    if (!all_ended(top))
        usleep(RATE_MS * 1000); /* rates need two looks */
    top_look(top);
    top_frame(top, (int)page_width(), 0, stdout);
    return EXIT_GOOD;
}

static void show_frame(struct top *top)
{
    char *frame = NULL;
    size_t n = 0;
    int width, height;
    FILE *f = open_memstream(&frame, &n);
    if (!f)
        return;
    top_terminal_size(&width, &height);
    top_frame(top, width, height, f);
    fclose(f);
    top_terminal_show(frame, n);
    free(frame);
}

/* What is left on the terminal afterwards: why it ended by itself. */
static void say_last(const struct top *top)
{
    for (size_t i = 0; i < top->count; i++) {
        char *line = live_line(&top->processes[i]->live);
        if (line)
            puts(line);
        free(line);
    }
}

static int watch(struct top *top, char *const *operands, size_t n, int ms)
{
    enum top_key key = KEY_NONE;
    bool done = false;
    while (key != KEY_QUIT && !done) {
        top_look(top);
        show_frame(top);
        done = all_ended(top) && n; /* of the host, others may come */
        if (done)
            break;
        key = top_terminal_wait(ms);
        if (key == KEY_UP && top->chosen)
            top->chosen--;
        if (key == KEY_DOWN && top->chosen + 1 < top->rows)
            top->chosen++;
        if (key == KEY_NONE) {
            if (!n)
                drop_ended(top);
            find_all(top, operands, n, false);
        }
    }
    top_terminal_end();
    if (done)
        say_last(top);
    return EXIT_GOOD;
}

/* ---- for a monitor ---- */

struct watched {
    struct top *top;
    char *const *operands;
    size_t n;
};

static void put_metrics(void *context, FILE *out)
{
    struct watched *w = context;
    find_all(w->top, w->operands, w->n, false);
    top_look(w->top);
    drop_ended(w->top);
    top_metrics(w->top, out);
}

/* Who sent it expects the program to end by it. */
static void end_by_signal(void)
{
    int number = top_terminal_signal();
    sigset_t one;
    if (!number || number == SIGINT)
        return;
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    struct top top = {.window = o->window > 0 ? o->window : 1, .utf8 = !page_ascii()};
    int status = find_all(&top, operands, (size_t)n, true);
    int64_t ms = o->interval / 1000000;
    if (!status && o->prometheus > 65535)
        status = complain("top: --prometheus takes a port, 0 to 65535");
    else if (!status && o->prometheus != UNKNOWN)
        status = top_serve((int)o->prometheus, put_metrics, &(struct watched){&top, operands, (size_t)n});
    else if (!status && !top.count)
        status = none_there(&top, operands, (size_t)n);
    else if (!status && (o->once || !top_terminal_begin()))
        status = show_once(&top);
    else if (!status) {
        top.keys = "q quits";
        status = watch(&top, operands, (size_t)n,
                       ms < LEAST_MS  ? LEAST_MS
                       : ms > 3600000 ? 3600000
                                      : (int)ms);
    }
    top_free(&top);
    end_by_signal();
    return status;
}

const struct command command_top = {
    "top",
    "what processes that record now hold, live",
    "[options] [PID|FILE|DIR...]",
    "What processes that record now hold: allocated, reserved, what the device has left, the ranges that "
    "are open, steps and events a second, and the last minute as a curve. Of one process, of those whose "
    "files lie in a directory, or of all on this host. Keys: q quits, j and k (or arrows) choose another "
    "curve.\n"
    "Exit status 3: no process records.",
    rows,
    call,
    COMMAND_OPTIONS(.interval = 1000000000, .window = INT64_C(60000000000), .prometheus = UNKNOWN)};
