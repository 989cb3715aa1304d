/*
 * own_stack.c - see own_stack.h.
 *
 * Only the stack pointer is exchanged, around an ordinary call.  The C library's context functions could do
 * it, but an address sanitizer in the host prints a warning about them.  Unwinders can pass the call: this
 * file is compiled with a frame pointer, so the caller's frame does not depend on the stack pointer.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#include <stddef.h>
#include <sys/mman.h>

#include "core/arch/stack.h"
#include "map.h"

#define STACK_BYTES (512 * 1024)
#define GUARD_BYTES (64 * 1024)

void vs_on_own_stack(void (*function)(void *), void *argument)
{
    size_t bytes = GUARD_BYTES + STACK_BYTES;
    char *m = vs_map(bytes);
    if (!m) {
        function(argument);
        return;
    }
    mprotect(m, GUARD_BYTES, PROT_NONE);
    vs_arch_call_on(m + bytes, function, argument);
    munmap(m, bytes);
}
