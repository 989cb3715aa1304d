/*
 * dlsym.S - the exported dlsym and dlvsym: each calls vs_dlsym_lookup or vs_dlvsym_lookup (resolve.c), which may answer;
 * if not, it jumps to the real function as if we were not there.
 *
 * RTLD_NEXT and RTLD_DEFAULT depend on who calls, which the real dlsym reads from its return address: that must be our
 * caller's.  A compiler may make a call of a tail call (-O0, -O1, sanitizers), so this is assembly.
 *
 *      struct { void *address; uintptr_t answered; } vs_dlsym_lookup(void *handle, const char *name, void *caller)
 *      ... vs_dlvsym_lookup(void *handle, const char *name, const char *version, void *caller)
 *
 * comes back in two registers (core/arch/tail_jump.h).
 */
#include "core/arch/tail_jump.h"

        look_up dlsym, vs_dlsym_ours, vs_dlsym_lookup, vs_dlsym_next, 2
        look_up dlvsym, vs_dlvsym_ours, vs_dlvsym_lookup, vs_dlvsym_next, 3

        .globl  vs_dlsym_ours
        .globl  vs_dlvsym_ours
        .hidden vs_dlsym_ours
        .hidden vs_dlvsym_ours
        .hidden vs_dlsym_lookup
        .hidden vs_dlsym_next
        .hidden vs_dlvsym_lookup
        .hidden vs_dlvsym_next
        .section .note.GNU-stack, "", %progbits
