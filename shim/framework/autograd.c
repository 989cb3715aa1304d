/*
 * autograd.c - finds the line of the forward to which a block that is born in backward belongs.
 *
 * In backward PyTorch's engine runs the nodes of a graph, as a rule without code of the program.  But each
 * node was made by a call in the forward.  There it takes a number from
 * at::sequence_number::get_and_increment(), which torch's libraries call through the linker: a preloaded
 * definition sees every birth of a node, without Python and without `run`.  A node keeps its number and the
 * thread (an id that torch counts itself):
 *
 *      birth      thread 1, number 7      call stack 12  ──▶  ring of thread 1, place 7
 *      backward   the node that runs: thread 1, number 7 (torch_node.c)  ──▶  call stack 12
 *
 * No lock and no allocation, but once per process (the real functions are looked up) and once per thread that
 * makes nodes (its ring is mapped).
 */
#define _GNU_SOURCE
#include "autograd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "torch.h"
#include "core/fork.h"
#include "core/hot.h"
#include "core/options.h"
#include "core/readable.h"
#include "record/block.h"
#include "record/record.h"

enum {
    RING_BIRTHS = 1 << 17, /* 1 MiB */
    RINGS = 64,
    AHEAD = 16, /* births, two lines */
    NODE_TYPES = 1024,
    NESTED = 7, /* levels of backward of backward: torch.autograd.grad of grad of ... */
    NAME = 256
};

#define NUMBER VS_SEQUENCE_NUMBER
#define THREAD "_ZN2at14RecordFunction15currentThreadIdEv"
#define TASK   "_ZN5torch8autograd25get_current_graph_task_idEv"

typedef uint64_t number_fn(void);
typedef int task_fn(void);

__attribute__((visibility("default"))) uint64_t vs_sequence_number(void) __asm__(NUMBER);

static VS_HOT struct {
    _Alignas(64) number_fn *_Atomic number;
    task_fn *_Atomic task; /* NULL until the others are there */
    number_fn *thread;
} real;

/* ---- births ---- */

/* A birth is one word: the call stack, the number of backwards that it is nested in, and a mark that
 * distinguishes it from other births in the same place: bits of the thread's id and of the ring's lap. */
#define BIRTH_STACK(b)  ((uint32_t)(b))
#define BIRTH_NESTED(b) ((unsigned)((b) >> 32 & 7))
#define BIRTH_MARK(b)   ((uint32_t)((b) >> 35))

struct ring {
    _Atomic uint64_t thread; /* torch's id of the thread that it belongs to; 0: free */
    _Atomic uint64_t next;   /* one more than the last birth's number */
    _Alignas(64) _Atomic uint64_t birth[RING_BIRTHS];
};

static void *_Atomic rings[RINGS]; /* struct ring, by the thread's id; wiped in a fork child, where the ids in
                                     them are its parent's */
static __thread struct {
    struct ring *ring;
    uint64_t id;     /* torch's, of this thread */
    bool in_forward; /* a birth has asked already: no node runs */
} own;

static uint32_t mark_of(uint64_t thread, uint64_t number)
{
    return (uint32_t)((number / RING_BIRTHS & 0x1fff) << 16 | (thread & 0xffff));
}

/* Two threads may have the same place; then the ring's owner changes with each birth.  The marks keep their
 * births apart. */
static __attribute__((noinline, cold)) struct ring *claim(void)
{
    own.id = real.thread();
    struct ring *r = vs_map_once(&rings[own.id % RINGS], sizeof *r, true);
    if (!r)
        return NULL;
    atomic_store_explicit(&r->next, 0, memory_order_relaxed);
    atomic_store_explicit(&r->thread, own.id, memory_order_relaxed);
    return own.ring = r;
}

static inline struct ring *my_ring(void)
{
    struct ring *r = own.ring;
    /* Relaxed: each word is complete by itself, and as a rule only this thread uses the ring. */
    if (__builtin_expect(r && atomic_load_explicit(&r->thread, memory_order_relaxed) == own.id, 1))
        return r;
    return claim();
}

/* The birth of the node with NUMBER on THREAD; 0: not known, as of a node without a number (AccumulateGrad),
 * from before the recording, or whose birth was overwritten, which counts as lost.  Number and thread are
 * trusted only if a birth of that thread with that number was seen. */
