/*
 * standins.h - what record.c needs of its neighbours, as small as it gets: a writer that puts the events into
 * the database's file as they are, one fixed range, one fixed stack.
 */
#ifndef TESTS_UNIT_RECORD_STANDINS_H
#define TESTS_UNIT_RECORD_STANDINS_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/record.h"
#include "sample/sampler.h"
#include "trace/writer/writer.h"

struct vs_writer {
    struct vs_journal *j;
    char path[4096];
};

static _Atomic int writer_error;   /* what opening and draining answer, when not 0 */
static _Atomic int writer_refused; /* how often they answered it */
static _Atomic bool closed_clean, said_simulated;

int vs_writer_open(struct vs_writer **out, const struct vs_database *config, struct vs_journal *journal,
                   char *why, size_t why_size)
{
    if (writer_error) {
        writer_refused++;
        snprintf(why, why_size, "stand-in fails");
        return writer_error;
    }
    *out = calloc(1, sizeof **out);
    (*out)->j = journal;
    snprintf((*out)->path, sizeof(*out)->path, "%s", config->path);
    return 0;
}

long vs_writer_drain(struct vs_writer *w, bool final)
{
    enum { BATCH = 1000 };
    static struct vs_event events[BATCH];
    static uint64_t seqs[BATCH];
    if (writer_error) {
        writer_refused++;
        return writer_error;
    }
    size_t n = vs_journal_peek(w->j, events, seqs, BATCH, final);
    if (n == 0)
        return 0;
    int fd = open(w->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t done = write(fd, events, n * sizeof *events);
    close(fd);
    if (done != (ssize_t)(n * sizeof *events))
        return -EIO;
    vs_journal_release(w->j, seqs[n - 1]);
    return (long)n;
}

void vs_writer_alone(void) {}

bool vs_writer_broken(void)
{
    return false;
}

void vs_writer_loss(struct vs_writer *w, uint64_t events, enum vs_loss what, const char *why) {}

void vs_writer_set_simulated(struct vs_writer *w, int simulated, const char *dry)
{
    said_simulated = simulated;
}

int vs_writer_fact(struct vs_writer *w, const char *key, const char *value)
{
    return 0;
}

#ifndef OWN_BLOCKS
size_t vs_writer_blocks(const struct vs_writer *w, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named)
{
    *named = 0;
    return 0;
}
#endif

uint64_t vs_writer_beside(const struct vs_writer *w, char *text, size_t size)
{
    snprintf(text, size, "libnccl.so.2 1.00 MiB");
    return 1 << 20;
}

int vs_writer_close(struct vs_writer *w, bool clean)
{
    closed_clean = clean;
    free(w);
    return 0;
}

static uint32_t standin_range(void)
{
    return 17;
}

static uint32_t standin_stack(struct vs_journal *j, int skip)
{
    return 23;
}

static uint32_t standin_python(struct vs_journal *j)
{
    return 29;
}

static uint64_t standin_context(void)
{
    return 0;
}

static bool standin_used(uint64_t context, int *device, uint64_t *bytes)
{
    return false;
}

/* The sampler is the real one. */
static __attribute__((constructor)) void standins_supply(void)
{
    vs_suppliers.range = standin_range;
    vs_suppliers.stack = standin_stack;
    vs_suppliers.python_stack = standin_python;
    vs_suppliers.second_thread = vs_sampler_run;
    vs_suppliers.last_look = vs_sampler_last_look;
    vs_sampler_init((struct vs_sampler_driver){standin_context, standin_used});
}

#endif
