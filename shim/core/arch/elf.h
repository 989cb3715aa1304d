/*
 * elf.h - the types of relocation that refer to functions, and the prefix of libunwind's symbols, for each
 * processor.
 */
#ifndef VS_CORE_ARCH_ELF_H
#define VS_CORE_ARCH_ELF_H

#include <elf.h>

#if defined(__x86_64__)

#define VS_ARCH_RELOC_GOT    R_X86_64_GLOB_DAT  /* a word of the global offset table */
#define VS_ARCH_RELOC_PLT    R_X86_64_JUMP_SLOT /* of the procedure linkage table */
#define VS_ARCH_RELOC_PLAIN  R_X86_64_64        /* plain data */
#define VS_ARCH_UNWIND_FLUSH "_Ux86_64_flush_cache"
#define VS_ARCH_UNWIND_SPACE "_ULx86_64_local_addr_space"

#elif defined(__aarch64__)

#define VS_ARCH_RELOC_GOT    R_AARCH64_GLOB_DAT
#define VS_ARCH_RELOC_PLT    R_AARCH64_JUMP_SLOT
#define VS_ARCH_RELOC_PLAIN  R_AARCH64_ABS64
#define VS_ARCH_UNWIND_FLUSH "_Uaarch64_flush_cache"
#define VS_ARCH_UNWIND_SPACE "_ULaarch64_local_addr_space"

#else
#error "shim/core/arch knows x86-64 and aarch64"
#endif

#endif
