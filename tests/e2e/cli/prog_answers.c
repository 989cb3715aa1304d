// link: journal
/*
 * prog_answers.c HOW DATABASE RANK - stands for a process that is recorded and answers requests of others as
 * HOW says, until the end comes on standard input.  Says "ready", and each request as a line.
 *
 *      does      carries out all
 *      refuses   suspends nothing
 *      late      its device's work does not end in time
 *      stays     suspends, and does not resume
 *      slow      takes a request, and answers after a line on standard input
 *      dies      takes a request and is killed
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "trace/journal/journal.h"

static const char *how;
static struct vs_journal *j;

static bool is(const char *word)
{
    return strcmp(how, word) == 0;
}

static struct vs_journal *begin(const char *path, const char *database, const char *rank)
{
    struct vs_journal_config c = {
        .ring_slots = 64, .database = database, .start_ns = vs_clock_ns(), .start_realtime_ns = 1};
    if (vs_journal_create(&j, path, &c) != 0)
        exit(3);
    vs_journal_set_fact(j, "command", "python train.py");
    vs_journal_set_fact(j, VS_FACT_CAME_TO_EXIT, "0");
    if (*rank)
        vs_journal_set_fact(j, "rank", rank);
    return j;
}

static void publish(void)
{
    vs_journal_publish(j, &(struct vs_now){.published_ns = vs_clock_ns()});
}

static void say(const struct vs_control_request *q)
{
    printf("%s roles=%x keep=%x to=%s timeout=%llu\n", q->kind == VS_CONTROL_SUSPEND ? "suspend" : "resume",
           q->roles, q->keep, q->to, (unsigned long long)q->timeout_ns);
    fflush(stdout);
}

/* Until a line comes; the process lives on meanwhile. */
static void wait_for_line(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    char c = 0;
    while (poll(&in, 1, 10) == 0)
        publish();
    while (read(0, &c, 1) == 1 && c != '\n')
        continue;
}

static void answer(const struct vs_control_request *q)
{
    bool away = q->kind == VS_CONTROL_SUSPEND;
    struct vs_control_answer a = {.number = q->number};
    if (is("dies"))
        kill(getpid(), SIGKILL);
    if (is("slow"))
        wait_for_line();
    if (is("refuses") || (is("stays") && !away)) {
        a.status = VS_CONTROL_REFUSED;
        strcpy(a.text, is("stays") ? "others have the memory" : "block 0x7f00 is mapped by\nanother process");
    } else if (is("late")) {
        a.status = VS_CONTROL_LATE;
        strcpy(a.text, "work of the device has not ended");
    } else {
        a.moved_bytes = UINT64_C(12) << 30;
        a.moving_ns = 250000000;
        a.host_ns = away ? 3100000000u : 0;
        a.left_bytes = away ? 0 : a.moved_bytes;
    }
    vs_journal_answer(j, &a);
}

int main(int argc, char **argv)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    struct vs_control_request q;
    char path[4096];
    if (argc != 4)
        return 2;
    how = argv[1];
    snprintf(path, sizeof path, "%s/answers-%d.vsj", getenv("VRAMSCOPE_JOURNAL_DIR"), (int)getpid());
    begin(path, argv[2], argv[3]);
    puts("ready");
    fflush(stdout);
    do {
        publish();
        if (vs_journal_requested(j, &q, vs_clock_ns())) {
            say(&q);
            answer(&q);
        }
    } while (poll(&in, 1, 5) == 0);
    unlink(path);
    return 0;
}
