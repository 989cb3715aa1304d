/*
 * elf_names.c - see symbols.h.  Addresses are some hundred and symbols some hundred thousand: the
 * addresses are sorted, and each symbol is matched once.
 */
#include "symbols.h"
#include "guard.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef VS_HAVE_DEMANGLE
extern char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
#endif

enum { NAME_MAX_BYTES = 2000 };

int64_t elf_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

char *elf_demangle(const char *name)
{
    char *plain = NULL;
#ifdef VS_HAVE_DEMANGLE
    int status = 0;
    if (name[0] == '_' && name[1] == 'Z')
        plain = __cxa_demangle(name, NULL, NULL, &status);
#endif
    if (!plain)
        plain = strdup(name);
    if (plain && strlen(plain) > NAME_MAX_BYTES)
        strcpy(plain + NAME_MAX_BYTES - 3, "...");
    return plain;
}

/* ---- opening ---- */

struct elf_file {
    int fd;
    Elf *elf;
};

static bool open_elf(const char *path, struct elf_file *file)
{
    elf_version(EV_CURRENT);
    file->fd = guard_open(path); /* the path comes from the database and may be anything */
    file->elf = file->fd < 0 ? NULL : elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
    return file->elf && elf_kind(file->elf) == ELF_K_ELF;
}

static void close_elf(struct elf_file *file)
{
    if (file->elf)
        elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
}

/* The build-id note among the notes of one segment or section. */
static bool note_build_id(Elf_Data *data, char *hex, size_t size)
{
    size_t at = 0, name, text;
    GElf_Nhdr note;
    while (data && (at = gelf_getnote(data, at, &note, &name, &text)) > 0) {
        const char *bytes = data->d_buf;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name, "GNU", 4) != 0)
            continue;
        for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < size; i++)
            snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[text + i]);
        return true;
    }
    return false;
}

static bool read_build_id(Elf *elf, char *hex, size_t size)
{
    size_t count = 0;
    GElf_Phdr phdr;
    hex[0] = 0;
    elf_getphdrnum(elf, &count);
    for (size_t i = 0; i < count; i++) {
        if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_NOTE)
            continue;
        Elf_Type type = phdr.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
        if (note_build_id(elf_getdata_rawchunk(elf, (int64_t)phdr.p_offset, phdr.p_filesz, type), hex, size))
            return true;
    }
    return false;
}

static bool same_file(const struct elf_file *file, const char *build_id, int64_t not_after)
{
    char hex[130];
    struct stat st;
    if (build_id)
        return read_build_id(file->elf, hex, sizeof hex) && strcmp(hex, build_id) == 0;
    return fstat(file->fd, &st) == 0 && st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec <= not_after;
}

/* ---- symbols ---- */

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct name_query *)a)->offset, y = ((const struct name_query *)b)->offset;
    return (x > y) - (x < y);
}

static size_t first_at(const struct name_query *queries, size_t count, uint64_t offset)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (queries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of several names for one address the global one is better known. */
static int symbol_rank(const GElf_Sym *symbol)
{
    unsigned binding = GELF_ST_BIND(symbol->st_info);
    return binding == STB_GLOBAL ? 3 : binding == STB_WEAK ? 2 : 1;
}

static bool better(const struct name_query *q, const GElf_Sym *symbol, int rank)
{
    return !q->rank || symbol->st_value > q->best || (symbol->st_value == q->best && rank > q->rank);
}

static void offer(struct name_query *queries, size_t count, const GElf_Sym *symbol, const char *name)
{
    uint64_t end = symbol->st_value + symbol->st_size; /* without a size it contains nothing */
    int rank = symbol_rank(symbol);
    for (size_t i = first_at(queries, count, symbol->st_value); i < count && queries[i].offset < end; i++) {
        struct name_query *q = &queries[i];
        if (!better(q, symbol, rank))
            continue;
        free(q->function);
        q->function = strdup(name);
        q->best = symbol->st_value;
        q->rank = rank;
    }
}

static void offer_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, int64_t deadline,
                        struct name_query *queries, size_t count)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t entries = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
    for (size_t i = 0; i < entries; i++) {
        GElf_Sym symbol;
        if (i % 65536 == 65535 && elf_monotonic_ns() > deadline)
            return;
        if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
            continue;
        int type = GELF_ST_TYPE(symbol.st_info);
        const char *name = type == STT_FUNC || type == STT_GNU_IFUNC
                               ? elf_strptr(elf, header->sh_link, symbol.st_name)
                               : NULL;
        if (name && name[0])
            offer(queries, count, &symbol, name);
    }
}

