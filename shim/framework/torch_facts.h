/*
 * torch_facts.h - what Python says of PyTorch's allocator: its settings, and what the program does to it
 * (torch_facts.c, python/vramscope/_allocator.py).
 */
#ifndef VS_FRAMEWORK_TORCH_FACTS_H
#define VS_FRAMEWORK_TORCH_FACTS_H

#include <stdatomic.h>

/* How many things that were said before the recording began wait to be recorded; not 0 while they are. */
extern _Atomic unsigned vs_torch_facts_waiting;

void vs_torch_facts_record(void);
/* In the constructor: keeps what ENVIRONMENT says of PyTorch's settings, which programs without Python read
 * too. */
void vs_torch_facts_init(char *const *environment);

/* To be called with each report, where the recording may just have begun. */
static inline void vs_torch_facts_due(void)
{
    if (__builtin_expect(atomic_load_explicit(&vs_torch_facts_waiting, memory_order_relaxed) != 0, 0))
        vs_torch_facts_record();
}

#endif
