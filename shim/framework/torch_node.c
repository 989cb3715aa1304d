/*
 * torch_node.c - the autograd node that the calling thread runs, by PyTorch's own word, however it holds its
 * nodes.
 *
 * torch::autograd::get_current_node() gives the node, with a reference more, which is given back at once.
 *
 *                   a pointer is         its count              number, thread
 *      shared       std::shared_ptr      in a control block     24, 48 bytes into the node     1.8 to 2.12
 *      intrusive    c10::intrusive_ptr   8 bytes into the node  16, 40                         2.13 to 2.15
 *
 * When the library is found, it is proven which of the two holds: by the base class of a node, the names of
 * exported functions that take one, and by an answer while no node runs.  The first nodes that run are looked
 * at, too, where the kernel says that they can be read.  What does not hold switches off the lines of
 * backward and nothing else.
 */
#include "autograd.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "core/arch/returned.h"
#include "core/hot.h"
#include "core/readable.h"

#define NODE "_ZN5torch8autograd16get_current_nodeEv"
/* torch::autograd::SavedVariable::unpack(pointer to a node), and AnomalyMetadata::assign_parent(const pointer
 * &) */
#define UNPACK(pointer) "_ZNK5torch8autograd13SavedVariable6unpackE" pointer
#define PARENT(pointer) "_ZN5torch8autograd15AnomalyMetadata13assign_parentERK" pointer
#define SHARED          "St10shared_ptrINS0_4NodeEE"
#define INTRUSIVE       "N3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_target_default_null_typeIS4_EEEE"
#define NODE_TYPE       "_ZTIN5torch8autograd4NodeE"
#define UNTOUCHED       ((uintptr_t)0x5ca1ab1e)
#define REFERENCES_MOST (1u << 20)
#define THREADS_MOST    (UINT64_C(1) << 24)
#define LOOKED_AT_MOST  64 /* nodes that nobody saw being born, after which these looks end */

enum kind { NOT_KNOWN, SHARED_POINTERS, INTRUSIVE_POINTERS };

static const struct layout {
    uint16_t number_at, thread_at;
    const char *name;
} layouts[] = {[SHARED_POINTERS] = {.number_at = 24, .thread_at = 48, .name = "shared_ptr"},
               [INTRUSIVE_POINTERS] = {.number_at = 16, .thread_at = 40, .name = "intrusive_ptr"}};

static VS_HOT struct {
    void *function;
    struct layout at;
    bool intrusive;
    uint32_t least;                 /* references that may not be given back beyond */
    _Atomic bool on, trusted, born; /* born: the number and the thread are where they should be */
    _Atomic uint32_t looked_at;
} node;

/* ---- when the library is found ---- */

/* The one base class of the type that TYPE describes, as C++ lays descriptions out, and how far into an
 * object it lies; 0: there is none, or several. */
static uintptr_t base_of(const uintptr_t *type, size_t *offset)
{
    enum { NAMED = 2, SEVERAL = 5 }; /* words of a description: its own, and with a list of bases */
    *offset = 0;
    if (!type || !vs_readable_bytes((uintptr_t)type, SEVERAL * sizeof *type))
        return 0;
    uint32_t bases = (uint32_t)(type[NAMED] >> 32), flags = (uint32_t)type[NAMED];
    if (flags > 3) /* no list: the word is the base itself */
        return type[NAMED];
    *offset = type[4] >> 8;
    return bases == 1 ? type[3] : 0;
}

static bool is_called(uintptr_t type, const char *name)
{
    char text[96];
    if (type % 8 || !vs_readable_bytes(type, 16))
        return false;
    vs_copy_text(text, sizeof text, ((const uintptr_t *)type)[1]);
    return strcmp(text, name) == 0;
}

/* What a node begins with, which says where its own members begin. */
static enum kind kind_by_type(void *library)
{
    size_t offset;
    uintptr_t base = base_of(dlsym(library, NODE_TYPE), &offset);
    if (offset == 8 && is_called(base, "St23enable_shared_from_thisIN5torch8autograd4NodeEE"))
        return SHARED_POINTERS;
    return offset == 0 && is_called(base, "N3c1020intrusive_ptr_targetE") ? INTRUSIVE_POINTERS : NOT_KNOWN;
}

/* What functions take: how nodes are passed.  Two are asked, so that one that went does not decide. */
static enum kind kind_by_names(void *library)
{
    bool shared = dlsym(library, UNPACK(SHARED)) || dlsym(library, PARENT(SHARED));
    bool intrusive = dlsym(library, UNPACK(INTRUSIVE)) || dlsym(library, PARENT(INTRUSIVE));
    return shared == intrusive ? NOT_KNOWN : shared ? SHARED_POINTERS : INTRUSIVE_POINTERS;
}

/* Whether WORDS, which were zeros, are a pointer of the kind: other words stay as they were. */
static bool is_pointer(const uintptr_t *words)
{
    return words[2] == 0 && (!node.intrusive || words[1] == 0);
}

