/*
 * elfimage.h - reads the dynamic section of an object that the loader has mapped: its symbols, relocations
 * and build-id.
 *
 * Everything is read from memory: no file, no allocation, no loader call, no lock.  The object must stay
 * mapped while it is looked at.
 */
#ifndef VS_STACKS_ELFIMAGE_H
#define VS_STACKS_ELFIMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_image {
    uintptr_t bias;
    const ElfW(Sym) * symbols;
    size_t symbol_count;
    const char *strings;
    const ElfW(Rela) * rela[2]; /* DT_RELA and DT_JMPREL */
    size_t rela_count[2];
};

/* False where the object has no symbol table that can be counted (DT_GNU_HASH or DT_HASH). */
bool vs_image_open(struct vs_image *image, const struct link_map *map);

/* The symbol that the object itself defines as NAME, or NULL. */
const ElfW(Sym) * vs_image_symbol(const struct vs_image *image, const char *name);

static inline void *vs_image_address(const struct vs_image *image, const ElfW(Sym) * symbol)
{
    return (void *)(image->bias + symbol->st_value);
}

/* The program headers behind the ELF header at START, or NULL where none is readable there.  SIZE bytes from
 * START belong to the object. */
const ElfW(Phdr) * vs_image_phdrs(uintptr_t start, size_t size, size_t *count);

/* The GNU build-id of the object whose program headers these are; NULL = none.  LOW..HIGH is its mapping. */
const uint8_t *vs_image_build_id(const ElfW(Phdr) * phdr, size_t count, uintptr_t bias, uintptr_t low,
                                 uintptr_t high, size_t *length);

#endif
