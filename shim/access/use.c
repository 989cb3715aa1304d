/*
 * use.c - see use.h: the rows of living blocks, and the phase, step and name of a use.
 *
 * The phase of a use is that of the range that an event of the thread would have.  Ranges are numbers; the
 * phase of a range is known from its push event.  The last 4096 pushes that named a phase are remembered
 * here, and each thread keeps its last look-up.
 */
#define _GNU_SOURCE
#include "use.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "record/record.h"

_Atomic uint64_t vs_use_lowest = UINT64_MAX, vs_use_highest;
struct vs_access_row *vs_use_rows;

#define PHASES 4096u

static struct {
    struct vs_journal *journal;
    _Atomic uint64_t phase[PHASES]; /* by range % PHASES: range << 32 | string id of its phase */
    _Atomic uint32_t step;          /* the present step, from 1 */
    _Atomic uint32_t *reaching;     /* how often vs_use_reaching was called */
    _Atomic uint32_t known[6]; /* string ids of the phases that have bits of their own; the first: none */
    uint32_t generation;       /* of the look-ups that threads keep */
} all;

/* A thread's last look-up. */
static __thread struct {
    uint32_t generation, range;
    uint32_t phase;
    uint8_t phases;
    bool autograd;
} mine __attribute__((tls_model("initial-exec")));

static const char *const known_name[6] = {NULL, "forward", "logits", "backward", "optimizer", "evaluation"};

void vs_access_begin(struct vs_journal *j)
{
    if (all.journal != NULL)
        vs_living_reset();
    for (uint32_t i = 0; i < PHASES; i++)
        atomic_store_explicit(&all.phase[i], 0, memory_order_relaxed);
    for (uint32_t i = 1; i < 6; i++)
        atomic_store_explicit(&all.known[i], vs_journal_string(j, known_name[i], strlen(known_name[i])),
                              memory_order_relaxed);
    atomic_store_explicit(&all.step, 1, memory_order_relaxed);
    atomic_store_explicit(&vs_use_lowest, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&vs_use_highest, 0, memory_order_relaxed);
    all.generation++;
    all.journal = j;
    all.reaching = vs_journal_access_reached(j);
    vs_use_rows = vs_journal_access(j, 1);
    if (vs_use_rows != NULL)
        vs_use_rows--;
}

/* ---- ranges, steps ---- */

static uint8_t bit_of(uint32_t phase)
{
    for (uint32_t i = 1; i < 6; i++)
        if (phase == atomic_load_explicit(&all.known[i], memory_order_relaxed))
            return (uint8_t)(1u << i);
    return phase == 0 ? VS_ACCESS_IN_NONE : VS_ACCESS_IN_OTHER;
}

static void pushed(const struct vs_event *push)
{
    uint32_t name = push->stack ? push->stack : (uint32_t)push->address;
    if (push->arg1 & VS_RANGE_NAMES_PHASE)
        atomic_store_explicit(&all.phase[push->range % PHASES], (uint64_t)push->range << 32 | name,
                              memory_order_relaxed);
}

static void stepped(const struct vs_event *step)
{
    atomic_fetch_add_explicit(&all.step, (uint32_t)step->arg0 + 1, memory_order_relaxed);
}

static __attribute__((noinline)) void look_up_phase(uint32_t range)
{
    uint64_t known = atomic_load_explicit(&all.phase[range % PHASES], memory_order_relaxed);
    if (mine.generation != all.generation)
        mine.autograd = vs_record_thread_is_autograd();
    mine.generation = all.generation;
    mine.range = range;
    if (range != 0) {
        mine.phase = known >> 32 == range ? (uint32_t)known : 0;
        mine.phases = known >> 32 == range ? bit_of((uint32_t)known) : VS_ACCESS_IN_OTHER;
    } else {
        mine.phase = mine.autograd ? atomic_load_explicit(&all.known[3], memory_order_relaxed) : 0;
        mine.phases = mine.autograd ? VS_ACCESS_IN_BACKWARD : VS_ACCESS_IN_NONE;
    }
}

