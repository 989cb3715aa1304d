/*
 * elf_names.h - function names and source lines for addresses in one ELF file.
 *
 * From .symtab, .dynsym and DWARF's line table; of a stripped file from the separate debug file, where one
 * is installed.  C++ names are demangled.
 */
#ifndef VS_READ_ELF_NAMES_H
#define VS_READ_ELF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_query {
    uint64_t offset; /* virtual address in the file */
    int64_t frame;   /* the frame's id */
    char *function;  /* out, malloc'd; NULL = no symbol contains it */
    char *file;      /* out, malloc'd; NULL = no line information */
    int line;
    uint64_t best; /* start of the symbol found so far */
    int rank;
};

/* Answers QUERIES (sorted here by offset) from the ELF file PATH.  BUILD_ID: hexadecimal, must be the file's;
 * NULL = the file must not be younger than NOT_AFTER (CLOCK_REALTIME, ns).  Stops at DEADLINE
 * (CLOCK_MONOTONIC, ns).  False where the file is missing, no ELF, or another one. */
bool elf_names(const char *path, const char *build_id, int64_t not_after, int64_t deadline,
               struct name_query *queries, size_t count);

/* A demangled copy of NAME, or a plain copy where it is not mangled. */
char *elf_demangle(const char *name);

int64_t elf_monotonic_ns(void);

#endif
