/*
 * suspend.c - `vramscope suspend` and `vramscope resume`: ask processes under the arena to give back the
 * device memory of what is alive, and to take it again.
 *
 * All processes of a job are asked at once.  Where one does not suspend, those that did are resumed: a job
 * whose ranks wait for each other is of no use in halves.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/args.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/ask.h"
#include "read/trace.h"
#include "trace/roles.h"

struct options {
    const char *roles, *keep, *to;
    int64_t timeout;
    bool json;
};

#define ROLES "ROLE,..."
static const struct option_row suspend_rows[] = {
    {"role", 0, ROLES, ARG_TEXT, AT(roles), "these alone: parameter, gradient, optimizer-state, buffer"},
    {"keep", 0, ROLES, ARG_TEXT, AT(keep), "all but these"},
    {"to", 0, "DIR", ARG_TEXT, AT(to), "the contents go to files there, not to the host's memory"},
    {"timeout", 0, "TIME", ARG_TIME, AT(timeout), "for its work on the device to end (default 60s)"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-suspend(1)"},
    {0}};

static const struct option_row resume_rows[] = {
    {"timeout", 0, "TIME", ARG_TIME, AT(timeout), "for the device to have the memory (default 60s)"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-suspend(1)"},
    {0}};

enum {
    LOOK_US = 5000,
    LOOKS = 300 /* at a figure that is renewed once a second */
};

struct job {
    const char *command; /* "suspend" */
    struct options *o;
    struct vs_control_request request;
    struct asked {
        struct ask ask;
        bool told_long; /* that it takes long */
        bool undone;    /* it was suspended and asked to resume, as others were not suspended */
        int64_t beside; /* bytes that the driver counts for it beside the arena's */
    } * *at;
    size_t count;
};

/* ---- what is asked ---- */

static uint32_t role_bit(const char *word, size_t length)
{
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    for (char *c = text; *c; c++)
        *c = *c == '-' ? ' ' : *c;
    enum vs_role role = vs_role_named(text);
    return role != VS_ROLE_UNTOLD && role < VS_FRAMEWORK_ROLES ? UINT32_C(1) << role : 0;
}

/* 0, or 2 where a word is none. */
static int read_roles(const char *option, const char *words, uint32_t *roles)
{
    while (words && *words) {
        size_t length = strcspn(words, ",");
        uint32_t bit = role_bit(words, length);
        if (!bit)
            return complain(
                "suspend: --%s takes parameter, gradient, optimizer-state and buffer, the roles that "
                "PyTorch tells, not '%.*s'",
                option, (int)length, words);
        *roles |= bit;
        words += length + (words[length] == ',');
    }
    return 0;
}

static int read_folder(const char *folder, char to[VS_CONTROL_TO])
{
    char path[PATH_MAX];
    if (!folder)
        return 0;
    if (!realpath(folder, path) || access(path, W_OK | X_OK))
        return complain("suspend: --to=%s is no directory that can be written: mkdir -p %s", folder,
                        shown_word(folder));
    if (strlen(path) >= VS_CONTROL_TO)
        return complain("suspend: --to takes at most %d bytes, and %s has %zu: name a shorter one",
                        VS_CONTROL_TO - 1, path, strlen(path));
    strcpy(to, path);
    return 0;
}

static int read_request(const struct options *o, struct vs_control_request *q)
{
    q->timeout_ns = (uint64_t)o->timeout;
    if (o->roles && o->keep)
        return complain("suspend: --role says what goes and --keep what stays: give one of them");
    int status = read_roles("role", o->roles, &q->roles);
    status = status ? status : read_roles("keep", o->keep, &q->keep);
    return status ? status : read_folder(o->to, q->to);
}

/* ---- who is asked ---- */

static bool has_ended(const struct live *l)
{
    return l->state == LIVE_ENDED || l->state == LIVE_KILLED || l->state == LIVE_CUT;
}

/* Adds the process of JOURNAL, if it lives.  False: it can't be asked, and WHY says so; of one that has ended
 * WHY says that. */