struct vs_use vs_use_begin(uint32_t name, uint16_t kinds)
{
    uint32_t range = vs_record_range();
    if (__builtin_expect(mine.range != range || mine.generation != all.generation, 0))
        look_up_phase(range);
    return (struct vs_use){.now = vs_event_clock_of(&vs_self.clock),
                           .name = name,
                           .phase = mine.phase,
                           .step = atomic_load_explicit(&all.step, memory_order_relaxed),
                           .kinds = kinds,
                           .phases = mine.phases,
                           .sure = true};
}

/* ---- blocks ---- */

static void widen(uint64_t start, uint64_t end)
{
    /* Relaxed: each bound only moves outwards, and a thread that uses a block is synchronized with the one
     * that made it. */
    uint64_t seen = atomic_load_explicit(&vs_use_lowest, memory_order_relaxed);
    while (start < seen && !atomic_compare_exchange_weak_explicit(&vs_use_lowest, &seen, start,
                                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    seen = atomic_load_explicit(&vs_use_highest, memory_order_relaxed);
    while (end > seen && !atomic_compare_exchange_weak_explicit(&vs_use_highest, &seen, end,
                                                                memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Whether the event's memory is tracked: device memory with an address that kernels can get. */
static bool followed(const struct vs_event *e)
{
    return e->op == VS_OP_BLOCK_ALLOC || e->op == VS_OP_BLOCK_FREE || e->space == VS_SPACE_DEVICE ||
           e->space == VS_SPACE_POOL || e->space == VS_SPACE_MANAGED || e->space == VS_SPACE_GRAPH ||
           e->space == VS_SPACE_ARENA;
}

static enum vs_living map_of(uint8_t op)
{
    return op == VS_OP_BLOCK_ALLOC || op == VS_OP_BLOCK_FREE ? VS_LIVING_FRAMEWORK : VS_LIVING_DRIVER;
}

static void born(const struct vs_event *e)
{
    struct vs_journal *j = all.journal;
    if (vs_event_failed(e) || e->size == 0 || !followed(e))
        return;
    uint32_t id = vs_journal_access_take(j);
    struct vs_access_row *row = vs_journal_access(j, id);
    if (row == NULL)
        return;
    bool added;
    memset(row, 0, offsetof(struct vs_access_row, next));
    row->address = e->address;
    row->end = e->address + e->size;
    row->op = e->op;
    row->born_ns = e->t_ns;
    row->born_step = atomic_load_explicit(&all.step, memory_order_relaxed);
    row->reach = atomic_load_explicit(all.reaching, memory_order_relaxed);
    if (e->space == VS_SPACE_MANAGED) /* the CPU uses it too, which is not seen */
        row->kinds = VS_ACCESS_REACHABLE;
    widen(row->address, row->end);
    uint32_t old = vs_living_add(map_of(e->op), e->address, e->size, id, &added);
    if (old != 0)
        vs_journal_access_give(j, old);
    if (!added)
        vs_journal_access_give(j, id);
}

/* Removes the block that END ends from the map and returns its row; 0: it was not tracked. */
static uint32_t died(const struct vs_event *end)
{
    enum vs_living map = map_of(end->op);
    uint32_t id = vs_living_at(map, end->address);
    struct vs_access_row *row = vs_journal_access(all.journal, id);
    if (row == NULL || row->address != end->address)
        return 0;
    vs_living_remove(map, row->address, row->end - row->address, id);
    if (row->reach != atomic_load_explicit(all.reaching, memory_order_relaxed))
        row->kinds |= VS_ACCESS_REACHABLE;
    row->end_step = atomic_load_explicit(&all.step, memory_order_relaxed);
    return id;
}

void vs_access_before(struct vs_event *event)
{
    if (event->op == VS_OP_FREE || event->op == VS_OP_BLOCK_FREE)
        event->stack = died(event);
}

void vs_access_after(const struct vs_event *event, uint64_t seq)
{
    switch (event->op) {
    case VS_OP_ALLOC:
    case VS_OP_BLOCK_ALLOC:
        if (seq != VS_SEQ_NONE)
            born(event);
        break;
    case VS_OP_FREE:
    case VS_OP_BLOCK_FREE:
        if (seq == VS_SEQ_NONE && event->stack != 0)
            vs_journal_access_give(all.journal, event->stack);
        break;
    case VS_OP_RANGE_PUSH:
        pushed(event);
        break;
    case VS_OP_STEP:
        stepped(event);
        break;
    }
}

/* ---- uses ---- */

__attribute__((noinline)) void vs_use_first(struct vs_access_row *row, const struct vs_use *u)
{
    __atomic_store_n(&row->first_ns, u->now, __ATOMIC_RELAXED);
    __atomic_store_n(&row->first_name, u->name, __ATOMIC_RELAXED);
    __atomic_store_n(&row->first_phase, u->phase, __ATOMIC_RELAXED);
    __atomic_store_n(&row->first_step, u->step, __ATOMIC_RELAXED);
}

void vs_use_words(const struct vs_use *u, struct vs_use_batch *b, const void *at, size_t count, bool sure)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)at + i * sizeof word, sizeof word);
        vs_use_add(u, b, word, sure);
    }
}

void vs_use_flush(const struct vs_use *u, struct vs_use_batch *b)
{
    uint32_t n = b->n;
    struct vs_access_row *row[VS_USE_BATCH];
    struct vs_use use = *u;
    b->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        row[i] = &vs_use_rows[vs_living_find_near(VS_LIVING_FRAMEWORK, b->word[i] & ~VS_USE_SURE)];
        __builtin_prefetch(row[i], 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t word = b->word[i] & ~VS_USE_SURE;
        use.sure = word != b->word[i];
        if (vs_use_in(row[i], word))
            vs_use_row(row[i], &use);
        else
            vs_use_word(&use, word);
    }
}

void vs_use_memory(const struct vs_use *u, uint64_t address, uint64_t size)
{
    while (address != 0) {
        struct vs_access_row *row = vs_use_find(address);
        if (row == NULL)
            return;
        vs_use_row(row, u);
        uint64_t end = __atomic_load_n(&row->end, __ATOMIC_RELAXED), left = end - address;
        if (end <= address || left >= size)
            return;
        address = end;
        size -= left;
    }
}

static void stored(uint64_t word)
{
    struct vs_access_row *row = vs_use_find(word);
    if (row != NULL)
        __atomic_store_n(&row->kinds,
                         (uint16_t)(__atomic_load_n(&row->kinds, __ATOMIC_RELAXED) | VS_ACCESS_STORED),
                         __ATOMIC_RELAXED);
}

/* Reads the memory by a system call, because it may be device memory or unmapped by now. */
void vs_use_stored(const void *from, uint64_t size)
{
    uint64_t words[512], left = size < VS_USE_STORED_MAX ? size : VS_USE_STORED_MAX;
    int saved = errno;
    for (const char *at = from; left >= sizeof *words;) {
        size_t want = left < sizeof words ? left / sizeof *words * sizeof *words : sizeof words;
        struct iovec to = {words, want}, there = {(void *)(uintptr_t)at, want};
        if (syscall(SYS_process_vm_readv, getpid(), &to, 1, &there, 1, 0) != (long)want) {
            vs_use_reaching(); /* the words cannot be read */
            break;
        }
        for (size_t i = 0; i < want / sizeof *words; i++)
            stored(words[i]);
        at += want;
        left -= want;
    }
    errno = saved;
}

void vs_use_reaching(void)
{
    if (all.reaching != NULL)
        atomic_fetch_add_explicit(all.reaching, 1, memory_order_relaxed);
}

/* Recognises, by parts of their names, kernels that find their operands by addresses in memory: batched and
 * grouped products over arrays of pointers, communication, whose work lists are in memory, and kernels that
 * launch other kernels from the device. */
bool vs_use_name_reaches(const char *name)
{
    static const char *const parts[] = {"nccl",         "nvshmem",      "ncclx",
                                        "rccl",         "grouped_gemm", "GroupedGemm",
                                        "gemm_grouped", "GemmGrouped",  "GroupProblemShape",
                                        "PtrArray",     "ptr_array",    "TensorBatched",
                                        "gemmBatched",  "batched_ptr",  "MultiTensorPtr"};
    if (name == NULL)
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]) != NULL)
            return true;
    return false;
}
