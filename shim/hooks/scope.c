/*
 * scope.c - the loader's list of objects: which one is the driver, which one an address lies in, and who
 * comes before whom.
 *
 * dl_iterate_phdr walks the objects of our own namespace in the order of their loading, under the loader's
 * lock.  What is found is copied: nothing here points into the list afterwards.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

static const ElfW(Dyn) * dynamic_section(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

/* The object's DT_SONAME, NULL where it has none. */
static const char *soname(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *dynamic = dynamic_section(info);
    uintptr_t strings = 0, offset = 0;
    bool named = false;
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB)
            strings = dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SONAME) {
            offset = dynamic->d_un.d_val;
            named = true;
        }
    }
    if (!named || strings == 0)
        return NULL;
    /* glibc adds the load bias in place, except where the section is read-only (the vDSO) */
    return (const char *)(strings < info->dlpi_addr ? strings + info->dlpi_addr : strings) + offset;
}

static void mapped_range(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end)
{
    *start = UINTPTR_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (from < *start)
            *start = from;
        if (from + p->p_memsz > *end)
            *end = from + p->p_memsz;
    }
}

struct search {
    const void *address; /* NULL: the driver is looked for */
    struct vs_object *out;
    int order;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct vs_object *out = s->out;
    out->order = s->order++;
    if (s->address == NULL) {
        const char *name = soname(info);
        if (name == NULL || strncmp(name, "libcuda.so", 10) != 0)
            return 0;
        mapped_range(info, &out->start, &out->end);
    } else {
        mapped_range(info, &out->start, &out->end);
        if ((uintptr_t)s->address < out->start || (uintptr_t)s->address >= out->end)
            return 0;
    }
    snprintf(out->name, sizeof(out->name), "%s", info->dlpi_name);
    return 1;
}

bool vs_find_driver(struct vs_object *out)
{
    struct search s = {.out = out};
    return dl_iterate_phdr(visit, &s) != 0;
}

bool vs_find_object(const void *address, struct vs_object *out)
{
    struct search s = {.address = address, .out = out};
    return address != NULL && dl_iterate_phdr(visit, &s) != 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *data)
{
    ++*(int *)data;
    return 0;
}

int vs_count_objects(void)
{
    int n = 0;
    dl_iterate_phdr(count, &n);
    return n;
}