/* Returns whether there is a .symtab; a stripped file has only .dynsym. */
static bool offer_symbols(Elf *elf, int64_t deadline, struct name_query *queries, size_t count)
{
    bool full = false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
            continue;
        full |= header.sh_type == SHT_SYMTAB;
        offer_table(elf, section, &header, deadline, queries, count);
    }
    return full;
}

/* ---- lines ---- */

/* The compilation unit of ADDRESS: by .debug_aranges, else (clang writes none) by looking at every unit. */
static bool find_unit(Dwarf *dwarf, Dwarf_Addr address, Dwarf_Die *unit, int64_t deadline)
{
    if (dwarf_addrdie(dwarf, address, unit))
        return true;
    Dwarf_Off at = 0, next;
    size_t header;
    while (elf_monotonic_ns() < deadline && dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0) {
        if (dwarf_offdie(dwarf, at + header, unit) && dwarf_haspc(unit, address) == 1)
            return true;
        at = next;
    }
    return false;
}

static void add_lines(Elf *elf, int64_t deadline, struct name_query *queries, size_t count)
{
    Dwarf *dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    for (size_t i = 0; dwarf && i < count && elf_monotonic_ns() < deadline; i++) {
        Dwarf_Die unit;
        if (queries[i].file || !find_unit(dwarf, queries[i].offset, &unit, deadline))
            continue;
        Dwarf_Line *line = dwarf_getsrc_die(&unit, queries[i].offset);
        const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
        if (!file || dwarf_lineno(line, &queries[i].line) != 0)
            continue;
        queries[i].file = strdup(file);
    }
    if (dwarf)
        dwarf_end(dwarf);
}

/* ---- all of it ---- */

/* Distributions put stripped symbols into /usr/lib/debug/.build-id/ab/cdef….debug. */
static void ask_debug_files(const char *build_id, int64_t deadline, struct name_query *queries, size_t count)
{
    char path[256];
    struct elf_file file;
    if (!build_id || strlen(build_id) < 4)
        return;
    snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    if (open_elf(path, &file) && same_file(&file, build_id, 0)) {
        offer_symbols(file.elf, deadline, queries, count);
        add_lines(file.elf, deadline, queries, count);
    }
    close_elf(&file);
}

static bool has_lines(Elf *elf)
{
    size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && strcmp(name, ".debug_line") == 0)
            return true;
    }
    return false;
}

static void demangle_all(struct name_query *queries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *name = queries[i].function;
        queries[i].function = name ? elf_demangle(name) : NULL;
        free(name);
    }
}

bool elf_names(const char *path, const char *build_id, int64_t not_after, int64_t deadline,
               struct name_query *queries, size_t count)
{
    struct elf_file file;
    bool ok = open_elf(path, &file) && same_file(&file, build_id, not_after);
    if (ok) {
        qsort(queries, count, sizeof *queries, by_offset);
        bool whole = offer_symbols(file.elf, deadline, queries, count);
        if (!whole || !has_lines(file.elf))
            ask_debug_files(build_id, deadline, queries, count);
        add_lines(file.elf, deadline, queries, count);
        demangle_all(queries, count);
    }
    close_elf(&file);
    return ok;
}
