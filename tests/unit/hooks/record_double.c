/*
 * record_double.c - stands in for record.c and the journal: events go to an array that the test reads.
 *
 * It does what the hooks must survive: it changes errno wherever it is called.
 */
#include "record_double.h"

#include <errno.h>

#include "hooks/cuda.h"

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
bool vs_record_start(void)
{
    started = true;
    return true;
}
struct vs_journal *vs_record_journal(void)
{
    return started ? (struct vs_journal *)&record_log : NULL;
}
void vs_record_simulated(bool simulated)
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
void vs_stack_prepare(void)
{
    errno = 12;
    record_log.prepared++;
}
uint8_t vs_journal_context(struct vs_journal *j, uint64_t handle, int32_t device)
{
    return (uint8_t)++record_log.contexts;
}
void vs_journal_device(struct vs_journal *j, const struct vs_device_row *row)
{
    record_log.devices++;
    record_log.device = *row;
}

__attribute__((constructor)) static void start(void)
{
    vs_hooks_init();
}
