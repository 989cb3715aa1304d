/*
 * use.c - see use.h: the phase and the name of a use, and its words on their way into the ring.
 *
 * A use has the phase that an event of its thread would have; the push of the thread's range says which.  The
 * last 4096 pushes that named a phase are remembered here, and each thread keeps its last look-up.
 */
#define _GNU_SOURCE
#include "use.h"

#include <string.h>

#include "kernels.h"
#include "record/record.h"
#include "record/block.h"
#include "trace/journal/claim.h"
#include "trace/uses/living.h"
#include "trace/uses/uses.h"

#define PHASES 4096u

/* What every launch reads. */
static VS_HOT struct {
    struct vs_journal *journal;
    struct vs_ring ring;
    uint32_t generation; /* of the look-ups that threads keep */
} hot;

static struct {
    _Atomic uint64_t phase[PHASES]; /* by range % PHASES: range << 32 | string id of its phase */
    _Atomic uint32_t known[6]; /* string ids of the phases that have bits of their own; the first: none */
} all;

#define SPANS  (1u << 16)
#define PROBES 32u

/* The driver's allocations: by their numbers, less 1, where they begin (0: vacant) and end, and a map to the
 * numbers.
 *
 * Of copies the host has to know whether the memory that they read is its own, since addresses in it are read
 * then (and the driver's managed memory must not be: it would move to the host).  For that alone it has a map
 * of the driver's allocations, which change rarely. */
static struct {
    _Atomic uint64_t start, end;
} span[SPANS];
static struct vs_living spans;
static _Atomic bool spans_missing; /* some had no room */

/* A thread's last look-up. */
static __thread struct {
    uint32_t generation, range;
    uint32_t phase;
    uint8_t phases;
    bool autograd;
} mine __attribute__((tls_model("initial-exec")));

static const char *const known_name[6] = {NULL, "forward", "logits", "backward", "optimizer", "evaluation"};

static void forget_spans(void)
{
    vs_living_reset(&spans);
    for (uint32_t i = 0; i < SPANS; i++)
        if (atomic_load_explicit(&span[i].start, memory_order_relaxed) != 0)
            atomic_store_explicit(&span[i].start, 0, memory_order_relaxed);
    atomic_store_explicit(&spans_missing, false, memory_order_relaxed);
}

void vs_access_begin(struct vs_journal *j)
{
    if (hot.journal != NULL)
        forget_spans();
    vs_pages_reset();
    vs_kernels_begin();
    for (uint32_t i = 0; i < PHASES; i++)
        atomic_store_explicit(&all.phase[i], 0, memory_order_relaxed);
    for (uint32_t i = 1; i < 6; i++)
        atomic_store_explicit(&all.known[i], vs_journal_string(j, known_name[i], strlen(known_name[i])),
                              memory_order_relaxed);
    hot.generation++;
    hot.ring = vs_journal_ring(j);
    hot.journal = j;
}

/* ---- ranges ---- */

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

static __attribute__((noinline)) void look_up_phase(uint32_t range)
{
    uint64_t known = atomic_load_explicit(&all.phase[range % PHASES], memory_order_relaxed);
    if (mine.generation != hot.generation)
        mine.autograd = vs_record_thread_is_autograd();
    mine.generation = hot.generation;
    mine.range = range;
    if (range != 0) {
        mine.phase = known >> 32 == range ? (uint32_t)known : 0;
        mine.phases = known >> 32 == range ? bit_of((uint32_t)known) : VS_ACCESS_IN_OTHER;
    } else {
        mine.phase = mine.autograd ? atomic_load_explicit(&all.known[3], memory_order_relaxed) : 0;
        mine.phases = mine.autograd ? VS_ACCESS_IN_BACKWARD : VS_ACCESS_IN_NONE;
    }
}

/* The first slots, of which the later ones fetch those behind them (journal/uses.c). */
VS_HOT_CODE void vs_use_fetch(void)
{
    struct vs_journal_header *h = hot.ring.header;
    if (h == NULL)
        return;
    uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
    vs_fetch_to_write(vs_ring_slot(&hot.ring, head));
    vs_fetch_to_write(vs_ring_slot(&hot.ring, head + 1));
    vs_fetch(&mine);
}

