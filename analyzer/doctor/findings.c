/*
 * findings.c - the list that the checks add to, from a child process, too, as a check may crash or hang; and
 * showing it.
 *
 * A child's findings come back through a pipe, one a record: verdict, topic, to-do, text, each ended by a
 * NUL.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/table.h"
#include "base/tool.h"
#include "base/page.h"
#include "doctor.h"

static const char *const verdicts[] = {"ok", "warn", "FAIL"}, *const json_verdicts[] = {"ok", "warn", "fail"};

void doctor_say(struct doctor *d, enum verdict verdict, const char *topic, const char *todo,
                const char *format, ...)
{
    va_list list;
    struct finding f = {.verdict = verdict, .topic = xstrdup(topic)};
    f.todo = todo && *todo ? xstrdup(todo) : NULL;
    va_start(list, format);
    if (vasprintf(&f.found, format, list) < 0)
        f.found = xstrdup("?");
    va_end(list);
    *PUSH(d->findings, d->count) = f;
}

static const struct finding *first_failure(const struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->findings[i].verdict == DOCTOR_FAIL)
            return &d->findings[i];
    return NULL;
}

/* What python3's PyTorch adds to it; nothing where there is none, or nobody asked. */
static const char *of_torch(unsigned facts)
{
    if (!(facts & DOCTOR_TORCH))
        return "";
    if (facts & DOCTOR_TORCH_CPU)
        return "; this python3's PyTorch uses no GPU";
    return facts & DOCTOR_TORCH_BLOCKS ? "; PyTorch tensor by tensor"
                                       : "; of PyTorch what it asks of the driver";
}

/* What will work here, of all that was found, in one line; the caller frees it. */
static char *verdict_line(const struct doctor *d)
{
    const struct finding *failure = first_failure(d);
    bool stacks = d->facts & DOCTOR_UNWINDER && d->facts & DOCTOR_FIND_OBJECT;
    if (failure)
        return xformat("nothing can be recorded here: %s: %s", failure->topic, failure->found);
    if (!(d->facts & DOCTOR_DEVICE))
        return xformat(
            "no GPU can be used here, so there is nothing to record; recordings made elsewhere can be read%s",
            d->facts & DOCTOR_GNUPLOT ? "" : ", and plotted as text");
    if (d->facts & DOCTOR_SIMULATED)
        return xstrdup(
            "programs of CUDA's driver API can be recorded here, on the simulated driver; PyTorch can't "
            "use that one, and no figure is a GPU's");
    return xformat(
        "programs that use the GPU can be recorded here, if they are not linked statically, %s native "
        "call stacks%s",
        stacks ? "with" : "without", of_torch(d->facts));
}

void doctor_text(const struct doctor *d)
{
    struct table t;
    table_init(&t, "<<<", NULL);
    t.sentences = true;
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        table_cell(&t, "%s", verdicts[f->verdict]);
        table_cell(&t, "%s", f->topic);
        table_cell(&t, "%s", f->found);
        if (!f->todo)
            continue;
        table_cell(&t, "%s", "");
        table_cell(&t, "%s", "");
        table_cell(&t, "-> %s", f->todo);
    }
    wrap_page_begin(false);
    table_print(&t, stdout, 0);
    table_free(&t);
    char *verdict = verdict_line(d);
    printf("so: %s\n", verdict);
    wrap_page_end();
    free(verdict);
}

void doctor_json(const struct doctor *d, enum verdict worst)
{
    struct json j;
    json_document(&j, stdout);
    json_text(&j, "verdict", json_verdicts[worst]);
    char *works = verdict_line(d);
    json_text(&j, "works", works);
    free(works);
    json_begin(&j, "findings", '[');
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        json_begin(&j, NULL, '{');
        json_text(&j, "verdict", json_verdicts[f->verdict]);
        json_text(&j, "topic", f->topic);
        json_text(&j, "found", f->found);
        json_text(&j, "todo", f->todo);
        json_end(&j);
    }
    json_close(&j);
}

void doctor_free(struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->findings[i].topic);
        free(d->findings[i].found);
        free(d->findings[i].todo);
    }
    free(d->findings);
}

/* ---- in a child process ---- */

static void send_findings(int fd, const struct doctor *d)
{
    FILE *out = fdopen(fd, "w");
    if (out)
        fprintf(out, "%u%c", d->facts, 0);
    for (size_t i = 0; out && i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        fprintf(out, "%d%c%s%c%s%c%s%c", (int)f->verdict, 0, f->topic, 0, f->todo ? f->todo : "", 0, f->found,
                0);
    }
    if (out)
        fclose(out);
}

static void take_findings(struct doctor *d, const char *text, size_t length)
{
    const char *end = text + length, *field[4];
    d->facts |= length ? (unsigned)atoi(text) : 0;
    text += strlen(text) + 1;
    while (text < end) {
        for (int i = 0; i < 4; i++) {
            if (text >= end)
                return;
            field[i] = text;
            text += strlen(text) + 1;
        }
        doctor_say(d, (enum verdict)atoi(field[0]), field[1], field[2], "%s", field[3]);
    }
}

bool doctor_child(struct doctor *d, void (*function)(struct doctor *), int seconds, char *why,
                  size_t why_size)
{
    static char text[65536];
    int fd;
    size_t length;
    pid_t pid = tool_fork(&fd);
    if (pid == 0) {
        struct doctor mine = {.output = d->output, .quick = d->quick};
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1); /* hides messages of drivers */
        dup2(null, 2);
        function(&mine);
        send_findings(fd, &mine);
        _exit(0);
    }
    if (pid < 0) {
        snprintf(why, why_size, "no child process: %s", strerror(errno));
        return false;
    }
    int status = tool_read(pid, fd, seconds, text, sizeof text, &length);
    if (status == 0)
        take_findings(d, text, length);
    else if (status == 124)
        snprintf(why, why_size, "no answer within %d s", seconds);
    else
        snprintf(why, why_size, status > 128 ? "crashed (signal %d)" : "ended with status %d",
                 status > 128 ? status - 128 : status);
    return status == 0;
}
