/* loader.h - the objects that the loader has loaded, and its look-ups of names. */
#ifndef VS_HOOKS_LOADER_LOADER_H
#define VS_HOOKS_LOADER_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- an object as its program headers and dynamic section describe it (image.c) ----
 *
 * Reads mapped memory only, no allocation, no lock, no loader call: may be used before the C library has been
 * initialised. */

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

/* ---- the loader's list of objects (objects.c) ----
 *
 * The functions that walk the list take the loader's lock; none of them allocates. */

struct vs_loaded {
    uintptr_t start, end; /* mapped range */
    int order;            /* place in the loader's list, which is the order of the global scope */
    bool is_driver;
    char name[4096];
};

/* The loaded object with a soname libcuda.so*, once it is bound. */
bool vs_loaded_driver(struct vs_loaded *out);
/* The object that ADDRESS lies in. */
bool vs_loaded_at(const void *address, struct vs_loaded *out);
/* How many objects are loaded. */
int vs_loaded_count(void);

/* Whether the loader has bound the object that ADDRESS lies in: an object is on its list long before that,
 * and the thread that loads it may run code of others meanwhile (a resolver of an indirect function, a malloc
 * that the program brings), which may look names up.  True where nobody can say (before glibc 2.35). */
bool vs_loaded_is_bound(const void *address);

/* Whether ADDRESS lies in this library.  Takes no lock. */
bool vs_loaded_is_us(const void *address);

/* ---- the real dlsym and dlvsym (next.c): those that come after ours ---- */

/* The real functions, called from here: for handles, or for RTLD_DEFAULT and RTLD_NEXT as seen from this
 * library.  NULL where the name is not found, or where there is no next function. */
void *vs_dlsym_real(void *handle, const char *name);
void *vs_dlvsym_real(void *handle, const char *name, const char *version);

/* Look-ups that are not ours to answer go to DLSYM from now on, that of an interposer behind us; those of our
 * own still go to the C library's. */
void vs_dlsym_goes_to(void *dlsym);
/* Whether they do; then what it answers, asked from here. */
bool vs_dlsym_interposed(void);
void *vs_dlsym_theirs(void *handle, const char *name);

/* Their addresses; NULL where there are none. */
void *vs_find_next_dlsym(void);
void *vs_find_next_dlvsym(void);

#endif
