/*
 * fuzz_elf.c - objects in which anything may stand: names and lines out of a file (symbols.h), program
 * headers and build-id out of memory (loader.h).  The good ones are this program's first pages and a library.
 */
#define _GNU_SOURCE
#include <link.h>
#include <sys/mman.h>

#include "kit.h"

#include "read/symbols.h"
#include "hooks/loader/loader.h"

enum { RAW = 1, MEMORY = 2 };

/* Where the build put a small shared object with symbols and lines. */
#ifndef FUZZ_ELF
#error "FUZZ_ELF names an object"
#endif

static void in_file(const char *path)
{
    struct name_query q[6] = {{.offset = 0},      {.offset = 0x1000},     {.offset = 0x1139},
                              {.offset = 0x1150}, {.offset = UINT64_MAX}, {.offset = 1ull << 63}};
    elf_names(path, NULL, INT64_MAX, elf_monotonic_ns() + 200000000, q, 6);
    elf_names(path, "abcdef", 0, elf_monotonic_ns() + 200000000, q, 0);
    for (int i = 0; i < 6; i++) {
        free(q[i].function);
        free(q[i].file);
    }
}

/* The object in memory that ends where nothing may be read. */
static void in_memory(const char *path)
{
    struct bytes b = kit_read(path);
    size_t pages = (b.n + 4095) / 4096 * 4096, count, length;
    uint8_t *m = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        abort();
    memcpy(m, b.at, b.n);
    mprotect(m + pages, 4096, PROT_NONE);
    const ElfW(Phdr) *phdr = vs_image_phdrs((uintptr_t)m, pages, &count);
    const uint8_t *id =
        phdr ? vs_image_build_id(phdr, count, (uintptr_t)m, (uintptr_t)m, (uintptr_t)m + pages, &length)
             : NULL;
    for (size_t i = 0; id && i < length; i++)
        *(volatile const uint8_t *)(id + i);
    munmap(m, pages + 4096);
    free(b.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes good;
    static char path[128];
    if (!good.at) {
        good = kit_read(FUZZ_ELF);
        snprintf(path, sizeof path, "%s", kit_path("x.so"));
    }
    if (size < 1)
        return 0;
    kit_spoil(path, good, data + 1, size - 1, data[0] & RAW);
    if (data[0] & MEMORY)
        in_memory(path);
    else
        in_file(path);
    unlink(path);
    return 0;
}
