/*
 * got.c - finds and writes the words of a loaded object that refer to functions.
 *
 * The loader write-protects some of these words (RELRO): such a page is made writable for the moment.  One
 * that is writable anyway stays so: whoever made it writable, the loader before it is done or another library
 * that changes slots, is about to write there.
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/arch/elf.h"
#include "core/contracts.h"

static bool slot_of(const struct vs_image *o, const ElfW(Rela) * rela, struct vs_got_slot *out)
{
    unsigned type = ELF64_R_TYPE(rela->r_info);
    if (type != VS_ARCH_RELOC_GOT && type != VS_ARCH_RELOC_PLT && type != VS_ARCH_RELOC_PLAIN)
        return false;
    const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(rela->r_info)];
    const char *name = o->strings + symbol->st_name;
    if (symbol->st_shndx != SHN_UNDEF || name[0] != 'c' || name[1] != 'u')
        return false;
    *out = (struct vs_got_slot){.at = o->bias + rela->r_offset,
                                .addend = type == VS_ARCH_RELOC_PLAIN ? (uintptr_t)rela->r_addend : 0,
                                .name = name,
                                .weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK,
                                .plt = type == VS_ARCH_RELOC_PLT};
    return true;
}

void vs_got_visit(const struct vs_image *o, void (*visit)(const struct vs_got_slot *slot, void *context),
                  void *context)
{
    struct vs_got_slot slot;
    for (size_t i = o->relative_count; i < o->rela_count; i++)
        if (slot_of(o, &o->rela[i], &slot))
            visit(&slot, context);
    for (size_t i = 0; i < o->plt_count; i++)
        if (slot_of(o, &o->plt[i], &slot))
            visit(&slot, context);
}

/* Whether the word lies in what the object has for writing; the loader makes code writable for the moment
 * that it relocates it, and we do not. */
static bool in_data(const struct vs_image *o, uintptr_t at)
{
    for (size_t i = 0; i < o->segment_count; i++) {
        const ElfW(Phdr) *p = &o->segments[i];
        uintptr_t from = o->bias + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && at >= from && at - from < p->p_memsz)
            return true;
    }
    return false;
}

/* Whether the page at START can be written: the kernel is had to write what is there, in one step.  Nobody
 * waits at either address. */
static bool is_writable(uintptr_t start)
{
    static uint32_t nobody;
    int saved = errno;
    bool wrote = syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, (void *)0, (void *)start,
                         FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
    errno = saved;
    return wrote;
}

/* Whether the kernel tells that at all: of a word of ours, and of one that nobody can write.  A page of the
 * loader's that counted as protected, and is not, would be protected too early. */
static bool tells_writable(void)
{
    static uint32_t data;
    static const uint32_t constant = 1;
    static _Atomic int known; /* 1: it tells, 2: it does not; relaxed: two threads find the same */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer != 0)
        return answer == 1;
    bool tells = is_writable((uintptr_t)&data) && !is_writable((uintptr_t)&constant);
    atomic_store_explicit(&known, tells ? 1 : 2, memory_order_relaxed);
    if (tells)
        vs_contract_proven(VS_CONTRACT_KERNEL_WRITABLE, "FUTEX_WAKE_OP tells it");
    else
        vs_contract_broken(VS_CONTRACT_KERNEL_WRITABLE,
                           "FUTEX_WAKE_OP does not tell which memory can be written");
    return tells;
}

/* Writes the changes from the first on that are on its page: the loader's protection is taken from a page
 * once, since each such call costs more than all else that is done here.  How many they are. */
static size_t write_page(const struct vs_image *o, struct vs_got_change *c, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = c->slot.at, start = at & ~(page - 1);
    bool of_loader = at >= o->relro_start && at < o->relro_end, unclear = of_loader && !tells_writable();
    bool is_protected = of_loader && !unclear && !is_writable(start);
    bool sealed = unclear || (is_protected && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0);
    size_t i = 0;
    for (; i < n && (c[i].slot.at & ~(page - 1)) == start; i++) {
        c[i].refused = sealed || !in_data(o, c[i].slot.at);
        /* relaxed: who calls through the word meanwhile gets the one or the other, both good */
        if (!c[i].refused)
            __atomic_store_n((uintptr_t *)c[i].slot.at, c[i].value, __ATOMIC_RELAXED);
    }
    if (is_protected && !sealed)
        mprotect((void *)start, page, PROT_READ);
    return i;
}

void vs_got_write_all(const struct vs_image *o, struct vs_got_change *changes, size_t n)
{
    for (size_t i = 0; i < n;) {
        changes[i].refused = !in_data(o, changes[i].slot.at);
        i += changes[i].refused ? 1 : write_page(o, &changes[i], n - i);
    }
}

bool vs_got_write(const struct vs_image *o, const struct vs_got_slot *slot, uintptr_t value)
{
    struct vs_got_change c = {.slot = *slot, .value = value};
    vs_got_write_all(o, &c, 1);
    return !c.refused;
}
