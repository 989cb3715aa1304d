/* mcp.c - serves the Model Context Protocol (mcp.h). */
#include "mcp.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shown.h"
#include "sweep/child.h"

enum {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    NO_METHOD = -32601,
    INVALID_PARAMS = -32602,
    INTERNAL_ERROR = -32603
};
enum { WORKERS = 8, LARGEST = 64 << 20, SAID = 4096 };

/* Versions of the protocol that begin with `initialize`. */
static const char handshakes[] = "2024-11-05 2025-03-26 2025-06-18 2025-11-25";
enum { VERSION = 10 }; /* characters of one */

struct server {
    const struct command *const *commands;
    bool allow_run;
    int lock; /* held by the process that writes an answer */
    struct {
        pid_t pid; /* 0: none; it may have ended, and is a zombie then */
        json_t *id;
    } workers[WORKERS];
    unsigned next; /* the one whose turn it is */
};

/* ---- answers ---- */

/* Ends the process where nobody reads them. */
static void write_message(const struct server *s, json_t *message)
{
    char *text = json_dumps(message, MCP_FLAGS);
    if (!text || lockf(s->lock, F_LOCK, 0) || puts(text) < 0 || fflush(stdout) || lockf(s->lock, F_ULOCK, 0))
        _exit(EXIT_GOOD);
    free(text);
    json_decref(message);
}

