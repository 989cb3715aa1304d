/*
 * elfimage.c - see elfimage.h.
 */
#define _GNU_SOURCE
#include "elfimage.h"

#include <string.h>

#include "core/readable.h"

/* glibc writes absolute addresses into most objects' dynamic section and leaves some (the vDSO) as they are.
 */
static uintptr_t absolute(const struct vs_image *image, ElfW(Addr) value)
{
    return value >= image->bias ? value : value + image->bias;
}

/* A GNU hash table does not say how many symbols there are: the last chain of the highest bucket ends with
 * the last symbol. */
static size_t gnu_hash_symbols(const uint32_t *table)
{
    uint32_t buckets = table[0], first = table[1], words = table[2];
    const uint32_t *bucket = table + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

bool vs_image_open(struct vs_image *image, const struct link_map *map)
{
    *image = (struct vs_image){.bias = map->l_addr};
    uintptr_t gnu_hash = 0, hash = 0;
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB:
            image->symbols = (const void *)absolute(image, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            image->strings = (const void *)absolute(image, d->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            gnu_hash = absolute(image, d->d_un.d_ptr);
            break;
        case DT_HASH:
            hash = absolute(image, d->d_un.d_ptr);
            break;
        case DT_RELA:
            image->rela[0] = (const void *)absolute(image, d->d_un.d_ptr);
            break;
        case DT_RELASZ:
            image->rela_count[0] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_JMPREL:
            image->rela[1] = (const void *)absolute(image, d->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            image->rela_count[1] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        }
    }
    if (hash)
        image->symbol_count = ((const uint32_t *)hash)[1];
    else if (gnu_hash)
        image->symbol_count = gnu_hash_symbols((const uint32_t *)gnu_hash);
    return image->symbols && image->strings && image->symbol_count > 1;
}

const ElfW(Sym) * vs_image_symbol(const struct vs_image *image, const char *name)
{
    for (size_t i = 1; i < image->symbol_count; i++) {
        const ElfW(Sym) *symbol = &image->symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && strcmp(image->strings + symbol->st_name, name) == 0)
            return symbol;
    }
    return NULL;
}

const ElfW(Phdr) * vs_image_phdrs(uintptr_t start, size_t size, size_t *count)
{
    const ElfW(Ehdr) *header = (const void *)start;
    if (size < sizeof *header || !vs_readable(start))
        return NULL;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr)))
        return NULL;
    size_t end = header->e_phoff + (size_t)header->e_phnum * sizeof(ElfW(Phdr));
    if (header->e_phoff > 4096 || header->e_phoff % _Alignof(ElfW(Phdr)) || end > size ||
        !vs_readable(start + end - 8))
        return NULL;
    *count = header->e_phnum;
    return (const void *)(start + header->e_phoff);
}

static const uint8_t *build_id_note(uintptr_t at, uintptr_t end, size_t *length)
{
    while (at + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *note = (const void *)at;
        uintptr_t name = at + sizeof *note, text = name + ((note->n_namesz + 3) & ~3u);
        uintptr_t next = text + ((note->n_descsz + 3) & ~3u);
        if (next > end || next <= at)
            return NULL;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp((void *)name, "GNU", 4) == 0) {
            *length = note->n_descsz;
            return (const uint8_t *)text;
        }
        at = next;
    }
    return NULL;
}

const uint8_t *vs_image_build_id(const ElfW(Phdr) * phdr, size_t count, uintptr_t bias, uintptr_t low,
                                 uintptr_t high, size_t *length)
{
    for (size_t i = 0; i < count; i++) {
        if (phdr[i].p_type != PT_NOTE)
            continue;
        uintptr_t at = bias + phdr[i].p_vaddr, end = at + phdr[i].p_memsz;
        if (at < low || end > high || end < at || at % _Alignof(ElfW(Nhdr)) || !vs_readable(at) ||
            !vs_readable(end - 1))
            continue;
        const uint8_t *id = build_id_note(at, end, length);
        if (id)
            return id;
    }
    return NULL;
}
