/* hook.c - see hook.h. */
#include "hook.h"

__thread uintptr_t vs_hook_outermost;
_Atomic bool vs_hook_called;

bool vs_cuda_seen(void)
{
    return atomic_load_explicit(&vs_hook_called, memory_order_relaxed);
}
