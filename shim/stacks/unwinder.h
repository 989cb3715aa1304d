/*
 * unwinder.h - the private libunwind: loaded once, bound to itself, and cut off from everything that could
 * hurt the host.
 */
#ifndef VS_STACKS_UNWINDER_H
#define VS_STACKS_UNWINDER_H

#include <stdbool.h>
#include <stddef.h>

struct vs_block;

/* Loads and confines the private copy that lies in DIRECTORY, and tests it on a stack that it knows.  False
 * with one line in WHY: there are no call stacks then. */
bool vs_unwinder_load(const char *directory, char *why, size_t why_size);

/* Return addresses of the calling thread, innermost first: the first lies in this function, the second in its
 * caller.  BLOCK is the calling thread's and entered.  0 where the unwinder gave up. */
int vs_unwind(struct vs_block *block, void **pcs, int max);

/* Forgets what the unwinder has cached for all threads (not the threads' own caches: vs_block_forget). */
void vs_unwinder_flush(void);

/* ---- what it gets instead of the C library (unwind_imports.c) ----
 *
 * A plain libunwind would, on a pc that it has not seen, walk dl_iterate_phdr under the loader's lock, block
 * and restore signals, take mutexes that a fork leaves locked, allocate its thread-local cache with the
 * host's malloc (through __tls_get_addr, under the loader's lock), keep a pipe among the host's descriptors,
 * open debug files, and abort on damaged unwind tables.  Nobody but us uses this copy, so each of those
 * imports is replaced in its global offset table:
 *
 *      dl_iterate_phdr      answers from _dl_find_object: lock-free and async-signal-safe
 *      __tls_get_addr       memory of the calling thread's vs_block
 *      mmap, munmap         remembered in the vs_block, so that its cache can be dropped
 *      pipe2, read, write, syscall, mincore, msync
 *                           one system call that asks whether an address is readable
 *      open, malloc, stat   fail: unwind tables in memory or none
 *      pthread_mutex_*      a lock that gives up instead of hanging, and that a fork child takes over
 *      sigprocmask          nothing: the vs_block's guard keeps signal handlers out
 *      abort                leaves the unwinder
 *
 * and each symbol that libunwind itself defines is bound to this copy, whatever other libunwind the host has.
 */

struct vs_import {
    const char *name;
    void *replacement;
    bool required; /* a libunwind that does not import it is not the one that this was written for */
};
extern const struct vs_import vs_imports[];
extern const size_t vs_import_count;

/* Finds _dl_find_object and makes the lock's fork cell.  False where glibc has no such function (< 2.35). */
bool vs_imports_prepare(void);

/* How often libunwind asked for the object of a pc, and how often there was one.  For the self-test. */
extern unsigned vs_import_lookups, vs_import_hits;

/* Gives back the locks that the calling thread holds, after it left libunwind by the escape. */
struct vs_block;
void vs_imports_release(struct vs_block *block);

/* True once in each fork child: what other threads were changing at the fork is not to be trusted. */
bool vs_imports_forked(void);

#endif
