/*
 * torch_facts.c - what Python says of PyTorch's allocator: its settings, and what the program does to it.
 *
 * What is said before the recording begins waits here and is recorded with the first block's report; so does
 * what the environment said when the library was loaded, which is all that there is without Python.  Whoever
 * says something holds Python's lock, so one thread at a time appends entries.  The thread that records takes
 * all of them at once, without a lock.
 *
 *      vs_torch_facts_waiting      0, 1, 2 ... n entries ──▶ TAKEN, read by one thread ──▶ 0
 */
#include "torch.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "record/record.h"
#include "vramscope.h"

/* Python's: what happens, to a device (-1: all), with a number, or (VS_OP_FRAMEWORK_FACT) a row of table
 * meta.  1, or 0 where nothing is recorded and nothing more can wait. */
VRAMSCOPE_API int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more,
                                           const char *key, const char *value);

#define FACTS_MOST 34
#define TAKEN      UINT_MAX
#define PATIENCE   1000 /* a fork child may have its parent's TAKEN, which nobody ends */

struct fact {
    struct vs_event event;
    char key[40], value[700]; /* of where a pool is made its call stack */
};

static struct fact waiting[FACTS_MOST];
_Atomic unsigned vs_torch_facts_waiting;

/* The call stack of TEXT: frames from the innermost outward, "FUNCTION\tLINE\tFILE\n" each. */
static uint32_t stack_of(struct vs_journal *j, const char *text)
{
    uint32_t stack = 0;
    const char *end = text + strlen(text);
    while (vs_options.stacks != VS_STACKS_OFF && end > text && end[-1] == '\n') {
        const char *behind = --end, *from = end;
        while (from > text && from[-1] != '\n')
            from--;
        const char *line = memchr(from, '\t', (size_t)(behind - from));
        const char *tab = line ? memchr(line + 1, '\t', (size_t)(behind - line - 1)) : NULL;
        if (!tab)
            break;
        uint32_t function = vs_journal_string(j, from, (size_t)(line - from));
        uint32_t file = vs_journal_string(j, tab + 1, (size_t)(behind - tab - 1));
        uint32_t frame = vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, (uint32_t)atoi(line + 1));
        stack = frame ? vs_journal_stack(j, stack, frame) : stack;
        end = from;
    }
    return stack;
}

static void record(struct vs_journal *j, const struct fact *f)
{
    struct vs_event event = f->event;
    if (event.op == VS_OP_POOL_BEGIN)
        event.stack = stack_of(j, f->value);
    if (event.op == VS_OP_FRAMEWORK_FACT) {
        event.address = vs_journal_string(j, f->key, strlen(f->key));
        event.size = vs_journal_string(j, f->value, strlen(f->value));
    }
    vs_record(&event);
}

void vs_torch_facts_record(void)
{
    struct vs_journal *j = vs_record_enabled() ? vs_record_journal() : NULL;
    if (!j)
        return;
    int saved = errno;
    unsigned n = atomic_load_explicit(&vs_torch_facts_waiting, memory_order_relaxed);
    /* acquire: pairs with the release behind the last entry's writing */
    while (n != 0 && n != TAKEN &&
           !atomic_compare_exchange_weak_explicit(&vs_torch_facts_waiting, &n, TAKEN, memory_order_acquire,
                                                  memory_order_relaxed)) {
    }
    if (n != 0 && n != TAKEN) {
        for (unsigned i = 0; i < n; i++)
            record(j, &waiting[i]);
        /* release: the entries are read */
        atomic_store_explicit(&vs_torch_facts_waiting, 0, memory_order_release);
    }
    errno = saved;
}

static void copy(char *to, size_t room, const char *from)
{
    size_t n = from ? strlen(from) : 0;
    n = n < room ? n : room - 1;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

/* The recording's journal, when what waited for it is in it; NULL: there is none. */
static struct vs_journal *begun(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        if (atomic_load_explicit(&vs_torch_facts_waiting, memory_order_acquire) != TAKEN)
            break;
        sched_yield();
    }
    return vs_record_enabled() ? vs_record_journal() : NULL;
}

/* false: there is no room, or the others have just been taken. */
static bool keep(const struct fact *f)
{
    unsigned n = atomic_load_explicit(&vs_torch_facts_waiting, memory_order_acquire);
    if (n >= FACTS_MOST)
        return false;
    waiting[n] = *f;
    return atomic_compare_exchange_strong_explicit(&vs_torch_facts_waiting, &n, n + 1, memory_order_release,
                                                   memory_order_relaxed);
}

/* The text behind NAME= in ENVIRONMENT; NULL: it is not there. */
static const char *text_of(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; environment && *environment; environment++)
        if (!strncmp(*environment, name, n) && (*environment)[n] == '=')
            return *environment + n;
    return NULL;
}

/* "=TEXT", or nothing where the variable is not set: both are to be told from a recording that does not know.
 */
static void keep_variable(char *const *environment, const char *name, const char *key)
{
    const char *text = text_of(environment, name);
    struct fact f = {.event = {.op = VS_OP_FRAMEWORK_FACT, .device = VS_DEVICE_UNKNOWN}};
    if (text && strlen(text) >= sizeof f.value)
        return; /* a part of it would be another setting */
    copy(f.key, sizeof f.key, key);
    copy(f.value, sizeof f.value, text);
    keep(&f);
}

void vs_torch_facts_init(char *const *environment)
{
    keep_variable(environment, "PYTORCH_CUDA_ALLOC_CONF", "environment_torch_cuda_alloc_conf");
    keep_variable(environment, "PYTORCH_ALLOC_CONF", "environment_torch_alloc_conf");
}

static bool is_said_by_python(unsigned op)
{
    return op == VS_OP_EMPTY_CACHE || op == VS_OP_MEMORY_LIMIT || op == VS_OP_POOL_BEGIN ||
           op == VS_OP_POOL_END || op == VS_OP_FRAMEWORK_FACT || op == VS_OP_BLOCK_SHARED;
}

int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more, const char *key,
                             const char *value)
{
    if (!is_said_by_python(op) || device > INT8_MAX)
        return 0;
    int saved = errno;
    struct fact f = {.event = {.op = (uint8_t)op, .device = (int8_t)device, .arg0 = more}};
    if (op == VS_OP_POOL_BEGIN && more) /* of a stream that is captured, which is the thread's current one */
        f.event.arg0 = (uint64_t)vs_torch_stream((int8_t)device) << 1 | 1;
    if (op == VS_OP_BLOCK_SHARED)
        f.event.arg0 = more ? vs_torch_stream_number((int64_t)more) : 1;
    if (op == VS_OP_MEMORY_LIMIT)
        f.event.size = number;
    else
        f.event.address = number;
    copy(f.key, sizeof f.key, key);
    copy(f.value, sizeof f.value, value);
    vs_torch_facts_due();
    struct vs_journal *j = begun();
    bool kept = j == NULL && op != VS_OP_BLOCK_SHARED && keep(&f);
    if (!kept && j == NULL && op != VS_OP_BLOCK_SHARED)
        j = begun();
    if (j != NULL)
        record(j, &f);
    errno = saved;
    return kept || j != NULL;
}
