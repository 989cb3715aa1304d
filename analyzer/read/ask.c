/* ask.c - see ask.h. */
#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/clock.h"

static void cut_short(void *live)
{
    ((struct live *)live)->cut = 1;
}

/* Maps the journal of L anew, writable. */
static int map_writable(struct live *l, int fd)
{
    struct vs_journal *j;
    struct vs_journal_stats stats;
    int code = vs_journal_open_fd(&j, fd, true);
    if (code < 0)
        return code;
    vs_journal_stats(j, &stats);
    vs_journal_close(l->map);
    l->map = j;
    vs_journal_guard(j, cut_short, l);
    return stats.pid == l->pid ? 0 : -ENOENT; /* else another has come under its name */
}

bool ask_open(struct ask *a, const char *journal, char *why, size_t size)
{
    *a = (struct ask){.fd = -1};
    if (!live_open(&a->live, journal, why, size))
        return false;
    a->fd = open(journal, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    int code = a->fd < 0 ? -errno : map_writable(&a->live, a->fd);
    if (code == 0 && vs_journal_can_ask(a->live.map))
        return true;
    if (code < 0)
        snprintf(why, size, "%s can't be opened: %s", journal, strerror(-code));
    else
        snprintf(why, size, "pid %lld records with an older vramscope, which can't be asked: start it again",
                 (long long)a->live.pid);
    ask_close(a);
    return false;
}

void ask_close(struct ask *a)
{
    live_close(&a->live);
    if (a->fd >= 0)
        close(a->fd); /* and with it the lock */
    free(a->why);
    *a = (struct ask){.fd = -1};
}

void ask_begin(struct ask *a, const struct vs_control_request *request)
{
    free(a->why);
    a->why = NULL;
    a->request = *request;
    a->answer = (struct vs_control_answer){0};
    a->until_ns = vs_clock_ns() + request->timeout_ns;
    a->state = ASK_TURN;
}

static bool over(struct ask *a, enum ask_state state, char *why)
{
    a->state = state;
    a->why = why;
    return true;
}

/* Takes the turn and asks, where nobody else does. */
static void try_to_ask(struct ask *a)
{
    a->locked = a->locked || flock(a->fd, LOCK_EX | LOCK_NB) == 0;
    if (a->locked && (a->number = vs_journal_ask(a->live.map, &a->request, a->until_ns)) != 0)
        a->state = ASK_WAITS;
}

static char *late_line(const struct ask *a)
{
    long long pid = (long long)a->live.pid;
    char *line = live_line(&a->live), *why;
    if (a->state == ASK_TURN)
        why = xformat("another request to pid %lld is under way: try again, or with a longer --timeout", pid);
    else if (line)
        why = xformat("%s; the request is withdrawn", line);
    else
        why = xformat("pid %lld has not noticed the request, which is withdrawn: try again, or with a longer "
                      "--timeout",
                      pid);
    free(line);
    return why;
}

/* Its time is over. */
static bool too_late(struct ask *a)
{
    if (a->state == ASK_WAITS && !vs_journal_withdraw(a->live.map, a->number))
        return false; /* it was taken just now */
    return over(a, ASK_LATE, late_line(a));
}

/* What can be said of a process that will not answer any more; false: it may. */
static bool is_gone(struct ask *a)
{
    live_look(&a->live);
    bool gone = a->live.state == LIVE_ENDED || a->live.state == LIVE_KILLED || a->live.state == LIVE_CUT;
    bool stands = a->live.state == LIVE_SILENT && ask_takes_long(a);
    if (!gone && !stands)
        return false;
    return over(a, ASK_LOST, live_line(&a->live));
}

bool ask_takes_long(const struct ask *a)
{
    return a->state == ASK_TAKEN && vs_clock_ns() > a->until_ns;
}

static bool look_at_request(struct ask *a)
{
    switch (vs_journal_request_state(a->live.map, a->number, &a->answer)) {
    case VS_REQUEST_ANSWERED:
        return over(a, ASK_ANSWERED, NULL);
    case VS_REQUEST_TAKEN:
        a->state = ASK_TAKEN;
        return false;
    case VS_REQUEST_WAITS:
        return false;
    case VS_REQUEST_DROPPED: /* the page was wiped, or the process saw it as late as this one would have */
        break;
    }
    return is_gone(a) || over(a, ASK_LATE, late_line(a));
}

bool ask_look(struct ask *a)
{
    if (a->state >= ASK_ANSWERED)
        return true;
    if (a->state == ASK_TURN)
        try_to_ask(a);
    if (a->state != ASK_TURN && look_at_request(a))
        return true;
    if (is_gone(a))
        return true;
    return a->state < ASK_TAKEN && vs_clock_ns() > a->until_ns && too_late(a);
}
