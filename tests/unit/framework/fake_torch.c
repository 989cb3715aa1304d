/*
 * fake_torch.c - stands for libtorch_cpu: the functions that autograd.c looks for, and what they answer.
 * Nodes are as torch's: a virtual table with the type's description in front of it, the number at 24, the
 * thread's id at 48.
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

struct fake_shared fake_current_node(void) __asm__("_ZN5torch8autograd16get_current_nodeEv");
struct fake_shared fake_current_node(void)
{
    struct fake_shared s = {mine.node, mine.node ? mine.control : NULL, NULL};
    if (s.control)
        __atomic_fetch_add(&s.control->uses, 1, __ATOMIC_RELAXED);
    return s;
}

/* Tensors that need no memory: what bench_tensors measures the note beside. */
struct sizes {
    const int64_t *at;
    size_t n;
};
void *fake_generic(void *to, struct sizes size, void *allocator, uint64_t keys, uint64_t type,
                   uint64_t format) __asm__("_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_"
                                            "9AllocatorENS1_14DispatchKeySetENS1_"
                                            "10ScalarTypeESt8optionalINS1_12MemoryFormatEE");
void *fake_generic(void *to, struct sizes size, void *allocator, uint64_t keys, uint64_t type,
                   uint64_t format)
{
    return to;
}
