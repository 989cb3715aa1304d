/*
 * unwind_imports.h - what the private libunwind gets instead of the C library (see unwinder.h for the list).
 */
#ifndef VS_STACKS_UNWIND_IMPORTS_H
#define VS_STACKS_UNWIND_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