/* Outside of backward no node runs, so the question changes nothing, and shows how the answer comes. */
static bool answers_at_rest(void)
{
    uintptr_t words[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    if (!VS_RETURNED_CALL(node.function, words))
        return false;
    if (!VS_RETURNED_SHOWS)
        return words[0] == 0; /* the compiler's own three words were written to */
    return words[0] == 0 && words[1] == (node.intrusive ? UNTOUCHED : 0) && words[2] == UNTOUCHED;
}

bool vs_torch_node_find(void *library, bool at_rest)
{
    enum kind kind = kind_by_type(library);
    node.function = dlsym(library, NODE);
    if (!node.function)
        return vs_contract_broken(VS_CONTRACT_TORCH_NODE, "it does not say which node runs");
    if (!vs_readable((uintptr_t)&node))
        return vs_contract_broken(VS_CONTRACT_TORCH_NODE, "a node can't be looked at (kernel_readable)");
    if (kind == NOT_KNOWN || kind != kind_by_names(library))
        return vs_contract_broken(VS_CONTRACT_TORCH_NODE, "its nodes are held otherwise than in 1.8 to 2.15");
    node.at = layouts[kind];
    node.intrusive = kind == INTRUSIVE_POINTERS;
    node.least = node.intrusive ? 3 : 2;
    if (at_rest && !answers_at_rest())
        return vs_contract_broken(VS_CONTRACT_TORCH_NODE, "it says otherwise which node runs");
    atomic_store_explicit(&node.born, true, memory_order_relaxed);
    /* release: pairs with the acquire in vs_torch_node_now() */
    atomic_store_explicit(&node.on, true, memory_order_release);
    return true;
}

/* ---- when nodes run ---- */

static bool off(const char *why)
{
    atomic_store_explicit(&node.on, false, memory_order_relaxed);
    return vs_contract_broken(VS_CONTRACT_TORCH_NODE, "%s", why);
}

static inline uint32_t *count_of(const struct vs_torch_node *n)
{
    return (uint32_t *)(node.intrusive ? n->words[0] + 8 : n->words[1] + 8);
}

/* The reference must not be the last one, nor, of an intrusive_ptr, the second: when that comes or goes, a
 * node that Python knows takes the interpreter's lock, and the allocator's is held.  The engine has two
 * itself while a node runs, one in its task and one for this very question, and that is looked at each time.
 * False: it is not so; the reference is kept for good, and nothing is asked any more. */
static inline bool give_back(const struct vs_torch_node *n)
{
    if (!node.intrusive && !n->words[1])
        return true; /* a pointer that owns nothing */
    uint32_t *count = count_of(n);
    if (__builtin_expect(__atomic_load_n(count, __ATOMIC_RELAXED) < node.least, 0))
        return false;
    /* The count is the low half of its word, and no borrow leaves it. */
    __atomic_fetch_sub(count, 1, __ATOMIC_ACQ_REL);
    return true;
}

/* Programs set numbers as they like, up to the largest; threads are counted from 1. */
static bool plausible(const struct vs_torch_node *n)
{
    return n->thread > 0 && n->thread < THREADS_MOST;
}

/* Whether N's pointer leads to what a node looks like; only its words were read so far. */
static __attribute__((noinline, cold)) bool look_at(const struct vs_torch_node *n)
{
    uintptr_t at = n->words[0], counted = node.intrusive ? at : n->words[1];
    if (!is_pointer(n->words) || at % 8 || counted % 8 || !vs_readable_bytes(at, node.at.thread_at + 8u) ||
        (counted && !vs_readable_bytes(counted, 16)))
        return off("a node that runs is not where it should be");
    uint32_t count = counted ? __atomic_load_n(count_of(n), __ATOMIC_RELAXED) : 3;
    uintptr_t table = *(const uintptr_t *)at;
    if (count < 2 || count > REFERENCES_MOST || table % 8 || !vs_readable_bytes(table - 16, 24))
        return off("a node that runs does not look like one");
    vs_contract_proven(VS_CONTRACT_TORCH_NODE, "nodes are held by %s", node.at.name);
    return true;
}

static inline void read(struct vs_torch_node *n)
{
    n->table = *(const uintptr_t *)n->words[0];
    /* relaxed: it changes once, and each node is read whole either way */
    n->number = atomic_load_explicit(&node.born, memory_order_relaxed)
                    ? *(const uint64_t *)(n->words[0] + node.at.number_at)
                    : VS_NODE_NO_NUMBER;
    n->thread = *(const uint64_t *)(n->words[0] + node.at.thread_at);
}

static __attribute__((noinline, cold)) bool read_carefully(struct vs_torch_node *n)
{
    if (!look_at(n))
        return false; /* whatever was counted stays counted */
    read(n);
    if (!plausible(n)) {
        vs_contract_broken(VS_CONTRACT_TORCH_BIRTH,
                           "a node has no thread where those of 1.8 to 2.15 have it");
        atomic_store_explicit(&node.born, false, memory_order_relaxed);
        n->number = VS_NODE_NO_NUMBER;
    }
    if (atomic_fetch_add_explicit(&node.looked_at, 1, memory_order_relaxed) >= LOOKED_AT_MOST)
        atomic_store_explicit(&node.trusted, true, memory_order_relaxed);
    return true;
}

void vs_torch_node_met(void)
{
    if (atomic_load_explicit(&node.trusted, memory_order_relaxed))
        return;
    vs_contract_proven(VS_CONTRACT_TORCH_BIRTH, "a node has the number and the thread that it was born with");
    atomic_store_explicit(&node.trusted, true, memory_order_relaxed);
}

VS_HOT_CODE bool vs_torch_node_now(struct vs_torch_node *n)
{
    /* acquire: pairs with the release in vs_torch_node_find() */
    if (!atomic_load_explicit(&node.on, memory_order_acquire))
        return false;
    n->words[0] = n->words[1] = n->words[2] = 0;
    bool good = VS_RETURNED_CALL(node.function, n->words);
    if (__builtin_expect(!good, 0))
        return off("it says otherwise which node runs");
    if (__builtin_expect(!n->words[0], 1))
        return false;
    if (__builtin_expect(atomic_load_explicit(&node.trusted, memory_order_relaxed), 1))
        read(n);
    else if (!read_carefully(n))
        return false;
    return give_back(n) || off("a node that runs has no owner but one");
}
