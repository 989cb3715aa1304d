/* tail.c - see tail.h. */
#include "tail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 50 /* between two looks whether the program has ended */

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

int tail_begin(struct tail *t, bool shown)
{
    *t = (struct tail){.shown = shown};
    return pipe2(t->ends, O_CLOEXEC) ? errno : 0;
}

void tail_started(struct tail *t)
{
    sigset_t all, mask;
    close(t->ends[1]);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask); /* signals are for the thread that forwards them */
    t->running = pthread_create(&t->thread, NULL, read_all, t) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

char *tail_end(struct tail *t, int lines)
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
