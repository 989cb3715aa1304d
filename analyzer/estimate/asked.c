/* asked.c - see asked.h. */
#include "asked.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 120, TEXT = 8192 };

/* ---- the process ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* What is written to FD, up to its end; false: the time is over. */
static bool read_until_end(int fd, char *text)
{
    int64_t deadline = now_ms() + SECONDS * INT64_C(1000);
    size_t n = 0;
    char rest[512];
    for (;;) {
        int64_t left = deadline - now_ms();
        struct pollfd p = {fd, POLLIN, 0};
        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return false;
        bool room = n + 1 < TEXT;
        ssize_t got = read(fd, room ? text + n : rest, room ? TEXT - 1 - n : sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += room ? (size_t)got : 0;
    }
    text[n] = '\0';
    return true;
}

/* In the child. */
static void begin(int fd, char *const *arguments)
{
    static const char *const settings[] = {
        "HF_HUB_OFFLINE=1",      "TRANSFORMERS_OFFLINE=1",    "TRANSFORMERS_VERBOSITY=error",
        "PYTHONWARNINGS=ignore", "PYTHONDONTWRITEBYTECODE=1", "CUDA_VISIBLE_DEVICES="};
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    dup2(null, 0);
    dup2(fd, 1);
    dup2(null, 2);
    unsetenv("LD_PRELOAD");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        putenv((char *)settings[i]);
    execvp(arguments[0], arguments);
    _exit(127);
}

/* Its exit status; 124: it took too long, 127: there is no such program. */
static int run(char *const *arguments, char *text)
{
    int ends[2], status;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 126;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        begin(ends[1], arguments);
    close(ends[1]);
    bool ended = pid > 0 && read_until_end(ends[0], text);
    close(ends[0]);
    if (pid < 0)
        return 126;
    if (!ended)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return !ended ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- what it says ---- */

struct said {
    char class[80], version[40];
    int64_t words, tied;
};

static bool take_text(const char *word, const char *value, const char *name, char *out, size_t size)
{
    if (strcmp(word, name) != 0)
        return false;
    snprintf(out, size, "%s", value);
    return true;
}

static void take_line(struct model *m, struct said *s, const char *word, const char *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {{"parameters", &m->parameters},
                   {"trained", &m->trained},
                   {"frozen", &m->frozen},
                   {"quantized", &m->quantized},
                   {"bytes", &m->quantized_bytes},
                   {"active", &m->active},
                   {"embedding", &m->embedding},
                   {"largest", &m->layer},
                   {"layers", &m->layers},
                   {"hidden", &m->hidden},
                   {"outputs", &m->outputs},
                   {"words", &s->words},
                   {"tied", &s->tied}};
    char *end;
    if (take_text(word, value, "class", s->class, sizeof s->class) ||
        take_text(word, value, "version", s->version, sizeof s->version))
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t n = strtoll(value, &end, 10);
        if (!strcmp(word, numbers[i].name) && !*end && n >= 0 && n < INT64_C(1) << 50)
            *numbers[i].to = n;
    }
}

/* 0, or -1 with the child's own reason. */
static int take(struct model *m, struct said *s, char *text, char *why, size_t size)
{
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = '\0';
        if (!strcmp(line, "why")) {
            snprintf(why, size, "%s", value);
            return -1;
        }
        take_line(m, s, line, value);
    }
    return 0;
}

static void finish(struct model *m, const struct said *s)
{
    m->kind = MODEL_OTHER;
    m->words = s->words == 1;
    m->tied = m->words && s->tied == 1;
    m->vocab = m->words ? m->outputs : UNKNOWN;
    m->outputs = m->words ? m->outputs : UNKNOWN; /* nobody knows its loss */
    snprintf(m->counted_by, sizeof m->counted_by, "%.40s of transformers %.20s", s->class, s->version);
}

int model_ask(struct model *m, const char *path, const struct asked_options *o, char *why, size_t size)
{
    char *lora = xformat("--lora=%s", o->lora ? o->lora : ""),
         *qlora = xformat("--qlora=%s", o->qlora ? o->qlora : ""),
         *frozen = xformat("--frozen=%s", o->frozen ? o->frozen : ""), *text = xrealloc(NULL, TEXT);
    char *arguments[8] = {(char *)"python3", (char *)o->script, (char *)path};
    int n = 3;
    if (o->lora)
        arguments[n++] = lora;
    if (o->qlora)
        arguments[n++] = qlora;
    if (o->frozen)
        arguments[n++] = frozen;
    char type[sizeof m->type];
    memcpy(type, m->type, sizeof type);
    *m = model_none();
    memcpy(m->type, type, sizeof type);
    struct said s = {.words = 0};
    text[0] = '\0';
    int status = run(arguments, text);
    int result = status ? -1 : take(m, &s, text, why, size);
    if (status == 127)
        snprintf(why, size,
                 "there is no python3 in PATH, whose transformers would count them by the model's own code");
    else if (status)
        snprintf(why, size, "python3 with the model's own code %s",
                 status == 124 ? "took more than two minutes"
                               : "failed: import transformers in it to see why");
    if (!result && (m->parameters == UNKNOWN || m->trained == UNKNOWN || m->frozen == UNKNOWN ||
                    m->quantized == UNKNOWN || m->quantized_bytes == UNKNOWN)) {
        snprintf(why, size, "python3 with the model's own code gave no count");
        result = -1;
    }
    if (!result)
        finish(m, &s);
    free(lora);
    free(qlora);
    free(frozen);
    free(text);
    return result;
}
