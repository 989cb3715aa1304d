/* elf_dynamic.c - reads the dynamic section of an ELF file (doctor.h). */
#include "doctor.h"

#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "read/guard.h"

/* Calls VISIT for each section of TYPE until it returns true. */
static bool each_section(const char *path, unsigned type, bool *is_elf,
                         bool (*visit)(Elf *, const GElf_Shdr *, Elf_Data *, void *), void *argument)
{
    elf_version(EV_CURRENT);
    int fd = guard_open(path);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    bool done = false;
    *is_elf = elf && elf_kind(elf) == ELF_K_ELF;
    for (Elf_Scn *section = NULL; *is_elf && !done && (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        Elf_Data *data;
        if (gelf_getshdr(section, &header) && header.sh_type == type && header.sh_entsize &&
            (data = elf_getdata(section, NULL)))
            done = visit(elf, &header, data, argument);
    }
    if (elf)
        elf_end(elf);
    if (fd >= 0)
        close(fd);
    return done;
}

struct text_out {
    char *out;
    size_t size;
};

static bool list_needed(Elf *elf, const GElf_Shdr *header, Elf_Data *data, void *argument)
{
    struct text_out *t = argument;
    for (int i = 0; (size_t)i < data->d_size / header->sh_entsize; i++) {
        GElf_Dyn entry;
        size_t used = strlen(t->out);
        if (!gelf_getdyn(data, i, &entry) || entry.d_tag != DT_NEEDED)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, entry.d_un.d_val);
        snprintf(t->out + used, t->size - used, "%s%s", used ? " " : "", name ? name : "?");
    }
    return true;
}

bool elf_needed(const char *path, char *out, size_t size)
{
    struct text_out t = {out, size};
    bool is_elf;
    out[0] = 0;
    each_section(path, SHT_DYNAMIC, &is_elf, list_needed, &t);
    return is_elf;
}

static bool find_import(Elf *elf, const GElf_Shdr *header, Elf_Data *data, void *argument)
{
    for (int i = 0; (size_t)i < data->d_size / header->sh_entsize; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, i, &symbol) || symbol.st_shndx != SHN_UNDEF)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name && strcmp(name, argument) == 0)
            return true;
    }
    return false;
}

bool elf_imports(const char *path, const char *name)
{
    bool is_elf;
    return each_section(path, SHT_DYNSYM, &is_elf, find_import, (void *)name);
}
