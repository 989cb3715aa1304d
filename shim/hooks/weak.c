/*
 * weak.c - weak references to the driver stay NULL where there is no driver.
 *
 * A program not linked with libcuda may declare `cuInit` weak and test it: NULL means "no CUDA here".  The
 * loader, finding our export, binds it to us.  We are linked -z initfirst, so before any other code of the
 * process runs we walk the objects that are loaded by then and put back what the loader would have written
 * without us.  Where a driver is loaded at that moment the references would have bound to it, and are left.
 *
 * Left alone: references of objects that are loaded later (their wrappers answer
 * CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND while there is no driver), and lazy PLT slots that are not bound
 * yet.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOC_GOT   R_X86_64_GLOB_DAT
#define RELOC_PLT   R_X86_64_JUMP_SLOT
#define RELOC_PLAIN R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_GOT   R_AARCH64_GLOB_DAT
#define RELOC_PLT   R_AARCH64_JUMP_SLOT
#define RELOC_PLAIN R_AARCH64_ABS64
#endif

struct object {
    ElfW(Addr) bias;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * rela, *plt;
    size_t rela_count, plt_count;
    uintptr_t relro_start, relro_end; /* whole pages that the loader has write-protected */
};

static uintptr_t absolute(const struct object *o, ElfW(Addr) p)
{
    return p < o->bias ? p + o->bias : p; /* glibc adds the bias in place, save in a read-only section */
}

static void read_dynamic(struct object *o, const ElfW(Dyn) * d)
{
    for (; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const void *)absolute(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            o->strings = (const void *)absolute(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELA)
            o->rela = (const void *)absolute(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELASZ)
            o->rela_count = d->d_un.d_val / sizeof(ElfW(Rela));
        else if (d->d_tag == DT_JMPREL)
            o->plt = (const void *)absolute(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            o->plt_count = d->d_un.d_val / sizeof(ElfW(Rela));
    }
}

static bool read_object(struct object *o, const struct dl_phdr_info *info)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *o = (struct object){.bias = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const void *)(o->bias + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            o->relro_start = (o->bias + p->p_vaddr) & ~(page - 1);
            o->relro_end = (o->bias + p->p_vaddr + p->p_memsz) & ~(page - 1);
        }
    }
    if (dynamic != NULL)
        read_dynamic(o, dynamic);
    return o->symbols != NULL && o->strings != NULL;
}

static void write_slot(const struct object *o, uintptr_t slot, uintptr_t value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = slot & ~(page - 1);
    bool is_protected = slot >= o->relro_start && slot < o->relro_end;
    if (is_protected && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return;
    *(uintptr_t *)slot = value;
    if (is_protected)
        mprotect((void *)start, page, PROT_READ);
}

static void reset_slots(const struct object *o, const ElfW(Rela) * rela, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned type = ELF64_R_TYPE(rela[i].r_info);
        if (type != RELOC_GOT && type != RELOC_PLT && type != RELOC_PLAIN)
            continue;
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(rela[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
            continue;
        const struct vs_row *row = vs_row_find(o->strings + symbol->st_name);
        uintptr_t addend = type == RELOC_PLAIN ? (uintptr_t)rela[i].r_addend : 0;
        uintptr_t slot = o->bias + rela[i].r_offset;
        if (row != NULL && *(uintptr_t *)slot == (uintptr_t)row->wrapper + addend)
            write_slot(o, slot, addend);
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct object o;
    if (read_object(&o, info)) {
        reset_slots(&o, o.rela, o.rela_count);
        reset_slots(&o, o.plt, o.plt_count);
    }
    return 0;
}

void vs_weak_reset(void)
{
    struct vs_object driver;
    if (!vs_find_driver(&driver))
        dl_iterate_phdr(visit, NULL);
}