VS_HOT_CODE struct vs_use vs_use_begin(uint32_t name, uint16_t kinds)
{
    uint32_t range = vs_record_range();
    if (__builtin_expect(mine.range != range || mine.generation != hot.generation, 0))
        look_up_phase(range);
    return (struct vs_use){.now = vs_event_clock_of(&vs_self.clock),
                           .name = name,
                           .phase = mine.phase,
                           .kinds = kinds,
                           .phases = mine.phases};
}

/* ---- the driver's allocations ---- */

static void add_span(uint64_t start, uint64_t size)
{
    uint32_t at = (uint32_t)(start >> VS_LIVING_UNIT_BITS) * 0x9e3779b1u;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t place = ((at >> 8) + i) % SPANS;
        uint64_t vacant = 0;
        bool added;
        if (!atomic_compare_exchange_strong(&span[place].start, &vacant, start))
            continue;
        atomic_store_explicit(&span[place].end, start + size, memory_order_relaxed);
        uint32_t old = vs_living_add(&spans, start, size, place + 1, &added);
        if (old != 0) /* its end was not seen */
            atomic_store_explicit(&span[old - 1].start, 0, memory_order_relaxed);
        if (added)
            return;
        atomic_store_explicit(&span[place].start, 0, memory_order_relaxed);
        break;
    }
    atomic_store_explicit(&spans_missing, true, memory_order_relaxed);
}

static void end_span(uint64_t start)
{
    uint32_t id = vs_living_at(&spans, start);
    if (id == 0 || atomic_load_explicit(&span[id - 1].start, memory_order_relaxed) != start)
        return;
    uint64_t end = atomic_load_explicit(&span[id - 1].end, memory_order_relaxed);
    vs_living_remove(&spans, start, end - start, id);
    atomic_store_explicit(&span[id - 1].start, 0, memory_order_release);
}

bool vs_use_is_drivers(uint64_t address)
{
    uint32_t id = vs_living_find(&spans, address);
    return id != 0 && address >= atomic_load_explicit(&span[id - 1].start, memory_order_relaxed) &&
           address < atomic_load_explicit(&span[id - 1].end, memory_order_relaxed);
}

void vs_access_before(struct vs_event *event)
{
    if (event->op == VS_OP_FREE)
        end_span(event->address);
}

void vs_access_after(const struct vs_event *event, uint64_t seq)
{
    if (event->op == VS_OP_RANGE_PUSH)
        pushed(event);
    else if (seq != VS_SEQ_NONE && vs_uses_born(event)) {
        vs_pages_add(event->address, event->size);
        if (event->op == VS_OP_ALLOC)
            add_span(event->address, event->size);
    }
}

/* ---- uses ---- */

/* Into the ring: N words of FORM, of VS_USE_NEAR above BASE. */
static inline void give_above(const struct vs_use *u, enum vs_use_form form, uint16_t base,
                              const uint64_t *word, uint32_t n)
{
    const struct vs_event like = {.t_ns = u->now,
                                  .thread = base,
                                  .stack = u->name,
                                  .range = u->phase,
                                  .op = VS_OP_USE,
                                  .space = u->phases,
                                  .device = (int8_t)form,
                                  .status = u->kinds};
    uint64_t last = vs_journal_append_uses(hot.journal, &like, word, n);
    uint64_t mask = atomic_load_explicit(&vs_hot.nudge_mask, memory_order_relaxed);
    uint64_t before = last - (n + VS_USE_SLOT_WORDS - 1) / VS_USE_SLOT_WORDS;
    if (__builtin_expect(last != VS_SEQ_NONE && (last & ~mask) != (before & ~mask), 0))
        vs_record_uses_nudge();
}

static void give(const struct vs_use *u, enum vs_use_form form, const uint64_t *word, uint32_t n)
{
    give_above(u, form, 0, word, n);
}

#define LIST_SLOTS 8u /* at once */

/* Records the addresses that a list of COUNT words AT begins with, as long as eight at a time lie near the
 * first: so many words.  Whether a block lies there is left to who takes them out of the ring. */
