/* fake_torch.h - what a test sets of the stand-in for libtorch_cpu (fake_torch.c), for each thread. */
#ifndef TESTS_UNIT_FRAMEWORK_FAKE_TORCH_H
#define TESTS_UNIT_FRAMEWORK_FAKE_TORCH_H

#include <stddef.h>
#include <stdint.h>

/* what a build of it holds its nodes by */
#define FAKE_SHARED    1
#define FAKE_INTRUSIVE 2
#define FAKE_OTHER     3

struct fake_type { /* std::type_info */
    void *table;
    const char *name;
};
struct fake_class { /* a virtual table begins behind its type */
    const struct fake_type *type;
    void *functions[1];
};
struct fake_node {
    const void *table; /* &fake_class.functions */
    void *weak[2];
    uint64_t number, topological, has_parent, thread;
};
struct fake_intrusive { /* a node of 2.13 and later */
    const void *table;
    uint64_t count; /* references, weak ones from bit 32 on, and whether Python knows it */
    uint64_t number, topological, has_parent, thread;
};
struct fake_control {
    void *table;
    int uses, weak;
};
struct fake_thread {
    uint64_t id, next; /* torch's id of the thread; the number of the next node */
    int task;
    struct fake_node *node;
    struct fake_control *control;
    int lies; /* the node's memory is not touched, whatever it is */
};

struct fake_thread *fake_thread(void);
typedef struct fake_thread *fake_thread_fn(void);

#endif