static bool add(struct job *job, const char *journal, char *why, size_t size)
{
    struct asked *a = xrealloc(NULL, sizeof *a);
    *a = (struct asked){.beside = UNKNOWN};
    bool opened = ask_open(&a->ask, journal, why, size);
    if (opened && !has_ended(&a->ask.live)) {
        *PUSH(job->at, job->count) = a;
        return true;
    }
    char *line = opened ? live_line(&a->ask.live) : NULL;
    if (line)
        snprintf(why, size, "%s", line);
    free(line);
    ask_close(&a->ask);
    free(a);
    return opened;
}

static int by_rank(const void *a, const void *b)
{
    const struct live *x = &(*(struct asked *const *)a)->ask.live,
                      *y = &(*(struct asked *const *)b)->ask.live;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_gone(const char *operand)
{
    char *end;
    long pid = strtol(operand, &end, 10);
    return pid > 0 && pid <= INT_MAX && !*end && kill((pid_t)pid, 0) && errno == ESRCH;
}

static bool is_of_ended(const char *file)
{
    struct trace t;
    if (trace_open_brief(&t, file, 0))
        return false;
    bool ended = t.end == TRACE_END_CLEAN || t.end == TRACE_END_MERGED;
    trace_close(&t);
    return ended;
}

static void complain_of_none(const char *command, const char *operand)
{
    if (is_gone(operand))
        complain("%s: pid %s has ended: vramscope top shows all that record now", command, operand);
    else if (is_of_ended(operand))
        complain("%s: the process of %s has ended: vramscope report %s shows what was recorded", command,
                 operand, shown_word(operand));
    else
        complain("%s: no process of %s records now: vramscope top shows all that do", command, operand);
}

static int find(struct job *job, const char *operand)
{
    char why[512] = "";
    size_t n;
    char **journals = live_find(operand, &n, why, sizeof why);
    if (!journals)
        return complain("%s: %s", job->command, why);
    bool all = true; /* or none: a job would be suspended in halves */
    for (size_t i = 0; i < n; i++) {
        all = all && add(job, journals[i], why, sizeof why);
        free(journals[i]);
    }
    free(journals);
    if (all && job->count) {
        qsort(job->at, job->count, sizeof *job->at, by_rank);
        return EXIT_GOOD;
    }
    if (*why)
        complain("%s: %s", job->command, why);
    else
        complain_of_none(job->command, operand);
    return EXIT_INCOMPLETE;
}

/* ---- asking ---- */

static bool is_done(const struct asked *a)
{
    return a->ask.state == ASK_ANSWERED && a->ask.answer.status == VS_CONTROL_DONE;
}

static bool look(struct job *job, struct asked *a)
{
    bool over = ask_look(&a->ask);
    if (!a->told_long && ask_takes_long(&a->ask))
        complain("%s: pid %lld is at it for longer than --timeout; waiting on", job->command,
                 (long long)a->ask.live.pid);
    a->told_long = a->told_long || ask_takes_long(&a->ask);
    return over;
}

static void wait_for_all(struct job *job)
{
    for (bool over = false; !over;) {
        over = true;
        for (size_t i = 0; i < job->count; i++)
            over &= look(job, job->at[i]);
        if (!over)
            usleep(LOOK_US);
    }
}

static void ask_all(struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        ask_begin(&job->at[i]->ask, &job->request);
    wait_for_all(job);
}

/* ---- what is left on the devices ---- */

/* The driver's figures for the process, all read after SINCE_NS; UNKNOWN: not yet.  *NONE: there are none. */
static int64_t used_since(struct ask *k, int64_t since_ns, bool *none)
{
    struct vs_journal_stats stats;
    int64_t bytes = 0;
    live_look(&k->live);
    *none = true;
    if (!k->live.seen || k->live.cut)
        return UNKNOWN;
    vs_journal_stats(k->live.map, &stats);
    for (uint32_t i = 0; i < k->live.now.devices; i++) {
        const struct vs_now_device *d = &k->live.now.device[i];
        *none = *none && d->process_used_t == 0;
        bytes = bytes == UNKNOWN || (int64_t)stats.start_ns + d->process_used_t < since_ns
                    ? UNKNOWN
                    : bytes + (int64_t)d->process_used;
    }
    return *none ? UNKNOWN : bytes;
}

static void look_beside(struct asked *a)
{
    struct timespec now;
    bool none = false;
    int64_t used = UNKNOWN;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t since_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    for (int i = 0; i < LOOKS && !none && (used = used_since(&a->ask, since_ns, &none)) == UNKNOWN; i++)
        usleep(LOOK_US);
    if (used != UNKNOWN)
        a->beside = used - (int64_t)a->ask.answer.left_bytes;
    a->ask.answer.beside[sizeof a->ask.answer.beside - 1] = 0; /* another process wrote it */
}

static void put_beside(const struct asked *a)
{
    const struct vs_control_answer *r = &a->ask.answer;
    int64_t rest = a->beside == UNKNOWN ? UNKNOWN : a->beside - (int64_t)r->beside_bytes;
    if (rest >= 0)
        printf("beside it %s: %s%scontexts and code %s\n", units_bytes(a->beside, false).s, shown(r->beside),
               *r->beside ? ", " : "", units_bytes(rest, false).s);
    else if (*r->beside)
        printf("beside it: %s; what contexts and code take is unknown\n", shown(r->beside));
}

/* ---- the outcome ---- */

static const char *state_of(const struct asked *a)
{
    static const char *const words[] = {"done", "refused", "late"};
    if (a->undone && is_done(a))
        return "undone";
    if (a->ask.state != ASK_ANSWERED)
        return a->ask.state == ASK_LATE ? "late" : "lost";
    return words[a->ask.answer.status <= VS_CONTROL_LATE ? a->ask.answer.status : VS_CONTROL_REFUSED];
}

static const char *why_of(const struct asked *a)
{
    return a->ask.state == ASK_ANSWERED ? a->ask.answer.text : a->ask.why;
}

static void put_json(struct json *j, const struct asked *a)
{
    const struct live *l = &a->ask.live;
    const struct vs_control_answer *r = &a->ask.answer;
    bool done = is_done(a) && !a->undone;
    json_begin(j, NULL, '{');
    json_int(j, "pid", l->pid);
    json_int(j, "rank", l->rank);
    json_text(j, "command", l->command);
    json_text(j, "file", l->database);
    json_text(j, "state", state_of(a));
    json_int(j, "moved_bytes", done ? (int64_t)r->moved_bytes : UNKNOWN);
    json_int(j, "moving_ns", done ? (int64_t)r->moving_ns : UNKNOWN);
    json_int(j, "host_ns", done ? (int64_t)r->host_ns : UNKNOWN);
    json_int(j, "left_bytes", done ? (int64_t)r->left_bytes : UNKNOWN);
    json_int(j, "beside_bytes", done ? a->beside : UNKNOWN);
    json_text(j, "why", why_of(a) && *why_of(a) ? why_of(a) : NULL);
    json_end(j);
}

static const char *command_of(const struct ask *k)
{
    return k->live.command ? shown(k->live.command) : "unknown";
}

static void put_done(const struct asked *a)
{
    const struct ask *k = &a->ask;
    const struct vs_control_answer *r = &k->answer;
    bool away = k->request.kind == VS_CONTROL_SUSPEND;
    printf("%s %lld (%s): %s %s in %s", away ? "suspended" : "resumed", (long long)k->live.pid, command_of(k),
           units_bytes((int64_t)r->moved_bytes, false).s,
           !away            ? "back"
           : *k->request.to ? "to files"
                            : "to the host",
           units_time((int64_t)r->moving_ns).s);
    if (r->moved_bytes && r->moving_ns)
        printf(" (%s/s)",
               units_bytes((int64_t)((double)r->moved_bytes * 1e9 / (double)r->moving_ns), false).s);
    if (r->host_ns)
        printf("; %s took %s",
               !away            ? "giving the host's memory back"
               : *k->request.to ? "making the file"
                                : "pinning the host's memory",
               units_time((int64_t)r->host_ns).s);
    printf("\n%s of the arena's %s on the device\n", units_bytes((int64_t)r->left_bytes, false).s,
           away ? "are left" : "are");
    if (away)
        put_beside(a);
    if (*r->text)
        puts(shown(r->text));
}

/* The exit status. */
static int tell(const struct job *job, const struct asked *a)
{
    const struct live *l = &a->ask.live;
    if (is_done(a)) {
        if (!job->o->json)
            put_done(a);
        return EXIT_GOOD;
    }
    if (a->ask.state == ASK_ANSWERED)
        complain("%s: pid %lld (%s) %s: %s", job->command, (long long)l->pid, command_of(&a->ask),
                 a->ask.answer.status == VS_CONTROL_LATE ? "gave up" : "refuses", a->ask.answer.text);
    else
        complain("%s: %s", job->command, a->ask.why);
    return a->ask.state == ASK_LOST ? EXIT_INCOMPLETE : EXIT_CHECK;
}

/* ---- the whole ---- */

/* Resumes those that were suspended while others were not. */
static int undo(struct job *job)
{
    int status = EXIT_GOOD;
    struct vs_control_request back = {.kind = VS_CONTROL_RESUME, .timeout_ns = job->request.timeout_ns};
    for (size_t i = 0; i < job->count; i++)
        if ((job->at[i]->undone = is_done(job->at[i])))
            ask_begin(&job->at[i]->ask, &back);
    wait_for_all(job);
    for (size_t i = 0; i < job->count; i++) {
        const struct asked *a = job->at[i];
        long long pid = (long long)a->ask.live.pid;
        if (a->undone && is_done(a))
            complain("suspend: pid %lld was suspended and is resumed, as others were not suspended", pid);
        else if (a->undone)
            status = exit_worse(status, tell(job, a));
        if (a->undone && !is_done(a))
            complain("suspend: pid %lld stays suspended: vramscope resume %lld", pid, pid);
    }
    return status;
}

static void print_json(const struct job *job)
{
    struct json j;
    json_document(&j, stdout);
    json_begin(&j, "processes", '[');
    for (size_t i = 0; i < job->count; i++)
        put_json(&j, job->at[i]);
    json_close(&j);
}

/* Tells what became of each; the exit status. */
static int conclude(struct job *job)
{
    int status = EXIT_GOOD;
    for (size_t i = 0; i < job->count; i++)
        if (!is_done(job->at[i]))
            status = exit_worse(status, tell(job, job->at[i]));
    if (status != EXIT_GOOD && job->request.kind == VS_CONTROL_SUSPEND)
        return exit_worse(status, undo(job));
    for (size_t i = 0; i < job->count; i++) {
        if (is_done(job->at[i]) && job->request.kind == VS_CONTROL_SUSPEND)
            look_beside(job->at[i]);
        if (is_done(job->at[i]) && !job->o->json)
            put_done(job->at[i]);
    }
    return status;
}

static void forget(struct job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        ask_close(&job->at[i]->ask);
        free(job->at[i]);
    }
    free(job->at);
}

