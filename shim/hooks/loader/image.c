/*
 * image.c - reads a loaded object's dynamic section, and looks a symbol up in it by its hash table.
 *
 * glibc adds the load bias to the section's addresses in place, except where the section is read-only (the
 * vDSO): an address below the bias has not had it added.
 */
#define _GNU_SOURCE
#include "loader.h"

#include <string.h>
#include <unistd.h>

#include "core/readable.h"

/* The way to libc's dlvsym leads through here before a sanitizer's runtime is up (next.c): no
 * instrumentation, and no string function that a sanitizer might have put its own in front of. */
VS_NO_SANITIZE static bool same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

VS_NO_SANITIZE static bool begins(const char *text, const char *with)
{
    while (*with != '\0' && *text == *with)
        text++, with++;
    return *with == '\0';
}

VS_NO_SANITIZE static uintptr_t absolute(const struct vs_image *o, uintptr_t p)
{
    return p < o->bias ? p + o->bias : p;
}

VS_NO_SANITIZE static void read_dynamic(struct vs_image *o, const ElfW(Dyn) * d)
{
    o->dynamic = d;
    uintptr_t soname = 0; /* offset 0 is the empty string: no name */
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t value = d->d_un.d_val;
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const void *)absolute(o, value);
        else if (d->d_tag == DT_STRTAB)
            o->strings = (const void *)absolute(o, value);
        else if (d->d_tag == DT_GNU_HASH)
            o->gnu_hash = (const void *)absolute(o, value);
        else if (d->d_tag == DT_HASH)
            o->sysv_hash = (const void *)absolute(o, value);
        else if (d->d_tag == DT_SONAME)
            soname = value;
        else if (d->d_tag == DT_RELA)
            o->rela = (const void *)absolute(o, value);
        else if (d->d_tag == DT_RELASZ)
            o->rela_count = value / sizeof(ElfW(Rela));
        else if (d->d_tag == DT_RELACOUNT)
            o->relative_count = value;
        else if (d->d_tag == DT_JMPREL)
            o->plt = (const void *)absolute(o, value);
        else if (d->d_tag == DT_PLTRELSZ)
            o->plt_count = value / sizeof(ElfW(Rela));
    }
    if (o->strings != NULL && soname != 0)
        o->soname = o->strings + soname;
}

static void add_segment(struct vs_image *o, uintptr_t from, uintptr_t to)
{
    if (from < o->start)
        o->start = from;
    if (to > o->end)
        o->end = to;
}

bool vs_image_read(struct vs_image *o, const struct dl_phdr_info *info)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Dyn) *dynamic = NULL;
    *o = (struct vs_image){.bias = info->dlpi_addr,
                           .start = UINTPTR_MAX,
                           .segments = info->dlpi_phdr,
                           .segment_count = info->dlpi_phnum};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = o->bias + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type == PT_LOAD)
            add_segment(o, from, to);
        else if (p->p_type == PT_DYNAMIC)
            dynamic = (const void *)from;
        else if (p->p_type == PT_GNU_RELRO) {
            o->relro_start = from & ~(page - 1);
            o->relro_end = to & ~(page - 1);
        }
    }
    if (dynamic != NULL)
        read_dynamic(o, dynamic);
    return o->symbols != NULL && o->strings != NULL;
}

VS_NO_SANITIZE bool vs_image_of(struct vs_image *o, uintptr_t bias, const ElfW(Dyn) * dynamic)
{
    *o = (struct vs_image){.bias = bias};
    if (dynamic != NULL)
        read_dynamic(o, dynamic);
    return o->symbols != NULL && o->strings != NULL;
}

VS_NO_SANITIZE static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name != '\0'; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

VS_NO_SANITIZE static bool is_defined(const struct vs_image *o, const ElfW(Sym) * symbol, const char *name)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && same(o->strings + symbol->st_name, name);
}

/* An object without a GNU table: its older one at least counts the symbols. */
VS_NO_SANITIZE static const ElfW(Sym) * search_all(const struct vs_image *o, const char *name)
{
    for (uint32_t i = 0; o->sysv_hash != NULL && i < o->sysv_hash[1]; i++)
        if (is_defined(o, &o->symbols[i], name))
            return &o->symbols[i];
    return NULL;
}

/* The table: buckets, first hashed symbol, filter words, filter shift; the filter (of pointers); the buckets
 * (first symbol of each); one word a symbol: its hash, the lowest bit set on a bucket's last. */
VS_NO_SANITIZE const ElfW(Sym) * vs_image_symbol(const struct vs_image *o, const char *name)
{
    const uint32_t *table = o->gnu_hash;
    if (table == NULL || table[0] == 0)
        return search_all(o, name);
    const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + table[0];
    uint32_t hash = hash_of(name), at = buckets[hash % table[0]];
    if (at < table[1])
        return NULL;
    for (;; at++) {
        uint32_t word = chain[at - table[1]];
        const ElfW(Sym) *symbol = &o->symbols[at];
        if ((word | 1) == (hash | 1) && is_defined(o, symbol, name))
            return symbol;
        if (word & 1)
            return NULL;
    }
}

VS_NO_SANITIZE uintptr_t vs_image_defines(const struct vs_image *o, const char *name)
{
    const ElfW(Sym) *symbol = vs_image_symbol(o, name);
    unsigned type = symbol != NULL ? ELF64_ST_TYPE(symbol->st_info) : STT_SECTION;
    return type == STT_FUNC || type == STT_NOTYPE ? o->bias + symbol->st_value : 0;
}

bool vs_image_is_driver(const struct vs_image *o)
{
    return o->soname != NULL && begins(o->soname, "libcuda.so");
}

const char *vs_image_needs(const struct vs_image *o, size_t n)
{
    for (const ElfW(Dyn) *d = o->dynamic; d != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && n-- == 0)
            return o->strings + d->d_un.d_val;
    return NULL;
}

/* The loader compares with the names that an object was asked for by, too; those we do not see. */
bool vs_image_is_called(const struct vs_image *o, const char *path, const char *wanted)
{
    const char *name = path;
    for (const char *p = path; *p != '\0'; p++)
        if (*p == '/')
            name = p + 1;
    return (o->soname != NULL && same(o->soname, wanted)) || same(name, wanted) || same(path, wanted);
}

/* ---- what is asked of memory that may be anything ---- */

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