static __attribute__((noinline)) size_t give_list(const struct vs_use *u, const char *at, size_t count,
                                                  bool sure)
{
    uint64_t packed[LIST_SLOTS * VS_USE_SLOT_WORDS], first;
    uint32_t n = 0;
    size_t done = 0;
    memcpy(&first, at, sizeof first);
    const uint16_t base = vs_near_base(first);
    while (done + VS_NEAR_WORDS <= count && vs_near_pack(at + done * sizeof first, base, sure, packed + n)) {
        done += VS_NEAR_WORDS;
        n += VS_USE_SLOT_WORDS;
        if (n == LIST_SLOTS * VS_USE_SLOT_WORDS) {
            give_above(u, VS_USE_NEAR, base, packed, n);
            n = 0;
        }
    }
    if (n != 0)
        give_above(u, VS_USE_NEAR, base, packed, n);
    return done;
}

VS_HOT_CODE void vs_use_words(const struct vs_use *u, struct vs_use_batch *b, const void *at, size_t count,
                              bool sure)
{
    const char *next = at, *end = next + count * sizeof(uint64_t);
    uint64_t word;
    if (count >= VS_NEAR_WORDS) {
        uint64_t two[2]; /* a structure, too, may begin with an address */
        memcpy(two, next, sizeof two);
        if (vs_pages_within(b->span, two[0]) && vs_pages_within(b->span, two[1]))
            next += give_list(u, next, count, sure) * sizeof word;
    }
    for (; next < end; next += sizeof word) {
        memcpy(&word, next, sizeof word);
        vs_use_add(u, b, word, sure);
    }
}

VS_HOT_CODE void vs_use_flush(const struct vs_use *u, struct vs_use_batch *b)
{
    if (b->n != 0)
        give(u, VS_USE_WORDS, b->word, b->n);
    b->n = 0;
}

void vs_use_word(const struct vs_use *u, uint64_t word, bool sure)
{
    struct vs_use_batch b;
    vs_use_batch_begin(&b);
    vs_use_add(u, &b, word, sure);
    vs_use_flush(u, &b);
}

void vs_use_memory(const struct vs_use *u, uint64_t address, uint64_t size)
{
    if (vs_pages_may(address))
        give(u, VS_USE_MEMORY, (const uint64_t[]){address, size}, 2);
}

/* ---- addresses in memory ---- */

static void flush_stored(struct vs_use_batch *b)
{
    if (b->n != 0)
        give(&(struct vs_use){0}, VS_USE_STORED, b->word, b->n);
    b->n = 0;
}

static void put_stored(void *batch, uint64_t word)
{
    struct vs_use_batch *b = batch;
    if (!vs_pages_within(b->span, word) || !vs_pages_may(word))
        return;
    b->word[b->n++] = word;
    if (b->n == VS_USE_BATCH)
        flush_stored(b);
}

/* Records the addresses that are copied FROM any memory TO the device, where kernels may find them.  False:
 * FROM cannot be read. */
static bool store(uint64_t to, const struct vs_box *from)
{
    struct vs_use_batch b;
    vs_use_batch_begin(&b);
    bool read = vs_box_read(from, to, put_stored, &b);
    flush_stored(&b);
    return read;
}

void vs_use_source(uint64_t from, uint64_t size)
{
    if (!vs_use_is_drivers(from))
        store(0, &VS_BOX_FLAT(from, size));
}

/* What begins on a page on which blocks lay, and outside of the driver's allocations, is memory that a
 * framework mapped, which cannot be read, or by now the host's. */
void vs_use_copy(const struct vs_use *u, uint64_t to, uint64_t size, const struct vs_box *from)
{
    bool lay = vs_pages_may(from->begin);
    if (vs_pages_may(to) || lay)
        give(u, VS_USE_COPY, (const uint64_t[]){to, from->begin, size}, 3);
    if (!vs_pages_may(to) || vs_box_bytes(from) < sizeof to || vs_use_is_drivers(from->begin))
        return;
    if (lay && atomic_load_explicit(&spans_missing, memory_order_relaxed))
        vs_use_reaching();
    else if (!store(to, from) && !lay)
        vs_use_reaching();
}

void vs_use_reaching(void)
{
    if (hot.journal != NULL)
        give(&(struct vs_use){0}, VS_USE_REACHING, (const uint64_t[]){1}, 1);
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