static uint64_t find_birth(struct vs_journal *j, uint64_t thread, uint64_t number)
{
    struct ring *r = atomic_load_explicit(&rings[thread % RINGS], memory_order_acquire);
    if (number == VS_NODE_NO_NUMBER || !r)
        return 0;
    /* Relaxed: the engine passed the node on from the thread that made it, and synchronized the two. */
    bool same = atomic_load_explicit(&r->thread, memory_order_relaxed) == thread;
    if (same && number >= atomic_load_explicit(&r->next, memory_order_relaxed))
        return 0;
    uint64_t birth = atomic_load_explicit(&r->birth[number % RING_BIRTHS], memory_order_relaxed);
    if (birth && BIRTH_MARK(birth) == mark_of(thread, number))
        return birth;
    if (same && birth) /* its birth was overwritten by another */
        vs_journal_lost_birth(j);
    return 0;
}

/* ---- the node that runs ---- */

/* The frames that name node types, by the address of the type's virtual table; wiped in a fork child. */
struct node_type {
    _Atomic uintptr_t table;
    _Atomic uint32_t frame;
};
static void *_Atomic types;

/* The last component of a nested name, such as N5torch8autograd10generated14AddmmBackward0E, or, of a
 * template such as CppNode<MyFunction>, of its argument.  A name of another form is copied whole. */
static size_t last_word(const char *mangled, char *to, size_t room)
{
    const char *at = mangled + (*mangled == '*'), *word = NULL, *argument = NULL;
    size_t length = 0, argument_length = 0;
    bool inside = false;
    for (; *at; at++) {
        if (*at == 'I' && word)
            inside = true;
        if (*at < '1' || *at > '9')
            continue;
        size_t n = 0;
        while (*at >= '0' && *at <= '9' && n < NAME)
            n = 10 * n + (size_t)(*at++ - '0');
        if (n > strnlen(at, n))
            break;
        *(inside ? &argument : &word) = at;
        *(inside ? &argument_length : &length) = n;
        at += n - 1;
    }
    if (!word)
        word = mangled, length = strnlen(mangled, room);
    if (length + argument_length + 2 > room)
        length = length < room ? length : room, argument = NULL;
    memcpy(to, word, length);
    if (!argument)
        return length;
    to[length] = '<';
    memcpy(to + length + 1, argument, argument_length);
    to[length + 1 + argument_length] = '>';
    return length + argument_length + 2;
}

/* The node's own name() is not called, because that of a node written in Python takes the GIL. */
static uint32_t make_type(struct vs_journal *j, uintptr_t table)
{
    char name[NAME], mangled[NAME] = "";
    uintptr_t info = ((const uintptr_t *)table)[-1]; /* as C++ lays types out: the name is its second word */
    if (info && vs_readable_bytes(info, 16))
        vs_copy_text(mangled, sizeof mangled, ((const uintptr_t *)info)[1]);
    size_t n = *mangled ? last_word(mangled, name, sizeof name) : 0;
    uint32_t function = n ? vs_journal_string(j, name, n) : 0;
    return vs_journal_named_frame(j, VS_FRAME_NODE, function, 0, 0);
}

static uint32_t frame_of_node(struct vs_journal *j, uintptr_t table)
{
    struct node_type *all = vs_map_once(&types, NODE_TYPES * sizeof *all, true);
    for (unsigned i = 0, at = (unsigned)(table >> 4); all && i < NODE_TYPES; i++, at++) {
        struct node_type *t = &all[at % NODE_TYPES];
        uintptr_t there = atomic_load_explicit(&t->table, memory_order_relaxed);
        if (there == 0)
            atomic_compare_exchange_strong_explicit(&t->table, &there, table, memory_order_relaxed,
                                                    memory_order_relaxed);
        if (there != 0 && there != table)
            continue;
        /* Relaxed: the frame's number is complete by itself; 0: not made yet, or another thread is making
         * it. */
        uint32_t frame = atomic_load_explicit(&t->frame, memory_order_relaxed);
        if (!frame && (frame = make_type(j, table)))
            atomic_store_explicit(&t->frame, frame, memory_order_relaxed);
        return frame;
    }
    return make_type(j, table);
}

/* The engine itself says whether backward runs.  The thread's name would not do: backward also runs on the
 * caller's thread, inside another backward, and in a recomputation. */