static int run(struct job *job, char **operands, int n)
{
    if (n != 1)
        return complain("%s: which process? its pid, file or directory, of which vramscope top shows all",
                        job->command);
    int status = read_request(job->o, &job->request);
    status = status ? status : find(job, operands[0]);
    if (status)
        return status;
    ask_all(job);
    status = conclude(job);
    if (job->o->json)
        print_json(job);
    return status;
}

static int call(const char *command, enum vs_control_kind kind, struct options *o, char **operands, int n)
{
    struct job job = {.command = command, .o = o, .request.kind = kind};
    int status = run(&job, operands, n);
    forget(&job);
    return status;
}

static int call_suspend(void *options, char **operands, int n)
{
    return call("suspend", VS_CONTROL_SUSPEND, options, operands, n);
}

static int call_resume(void *options, char **operands, int n)
{
    return call("resume", VS_CONTROL_RESUME, options, operands, n);
}

#define STATUS                                                                                               \
    "Exit status 1: refused, or late, and nothing has changed; 3: no process records, or it ended "          \
    "meanwhile."

const struct command command_suspend = {
    "suspend",
    "have a process under the arena give its device memory back",
    "[options] PID|FILE|DIR",
    "Moves what is alive in the arena of a process that records to the host and gives the device's memory "
    "back. What the program gives the device waits until vramscope resume; addresses stay. Of a directory, "
    "all processes whose files lie in it: where one refuses, the others are resumed.\n" STATUS,
    suspend_rows,
    call_suspend,
    COMMAND_OPTIONS(.timeout = INT64_C(60000000000))};

const struct command command_resume = {
    "resume",
    "have it take that memory again, and go on",
    "[options] PID|FILE|DIR",
    "Moves back what vramscope suspend moved away. Without enough memory on the device the process stays "
    "suspended and whole.\n" STATUS,
    resume_rows,
    call_resume,
    COMMAND_OPTIONS(.timeout = INT64_C(60000000000))};
