/*
 * record_double.c - stands in for record.c and the journal: events go to an array that the test reads.
 *
 * It does what the hooks must survive: it changes errno wherever it is called.
 */
#define _GNU_SOURCE
#include "record_double.h"

#include <errno.h>
#include <stdio.h>

#include "core/log.h"
#include "hooks/driver.h"
#include "hooks/hook.h"
#include "hooks/symbols/symbols.h"
#include "sample/sampler.h"
#include "trace/journal/claim.h"
#include "trace/journal/journal.h"
#include "record/block.h"
#include "record/record.h"

void vs_log_verbose(const char *format, ...) {}

#define PUBLIC __attribute__((visibility("default")))

static struct vramscope_test_log record_log;
static _Atomic bool started;

PUBLIC struct vramscope_test_log *vramscope_test_log(void)
{
    return &record_log;
}
PUBLIC void *vramscope_test_real(const char *name)
{
    return vs_cuda_real(name);
}
PUBLIC int vramscope_test_seen(void)
{
    return vs_cuda_seen();
}

uint64_t vs_record(struct vs_event *event)
{
    errno = 11;
    if (record_log.closed)
        return VS_SEQ_NONE;
    int at = __atomic_fetch_add(&record_log.count, 1, __ATOMIC_RELAXED);
    record_log.events[at % VRAMSCOPE_TEST_EVENTS] = *event;
    return (uint64_t)at;
}
bool vs_record_enabled(void)
{
    return !record_log.disabled;
}
bool vs_record_takes(void)
{
    return !record_log.disabled;
}
bool vs_record_start(void)
{
    started = true;
    return true;
}
struct vs_journal *vs_record_journal(void)
{
    return started ? (struct vs_journal *)&record_log : NULL;
}
void vs_record_simulated(int simulated)
{
    record_log.simulated = simulated;
}
bool vs_sample_take_request(void)
{
    if (!record_log.sample_wanted)
        return false;
    record_log.sample_wanted = false;
    return true;
}
uint32_t vs_record_range(void)
{
    errno = 13;
    return 0;
}
bool vs_record_thread_is_autograd(void)
{
    return false;
}
void vs_record_get_ready(void)
{
    errno = 12;
    record_log.prepared++;
}
uint8_t vs_journal_context(struct vs_journal *j, uint64_t handle, int32_t device)
{
    return (uint8_t)++record_log.contexts;
}
void vs_journal_set_fact(struct vs_journal *j, const char *key, const char *value)
{
    snprintf(record_log.fact, sizeof record_log.fact, "%s", value);
}
uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    return (uint32_t)length;
}
/* Without VRAMSCOPE_ACCESS nothing is given. */
uint64_t vs_journal_append_uses(struct vs_journal *j, const struct vs_event *like, const uint64_t *word,
                                uint32_t n)
{
    return VS_SEQ_NONE;
}
struct vs_ring vs_journal_ring(const struct vs_journal *j)
{
    return (struct vs_ring){NULL, NULL, 0};
}
void vs_record_uses_nudge(void) {}
void vs_journal_untracked(struct vs_journal *j, uint64_t n)
{
    record_log.untracked += n;
}
void vs_journal_device(struct vs_journal *j, const struct vs_device_row *row)
{
    record_log.devices++;
    record_log.device = *row;
}
void vs_journal_stats(const struct vs_journal *j, struct vs_journal_stats *out)
{
    *out = (struct vs_journal_stats){.head = (uint64_t)record_log.count};
}
bool vs_journal_any(const struct vs_journal *j, uint64_t from, uint64_t to,
                    bool (*matters)(uint8_t op, uint8_t space))
{
    for (uint64_t i = from; i < to; i++)
        if (matters(record_log.events[i].op, record_log.events[i].space))
            return true;
    return false;
}
bool vs_used_now(int device, struct vs_used *used)
{
    errno = 13;
    record_log.used_asked++;
    *used = (struct vs_used){record_log.used, record_log.used, !record_log.used_hidden};
    return !record_log.used_hidden;
}
bool vs_used_first(int device, struct vs_used *used)
{
    return vs_used_now(device, used);
}
bool vs_used_alone(int device)
{
    errno = 14;
    return record_log.alone;
}
bool vs_query_time_spent(void)
{
    return record_log.spent;
}
void vs_query_took(uint64_t begin, uint64_t ns)
{
    errno = 15;
    record_log.asked_ns += ns;
}
bool vs_used_undecided(void)
{
    return false;
}
void vs_sample_soon(void) {}
uint64_t vs_used_cost(const struct vs_used *before, const struct vs_used *after)
{
    return after->process - before->process;
}

__attribute__((constructor)) static void start(void)
{
    vs_hooks_init();
}
