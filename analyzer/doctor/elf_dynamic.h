/*
 * elf_dynamic.h - the dynamic section of an ELF file, read from the file: nothing is loaded.
 */
#ifndef VS_DOCTOR_ELF_DYNAMIC_H
#define VS_DOCTOR_ELF_DYNAMIC_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the names of the libraries that PATH needs to OUT, separated by spaces.  False where PATH is no ELF
 * file. */
bool elf_needed(const char *path, char *out, size_t size);

/* Whether PATH imports NAME (an undefined symbol in its dynamic symbol table). */
bool elf_imports(const char *path, const char *name);

#endif