static void answer(const struct server *s, json_t *id, json_t *result)
{
    json_object_set_new(result, "resultType", json_string("complete")); /* these three are 2026-07-28's */
    json_object_set_new(result, "ttlMs", json_integer(0));
    json_object_set_new(result, "cacheScope", json_string("private"));
    write_message(s, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

/* WHY is freed. */
static void refuse(const struct server *s, json_t *id, int code, char *why)
{
    json_t *given = json_is_string(id) || json_is_integer(id) ? id : json_null();
    write_message(s, json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", given, "error", "code",
                               code, "message", why));
    free(why);
}

/* ---- a call of a tool, in a process of its own ---- */

struct call {
    char **words;
    const char *part;
    json_int_t max_bytes, timeout_s;
};

static json_t *content(const char *text, bool error)
{
    return json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text", text, "isError", error);
}

/* The end of what the file FD has, in one line. */
static char *end_of(int fd)
{
    char text[SAID + 1];
    off_t size = lseek(fd, 0, SEEK_END);
    ssize_t n = pread(fd, text, SAID, size > SAID ? size - SAID : 0);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = 0;
    return shown_cut(text, SAID);
}

/* Why there is no document; ERROR: errno. */
static char *no_document(const struct call *c, int error, bool timed_out, const char *said)
{
    const char *name = c->words[1];
    if (timed_out)
        return xformat("%s took longer than %lld s and was ended: give a larger timeout_s", name,
                       (long long)c->timeout_s);
    if (error)
        return xformat("%s has no answer: %s", name, strerror(error));
    return *said ? xstrdup(said) : xformat("%s ended without an answer", name);
}

/* What the client gets of DOCUMENT; NULL with WHY. */
static char *wanted(const struct call *c, json_t *document, char **why)
{
    json_t *part = c->part ? shorten_part(document, c->part) : json_incref(document);
    char *text = part ? shorten(part, (size_t)c->max_bytes) : NULL;
    if (!part)
        *why = xstrdup("the answer has no such part: one is written as files[0].devices[0].peak");
    else if (!text)
        *why =
            xformat("without its lists the answer has more than max_bytes=%lld: ask for a part, or with more",
                    (long long)c->max_bytes);
    json_decref(part);
    return text;
}

/* NULL: it is not wanted any more. */
static json_t *run(const struct call *c)
{
    struct child_end end = {0};
    int out = memfd_create("answer", MFD_CLOEXEC), err = memfd_create("said", MFD_CLOEXEC);
    char *out_path = xformat("/proc/self/fd/%d", out), *err_path = xformat("/proc/self/fd/%d", err);
    int error = child_run(c->words, err_path, out_path, c->timeout_s * 1000000000, &end);
    if (end.interrupted)
        return NULL;
    char *said = end_of(err), *why = NULL, *text = NULL;
    int status = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : EXIT_USAGE;
    if (lseek(out, 0, SEEK_END) > LARGEST)
        error = EFBIG;
    bool good = !error && !end.timed_out && lseek(out, 0, SEEK_SET) == 0;
    json_t *document = good ? json_loadfd(out, 0, NULL) : NULL;
    if (json_is_object(document)) {
        json_object_set_new(document, "exit_status", json_integer(status));
        if (status >= EXIT_USAGE && *said)
            json_object_set_new(document, "said", json_string(said));
        text = wanted(c, document, &why);
    } else {
        why = no_document(c, error, end.timed_out, said);
    }
    return content(text ? text : why, !text || status == EXIT_USAGE);
}

/* Whose turn it is has ended mostly; else it is waited for. */
static void start(struct server *s, json_t *id, const struct call *c)
{
    pid_t self = getpid();
    unsigned i = s->next++ % WORKERS;
    if (s->workers[i].pid > 0)
        waitpid(s->workers[i].pid, NULL, 0);
    json_decref(s->workers[i].id);
    s->workers[i].id = json_incref(id);
    pid_t made = fork();
    if (made < 0) {
        refuse(s, id, INTERNAL_ERROR,
               xformat("no process for it can be made: %s: ask again", strerror(errno)));
        json_decref(s->workers[i].id);
        return;
    }
    s->workers[i].pid = made;
    if (made)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* which ends what it runs, too */
    if (getppid() != self)
        _exit(EXIT_GOOD);
    json_t *result = run(c);
    signal(SIGTERM, SIG_IGN); /* a line that is begun is ended */
    if (result)
        answer(s, id, result);
    _exit(EXIT_GOOD);
}

static void cancel(const struct server *s, json_t *id)
{
    for (int i = 0; i < WORKERS; i++)
        if (s->workers[i].pid > 0 && json_equal(s->workers[i].id, id))
            kill(s->workers[i].pid, SIGTERM);
}

static void tools_call(struct server *s, json_t *id, json_t *params)
{
    struct call c = {.max_bytes = 32768, .timeout_s = 600};
    const char *name = NULL;
    char *why = NULL;
    json_t *arguments = NULL, *none = json_object();
    json_error_t error;
    if (json_unpack_ex(params, &error, 0, "{s:s, s?o}", "name", &name, "arguments", &arguments) ||
        json_unpack_ex(arguments ? arguments : none, &error, 0, "{s?s, s?I, s?I}", "part", &c.part,
                       "max_bytes", &c.max_bytes, "timeout_s", &c.timeout_s))
        why = xformat("tools/call: %s", error.text);
    else if (c.max_bytes < 1024 || c.timeout_s < 1 || c.timeout_s > 86400)
        why = xstrdup("max_bytes is 1024 or more, timeout_s from 1 to 86400");
    const struct tool *t = why ? NULL : tools_find(name, s->allow_run, &why);
    c.words = t ? tools_words(t, arguments, &why) : NULL;
    json_decref(none);
    if (why)
        refuse(s, id, INVALID_PARAMS, why);
    else
        start(s, id, &c);
    for (size_t i = 0; c.words && c.words[i]; i++)
        free(c.words[i]);
    free(c.words);
}

/* ---- the protocol ---- */

static json_t *about_us(const char *member, json_t *value)
{
    return json_pack(
        "{s:{s:{}}, s:{s:s, s:s}, s:s, s:o}", "capabilities", "tools", "serverInfo", "name", "vramscope",
        "version", VRAMSCOPE_VERSION, "instructions",
        "Recordings of GPU memory that `vramscope run` made: what made it peak, who held it, what "
        "would lower it. Bytes are exact; null is unknown, never zero.",
        member, value);
}

static json_t *initialize(json_t *params)
{
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    bool known = asked && strlen(asked) == VERSION && strstr(handshakes, asked);
    return about_us("protocolVersion",
                    json_string(known ? asked : handshakes + sizeof handshakes - 1 - VERSION));
}

static void serve(struct server *s, const char *method, json_t *id, json_t *params)
{
    if (!strcmp(method, "tools/call"))
        tools_call(s, id, params);
    else if (!strcmp(method, "tools/list"))
        answer(s, id, json_pack("{s:o}", "tools", tools_list(s->commands, s->allow_run)));
    else if (!strcmp(method, "initialize"))
        answer(s, id, initialize(params));
    else if (!strcmp(method, "server/discover"))
        answer(s, id, about_us("supportedVersions", json_pack("[s]", "2026-07-28")));
    else if (!strcmp(method, "ping"))
        answer(s, id, json_object());
    else
        refuse(s, id, NO_METHOD, xstrdup("this method is not served: tools/list and tools/call are"));
}

static void take_message(struct server *s, json_t *m)
{
    json_t *id = json_object_get(m, "id"), *params = json_object_get(m, "params");
    const char *method = json_string_value(json_object_get(m, "method")),
               *rpc = json_string_value(json_object_get(m, "jsonrpc"));
    if (!rpc || strcmp(rpc, "2.0") || !method || (id && !json_is_string(id) && !json_is_integer(id)) ||
        (params && !json_is_object(params)))
        refuse(s, id, INVALID_REQUEST,
               xstrdup("a message is one object of JSON-RPC 2.0, with its parameters by name"));
    else if (id)
        serve(s, method, id, params);
    else if (!strcmp(method, "notifications/cancelled"))
        cancel(s, json_object_get(params, "requestId"));
}

void mcp_serve(const struct command *const *commands, bool allow_run)
{
    static struct server s;
    char *line = NULL;
    size_t room = 0;
    s.commands = commands;
    s.allow_run = allow_run;
    s.lock = memfd_create("lock", MFD_CLOEXEC);
    for (ssize_t n; (n = getline(&line, &room, stdin)) >= 0;) {
        json_error_t error;
        json_t *m = json_loadb(line, (size_t)n, 0, &error);
        if (m)
            take_message(&s, m);
        else if (strspn(line, " \t\r\n") < (size_t)n)
            refuse(&s, NULL, PARSE_ERROR,
                   xformat("no JSON at column %d: a message is one line of JSON", error.column));
        json_decref(m);
    }
    free(line);
    while (waitpid(-1, NULL, 0) > 0) /* what was asked is answered */
        ;
}