VS_HOT_CODE int vs_autograd_task(void)
{
    /* Acquire: pairs with take_from(). */
    task_fn *task = atomic_load_explicit(&real.task, memory_order_acquire);
    return task ? task() : -1;
}

/* Whether a node runs; gets its birth and the address of its virtual table.  Where there is a task and no
 * node, a callback at the end of backward runs. */
static inline bool running(struct vs_journal *j, uint64_t *birth, uintptr_t *table)
{
    /* Acquire: pairs with take_from(). */
    if (own.in_forward || !atomic_load_explicit(&real.task, memory_order_acquire))
        return false;
    struct vs_torch_node node;
    if (__builtin_expect(!vs_torch_node_now(&node), 1))
        return false;
    *table = node.table;
    *birth = find_birth(j, node.thread, node.number);
    if (*birth)
        vs_torch_node_met();
    return true;
}

VS_HOT_CODE bool vs_autograd_running(struct vs_journal *j, struct vs_autograd_run *out)
{
    uint64_t birth;
    uintptr_t table;
    if (!running(j, &birth, &table))
        return false;
    out->forward = BIRTH_STACK(birth);
    out->node = frame_of_node(j, table);
    return out->node != 0;
}

/* ---- the real functions ---- */

static void take_from(void *library)
{
    number_fn *number = (number_fn *)dlsym(library, NUMBER);
    task_fn *task = (task_fn *)dlsym(library, TASK);
    if (!number || number == vs_sequence_number)
        return;
    real.thread = (number_fn *)dlsym(library, THREAD);
    if (!real.thread || !task)
        vs_contract_broken(VS_CONTRACT_TORCH_NODE, "it does not say which thread runs, or which backward");
    /* Release: a thread that sees `task` sees `thread`. */
    else if (vs_torch_node_find(library, task() == -1))
        atomic_store_explicit(&real.task, task, memory_order_release);
    atomic_store_explicit(&real.number, number, memory_order_relaxed);
}

/* If there is no real function (not seen in any version) numbers must still be given out. */
static uint64_t count_ourselves(void)
{
    static __thread uint64_t next;
    return next++;
}

static __attribute__((noinline, cold)) number_fn *look_up(void)
{
    int saved = errno;
    void *library = vs_torch_library("libtorch_cpu");
    if (library)
        take_from(library); /* the handle is never closed: the pointers stay good */
    dlerror();              /* the host must not see the error of our search */
    number_fn *none = NULL;
    atomic_compare_exchange_strong_explicit(&real.number, &none, count_ourselves, memory_order_relaxed,
                                            memory_order_relaxed);
    errno = saved;
    return atomic_load_explicit(&real.number, memory_order_relaxed);
}

/* A node born in backward (create_graph, a recomputation) gets the stack of its own birth, and so refers to
 * the forward in turn. */
static void note_birth(struct vs_journal *j, uint64_t number)
{
    struct ring *r = my_ring();
    uint64_t outer = 0;
    uintptr_t table;
    if (!r)
        return;
    bool backward = running(j, &outer, &table);
    unsigned nested = backward ? BIRTH_NESTED(outer) + 1 : 0;
    own.in_forward = !backward;
    uint64_t stack = nested > NESTED ? 0 : vs_suppliers.python_stack(j);
    own.in_forward = false;
    uint64_t birth =
        stack | (uint64_t)(nested > NESTED ? 0 : nested) << 32 | (uint64_t)mark_of(own.id, number) << 35;
    atomic_store_explicit(&r->birth[number % RING_BIRTHS], birth, memory_order_relaxed);
    atomic_store_explicit(&r->next, number + 1, memory_order_relaxed);
    /* a store that misses all caches would hold up the next locked instruction, of which an operation has
     * many */
    vs_fetch_to_write((void *)&r->birth[(number + AHEAD) % RING_BIRTHS]);
}

VS_HOT_CODE uint64_t vs_sequence_number(void)
{
    number_fn *call = atomic_load_explicit(&real.number, memory_order_relaxed);
    if (__builtin_expect(!call, 0))
        call = look_up();
    uint64_t number = call();
    struct vs_journal *j = vs_record_of_births();
    if (j && atomic_load_explicit(&real.task, memory_order_acquire))
        note_birth(j, number);
    return number;
}
