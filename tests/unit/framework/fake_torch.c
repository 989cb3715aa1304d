/*
 * fake_torch.c - stands for libtorch_cpu: the functions that autograd.c looks for, and nodes as torch's, of
 * the kind FAKE_NODES.
 *
 * A node is a virtual table with the type's description in front of it, the number, the thread's id.
 */
#include "fake_torch.h"

/*
 * initial-exec: gcc 12's address sanitizer guesses the size of a library's dynamic thread-local storage from
 * the bytes in front of it, and at some addresses its leak checker then reads where nothing is mapped.
 */
static __thread struct fake_thread mine __attribute__((tls_model("initial-exec"))) = {.task = -1};

struct fake_thread *fake_thread(void)
{
    return &mine;
}

uint64_t fake_number(void) __asm__("_ZN2at15sequence_number17get_and_incrementEv");
uint64_t fake_number(void)
{
    return mine.next++;
}

uint64_t fake_thread_id(void) __asm__("_ZN2at14RecordFunction15currentThreadIdEv");
uint64_t fake_thread_id(void)
{
    return mine.id;
}

int fake_task(void) __asm__("_ZN5torch8autograd25get_current_graph_task_idEv");
int fake_task(void)
{
    return mine.task;
}

#define NODE      "_ZN5torch8autograd16get_current_nodeEv"
#define SHARED    "St10shared_ptrINS0_4NodeEE"
#define INTRUSIVE "N3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_target_default_null_typeIS4_EEEE"

/* std::type_info of a node, and of its base class */
struct type {
    const void *table;
    const char *name;
    uintptr_t base[3];
};

#if FAKE_NODES == FAKE_SHARED
static const struct type base = {NULL, "St23enable_shared_from_thisIN5torch8autograd4NodeEE", {0}};
/* one base in a list, public, eight bytes into the object */
#define BASE                                                                                                 \
    {                                                                                                        \
        (uintptr_t)1 << 32, (uintptr_t)&base, 8 << 8 | 2                                                     \
    }
void fake_unpack(void) __asm__("_ZNK5torch8autograd13SavedVariable6unpackE" SHARED);
/* Two words are written. */
void *fake_current_node(void **out) __asm__(NODE);
void *fake_current_node(void **out)
{
    out[0] = mine.node;
    out[1] = mine.node ? mine.control : NULL;
    if (mine.node)
        __atomic_fetch_add(&mine.control->uses, 1, __ATOMIC_RELAXED);
    return out;
}
#elif FAKE_NODES == FAKE_INTRUSIVE
static const struct type base = {NULL, "N3c1020intrusive_ptr_targetE", {0}};
#define BASE                                                                                                 \
    {                                                                                                        \
        (uintptr_t) & base, 0, 0                                                                             \
    }
void fake_unpack(void) __asm__("_ZNK5torch8autograd13SavedVariable6unpackE" INTRUSIVE);
/* One word is written, and the next one is the caller's. */
void *fake_current_node(void **out) __asm__(NODE);
void *fake_current_node(void **out)
{
    struct fake_intrusive *n = (struct fake_intrusive *)mine.node;
    *out = n;
    if (n && !mine.lies)
        __atomic_fetch_add(&n->count, 1, __ATOMIC_RELAXED);
    return out;
}
#else
static const struct type base = {NULL, "N3c1010strong_nodeE", {0}};
#define BASE                                                                                                 \
    {                                                                                                        \
        (uintptr_t) & base, 0, 0                                                                             \
    }
/* as nobody knows it yet: the node itself comes back */
void fake_unpack(void) __asm__("_ZNK5torch8autograd13SavedVariable6unpackEPNS0_4NodeE");
void *fake_current_node(void) __asm__(NODE);
void *fake_current_node(void)
{
    return mine.node;
}
#endif
void fake_unpack(void) {}
extern const struct type fake_node_type __asm__("_ZTIN5torch8autograd4NodeE");
const struct type fake_node_type = {NULL, "N5torch8autograd4NodeE", BASE};
