/*
 * child.c - checks that may crash or hang, in a child process.  Its findings come back through a pipe, one a
 * record: verdict, topic, to-do, text, each ended by a NUL.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "doctor.h"

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
