/*
 * unbind.c - gives references that only our exports satisfied back what they would have been without us.
 *
 * A program not linked with libcuda may declare `cuInit` weak and test it: NULL means "no CUDA here".  The
 * loader, finding our export, binds it to us.  Likewise a program may bring a library of its own that defines
 * driver functions under another soname.  We are linked -z initfirst, so before any other code of the process
 * runs we walk the objects that are loaded by then, look each reference up as the loader would have without
 * us, and put that into the slot, unless it is the driver's, whose place is rightly ours.
 *
 * This runs before the C library's own initialisation: no allocation, no dlopen (it would run the other
 * libraries' constructors, libc's among them, without an environment), no dlsym (a failing one allocates).
 *
 * Left alone: references of objects that are loaded later (their wrappers answer
 * CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND while there is no driver).
 */
#define _GNU_SOURCE
#include "hook.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"

#if defined(__x86_64__)
#define RELOC_GOT   R_X86_64_GLOB_DAT
#define RELOC_PLT   R_X86_64_JUMP_SLOT
#define RELOC_PLAIN R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_GOT   R_AARCH64_GLOB_DAT
#define RELOC_PLT   R_AARCH64_JUMP_SLOT
#define RELOC_PLAIN R_AARCH64_ABS64
#endif

/* ---- what the loader would have found ---- */

struct search {
    const char *name;
    uintptr_t found;
    bool in_driver;
};

static int search_image(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct vs_image image;
    uintptr_t self = (uintptr_t)search_image;
    if (!vs_image_read(&image, info) || (self >= image.start && self < image.end))
        return 0;
    s->found = vs_image_defines(&image, s->name);
    s->in_driver = s->found != 0 && vs_image_is_driver(&image);
    return s->found != 0;
}

/* The objects loaded so far, in their order, are the global scope. */
static struct search search_without_us(const char *name)
{
    struct search s = {.name = name};
    dl_iterate_phdr(search_image, &s);
    return s;
}

/* ---- slots ---- */

static void write_slot(const struct vs_image *o, uintptr_t slot, uintptr_t value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = slot & ~(page - 1);
    bool is_protected = slot >= o->relro_start && slot < o->relro_end;
    if (is_protected && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return;
    *(uintptr_t *)slot = value;
    if (is_protected)
        mprotect((void *)start, page, PROT_READ);
}

static void unbind_slot(const struct vs_image *o, const ElfW(Rela) * rela, const struct vs_row *row,
                        bool weak)
{
    unsigned type = ELF64_R_TYPE(rela->r_info);
    uintptr_t addend = type == RELOC_PLAIN ? (uintptr_t)rela->r_addend : 0, slot = o->bias + rela->r_offset;
    bool is_ours = *(uintptr_t *)slot == (uintptr_t)row->wrapper + addend;
    if (!is_ours && type != RELOC_PLT) /* a PLT slot may be bound later: to us */
        return;
    struct search without_us = search_without_us(row->symbol);
    if (without_us.in_driver)
        return;
    /* a strong reference that nothing else satisfies would have kept the program from starting: it is ours;
     * and a PLT slot that is not bound yet was made to be called, not tested */
    if (without_us.found == 0 && (!weak || !is_ours))
        return;
    write_slot(o, slot, without_us.found + addend);
}

static void unbind_slots(const struct vs_image *o, const ElfW(Rela) * rela, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned type = ELF64_R_TYPE(rela[i].r_info);
        if (type != RELOC_GOT && type != RELOC_PLT && type != RELOC_PLAIN)
            continue;
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(rela[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF)
            continue;
        const struct vs_row *row = vs_row_find(o->strings + symbol->st_name);
        if (row != NULL)
            unbind_slot(o, &rela[i], row, ELF64_ST_BIND(symbol->st_info) == STB_WEAK);
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct vs_image image;
    if (vs_image_read(&image, info)) {
        unbind_slots(&image, image.rela, image.rela_count);
        unbind_slots(&image, image.plt, image.plt_count);
    }
    return 0;
}

void vs_unbind_strangers(void)
{
    dl_iterate_phdr(visit, NULL);
}
