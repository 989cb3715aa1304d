/*
 * readable.h - whether memory can be read, asked of the kernel: how somebody else's objects are looked at
 * before anything is known of them.
 */
#ifndef VS_CORE_READABLE_H
#define VS_CORE_READABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the 8 bytes at ADDRESS (aligned down) can be read: one harmless system call, no descriptor; errno
 * stays.  False for all of them where the kernel does not tell (KERNEL_READABLE of contracts.def). */
bool vs_readable(uintptr_t address);
/* Whether the N bytes from ADDRESS on can be, at most 4096. */
bool vs_readable_bytes(uintptr_t address, size_t n);
/* Copies the text at ADDRESS, as far as it can be read and TO has ROOM; its length. */
size_t vs_copy_text(char *to, size_t room, uintptr_t address);

#endif
