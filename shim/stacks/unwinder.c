/* unwinder.c - see unwinder.h. */
#define _GNU_SOURCE
#include "unwinder.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "block.h"
#include "core/arch/elf.h"
#include "hooks/loader/loader.h"
#include "modules.h"

static struct {
    int (*backtrace)(void **, int);
    void (*flush_cache)(void *, uintptr_t, uintptr_t);
    void *address_space;
} unwinder;

/* ---- binding ---- */

/* What relocation RELA of the private copy should point to: a replacement, the copy's own symbol, or (NULL)
 * what the loader chose. */
static void *binding(const struct vs_image *image, const ElfW(Rela) * rela, bool *replaced)
{
    unsigned type = (unsigned)ELF64_R_TYPE(rela->r_info);
    if (type != VS_ARCH_RELOC_PLT && type != VS_ARCH_RELOC_GOT && type != VS_ARCH_RELOC_PLAIN)
        return NULL;
    const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(rela->r_info)];
    const char *name = image->strings + symbol->st_name;
    if (symbol->st_shndx != SHN_UNDEF)
        return (char *)vs_image_address(image, symbol) + rela->r_addend;
    for (size_t i = 0; i < vs_import_count; i++) {
        if (strcmp(vs_imports[i].name, name) == 0) {
            replaced[i] = true;
            return vs_imports[i].replacement;
        }
    }
    return NULL;
}

static void bind_table(const struct vs_image *image, const ElfW(Rela) * rela, size_t count, bool *replaced)
{
    for (; count-- > 0; rela++) {
        void *target = binding(image, rela, replaced);
        if (target)
            *(void **)(image->bias + rela->r_offset) = target;
    }
}

static bool bind_all(const struct vs_image *image, const char **missing)
{
    bool replaced[64] = {false};
    bind_table(image, image->rela, image->rela_count, replaced);
    bind_table(image, image->plt, image->plt_count, replaced);
    for (size_t i = 0; i < vs_import_count; i++) {
        if (vs_imports[i].required && !replaced[i]) {
            *missing = vs_imports[i].name;
            return false;
        }
    }
    return true;
}

/* The part that the loader made read-only after relocation (PT_GNU_RELRO), whole pages of it. */
static bool protect_relro(const ElfW(Phdr) * phdr, size_t count, uintptr_t bias, int protection)
{
    for (size_t i = 0; i < count; i++) {
        if (phdr[i].p_type != PT_GNU_RELRO)
            continue;
        uintptr_t from = (bias + phdr[i].p_vaddr) & ~(uintptr_t)4095;
        uintptr_t to = (bias + phdr[i].p_vaddr + phdr[i].p_memsz) & ~(uintptr_t)4095;
        if (to > from && mprotect((void *)from, to - from, protection) != 0)
            return false;
    }
    return true;
}

/* Its thread-locals must start as zeroes and fit where a vs_block keeps them. */
static bool tls_fits(const ElfW(Phdr) * phdr, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (phdr[i].p_type == PT_TLS && (phdr[i].p_filesz || phdr[i].p_memsz > VS_BLOCK_TLS))
            return false;
    return true;
}

static bool confine(const struct link_map *map, struct vs_image *image, char *why, size_t why_size)
{
    struct vs_object object;
    size_t count = 0;
    const char *missing = "a program header";
    const ElfW(Phdr) *phdr = NULL;
    if (vs_object_find((uintptr_t)map->l_ld, &object))
        phdr = vs_image_phdrs(object.start, object.end - object.start, &count);
    if (!phdr || !tls_fits(phdr, count) || !vs_image_of(image, map->l_addr, map->l_ld)) {
        snprintf(why, why_size, "%s is not the libunwind that vramscope was built with", map->l_name);
        return false;
    }
    if (!protect_relro(phdr, count, image->bias, PROT_READ | PROT_WRITE)) {
        snprintf(why, why_size, "mprotect on the private libunwind: %s", strerror(errno));
        return false;
    }
    bool ok = bind_all(image, &missing);
    protect_relro(phdr, count, image->bias, PROT_READ);
    if (!ok)
        snprintf(why, why_size, "%s does not import %s as expected", map->l_name, missing);
    return ok;
}

static void *own_symbol(const struct vs_image *image, const char *name)
{
    const ElfW(Sym) *symbol = vs_image_symbol(image, name);
    return symbol ? vs_image_address(image, symbol) : NULL;
}

/* ---- unwinding ---- */

__attribute__((noinline)) int vs_unwind(struct vs_block *block, void **pcs, int max)
{
    volatile int count = 0;
    block->captures++; /* so that a wiped block's zeroes are of no capture */
    if (__builtin_expect(vs_imports_forked(), 0))
        vs_unwinder_flush();
    if (__builtin_setjmp(block->escape) == 0) {
        count = unwinder.backtrace(pcs, max);
    } else { /* abort() or a lock that could not be had: what libunwind was changing is dropped */
        vs_imports_release(block);
        vs_block_forget(block);
        count = 0;
    }
    return count;
}

void vs_unwinder_flush(void)
{
    unwinder.flush_cache(unwinder.address_space, 0, 0);
}

/* ---- self-test: a stack whose return addresses we have from the compiler ---- */

struct test_stack {
    void *inner_return, *outer_return;
    void *pcs[8];
    int count;
};

static __attribute__((noinline)) void test_inner(struct vs_block *block, struct test_stack *t)
{
    t->inner_return = __builtin_return_address(0);
    t->count = vs_unwind(block, t->pcs, 8);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static __attribute__((noinline)) void test_outer(struct vs_block *block, struct test_stack *t)
{
    t->outer_return = __builtin_return_address(0);
    test_inner(block, t);
    __asm__ volatile("" ::: "memory");
}

static bool self_test(char *why, size_t why_size)
{
    struct test_stack t = {NULL, NULL, {NULL}, 0};
    struct vs_block *block = vs_block_enter();
    if (!block) {
        snprintf(why, why_size, "no memory for a thread's caches");
        return false;
    }
    test_outer(block, &t);
    vs_block_leave(block);
    if (t.count < 4 || t.pcs[2] != t.inner_return || t.pcs[3] != t.outer_return || vs_import_hits < 3) {
        snprintf(why, why_size,
                 "the private libunwind fails its self-test (%d frames, %u of %u objects found)", t.count,
                 vs_import_hits, vs_import_lookups);
        return false;
    }
    return true;
}

bool vs_unwinder_load(const char *directory, char *why, size_t why_size)
{
    char path[PATH_MAX];
    struct link_map *map = NULL;
    struct vs_image image;
    snprintf(path, sizeof path, "%s/libvramscope-unwind.so", directory);
    if (access(path, R_OK) != 0) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    void *handle = vs_modules_watch_load(path);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        snprintf(why, why_size, "%s", dlerror());
        return false;
    }
    if (!confine(map, &image, why, why_size))
        return false;
    unwinder.backtrace = own_symbol(&image, "unw_backtrace");
    unwinder.flush_cache = own_symbol(&image, VS_ARCH_UNWIND_FLUSH);
    void **space = own_symbol(&image, VS_ARCH_UNWIND_SPACE);
    if (!unwinder.backtrace || !unwinder.flush_cache || !space) {
        snprintf(why, why_size, "%s does not export what is needed", path);
        return false;
    }
    unwinder.address_space = *space;
    return self_test(why, why_size);
}
