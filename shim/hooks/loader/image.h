/*
 * image.h - a loaded object as its program headers and dynamic section describe it.
 *
 * Reads mapped memory only: no allocation, no lock, no loader call, so that it may be used before the C
 * library has been initialised.
 */
#ifndef VS_HOOKS_LOADER_IMAGE_H
#define VS_HOOKS_LOADER_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For code that may run before a sanitizer's runtime is up: sanitizers look symbols up while they start. */
#define VS_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

struct vs_image {
    ElfW(Addr) bias;
    uintptr_t start, end; /* mapped range */
    const ElfW(Sym) * symbols;
    const char *strings;
    const char *soname; /* NULL where it has none */
    const uint32_t *gnu_hash, *sysv_hash;
    const ElfW(Rela) * rela;
    const ElfW(Rela) * plt;
    size_t rela_count, plt_count, relative_count; /* so many at the begin of rela name no symbol */
    const ElfW(Dyn) * dynamic;
    const ElfW(Phdr) * segments; /* NULL: not known */
    size_t segment_count;
    uintptr_t relro_start, relro_end; /* whole pages that the loader has write-protected */
};

/* False where the object has no dynamic symbols. */
bool vs_image_read(struct vs_image *image, const struct dl_phdr_info *info);

/* The same from its dynamic section alone, without the mapped range. */
bool vs_image_of(struct vs_image *image, uintptr_t bias, const ElfW(Dyn) * dynamic);

/* The symbol NAME that the object defines for others; NULL where it does not. */
const ElfW(Sym) * vs_image_symbol(const struct vs_image *image, const char *name);

static inline void *vs_image_address(const struct vs_image *image, const ElfW(Sym) * symbol)
{
    return (void *)(image->bias + symbol->st_value);
}

/* The address of the function NAME that the object defines for others, 0 where it does not. */
uintptr_t vs_image_defines(const struct vs_image *image, const char *name);

/* Whether it is a CUDA driver, by its soname. */
bool vs_image_is_driver(const struct vs_image *image);

/* The name of the Nth library that it is linked with, NULL beyond the last. */
const char *vs_image_needs(const struct vs_image *image, size_t n);

/* Whether it, loaded from PATH, is what a link with WANTED means. */
bool vs_image_is_called(const struct vs_image *image, const char *path, const char *wanted);

/* The program headers behind the ELF header at START, or NULL where none is readable there.  SIZE bytes from
 * START belong to the object. */
const ElfW(Phdr) * vs_image_phdrs(uintptr_t start, size_t size, size_t *count);

/* The GNU build-id of the object whose program headers these are; NULL = none.  LOW..HIGH is its mapping. */
const uint8_t *vs_image_build_id(const ElfW(Phdr) * phdr, size_t count, uintptr_t bias, uintptr_t low,
                                 uintptr_t high, size_t *length);

#endif
