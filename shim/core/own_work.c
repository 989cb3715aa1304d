/*
 * own_work.c - see own_work.h.
 *
 * The C library's context functions could exchange the stack, but an address sanitizer in the host prints a
 * warning about them.  Unwinders can pass the call: this file is compiled with a frame pointer, so the
 * caller's frame does not depend on the stack pointer.
 */
#define _GNU_SOURCE
#include "own_work.h"

#include <stddef.h>
#include <sys/mman.h>

#include "core/arch/stack.h"
#include "fork.h"

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
