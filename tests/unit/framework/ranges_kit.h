/*
 * ranges_kit.h - a recorder for tests of ranges that keeps its events in an array, and a journal of strings
 * alone.
 *
 * `log_` has the `logged` events since the test began; `started`, `enabled` and `window` are what the
 * recorder takes, `task` which backward runs.  A test calls vs_range_current by way of a check that a block's
 * report would find the same.  T(test) begins with no open range, as the lead thread.
 */
#ifndef TESTS_UNIT_FRAMEWORK_RANGES_KIT_H
#define TESTS_UNIT_FRAMEWORK_RANGES_KIT_H

#include <pthread.h>
#include <string.h>

#include "unit/test.h"
#include "core/hot.h"
#include "core/options.h"
#include "framework/autograd.h"
#include "framework/ranges.h"

/* ---- the recorder ---- */

static struct vs_event log_[4096];
static unsigned logged;
static bool started = true, enabled = true, window = true;
static char strings[1024][64];
static unsigned string_count = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* What a block's report finds without asking (record/block.h) is what it would be answered. */
static inline uint32_t vs_range_current_checked(void)
{
    uint32_t answer = vs_range_current(), own = vs_self.range;
    const uint32_t *lead = vs_hot.lead;
    uint32_t found = own ? own : lead ? *lead : 0;
    assert_true(own == VS_RANGE_UNKNOWN || found == answer);
    return answer;
}

#define vs_range_current vs_range_current_checked

uint64_t vs_record(struct vs_event *event)
{
    if (!started || !window || !enabled)
        return VS_SEQ_NONE;
    if (event->op != VS_OP_RANGE_PUSH && event->op != VS_OP_RANGE_POP)
        event->range = vs_range_current();
    pthread_mutex_lock(&mutex);
    uint64_t seq = logged;
    log_[logged++ % 4096] = *event;
    pthread_mutex_unlock(&mutex);
    return seq;
}

bool vs_record_enabled(void)
{
    return enabled;
}

bool vs_record_takes(void)
{
    return enabled && window;
}

static uint64_t lost[256];

void vs_journal_count_lost(struct vs_journal *j, uint8_t op)
{
    lost[op]++;
}

static uint64_t lost_ranges; /* atomic */

void vs_journal_lost_range(struct vs_journal *j)
{
    __atomic_fetch_add(&lost_ranges, 1, __ATOMIC_RELAXED);
}

struct vs_journal *vs_record_journal(void)
{
    return started ? (struct vs_journal *)log_ : NULL;
}

uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    pthread_mutex_lock(&mutex);
    uint32_t id = 0;
    for (unsigned i = 1; i < string_count && !id; i++)
        if (strlen(strings[i]) == length && !memcmp(strings[i], text, length))
            id = i;
    if (!id && string_count < 1024 && length < 64) {
        memcpy(strings[string_count], text, length);
        id = string_count++;
    }
    pthread_mutex_unlock(&mutex);
    return id;
}

/* A layer's frame has its path's number. */
uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line)
{
    return kind == VS_FRAME_LAYER ? function : 0;
}

struct vs_options vs_options = {.stacks = VS_STACKS_PYTHON};
static int task = -1; /* the backward that runs */

int vs_autograd_task(void)
{
    return task;
}

/* ---- ranges by name ---- */

static inline uint32_t vs_range_push(const char *name, const char *domain, enum vs_range_source source)
{
    size_t length = name ? strlen(name) : 0;
    struct vs_range_names names = {.name = vs_name_intern(name ? name : "", length),
                                   .domain = domain ? vs_name_intern(domain, strlen(domain)) : NULL,
                                   .text = name ? name : "",
                                   .length = length};
    int depth;
    return vs_range_open(&names, source, &depth);
}

static inline int vs_range_pop(const char *domain, enum vs_range_source source)
{
    return vs_range_close(domain ? vs_name_intern(domain, strlen(domain)) : NULL, source);
}

static inline int setup(void **state)
{
    while (vs_range_pop(NULL, VS_SOURCE_MARKER) >= 0 || vs_range_pop(NULL, VS_SOURCE_AUTO) >= 0 ||
           vs_range_pop(NULL, VS_SOURCE_NVTX) >= 0)
        ;
    started = enabled = window = true;
    vs_range_lead();
    vs_range_current();
    logged = 0;
    return 0;
}

static inline const char *name_of(const struct vs_event *e)
{
    return strings[e->address];
}

/* ---- of a test ---- */

#define MARKER VS_SOURCE_MARKER
#define NVTX   VS_SOURCE_NVTX
#define AUTO   VS_SOURCE_AUTO

static uint32_t seen;

static inline void *ask(void *arg)
{
    seen = vs_range_current();
    return NULL;
}

static inline uint32_t from_another_thread(void)
{
    pthread_t t;

    pthread_create(&t, NULL, ask, NULL);
    pthread_join(t, NULL);
    return seen;
}

#endif
