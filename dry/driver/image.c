/*
 * image.c - what device code says of itself: its size, and which GPUs it is for.  A GPU runs cubins of its
 * major compute capability up to its minor one, and PTX of any older capability.
 */
#include "kernel.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* How they begin, byte by byte: PTX may be shorter than what a binary image begins with. */
#define FATBIN_WRAPPER "\xb1\x43\x62\x46"
#define FATBIN         "\x50\xed\x55\xba"

struct fatbin {
    uint32_t magic;
    uint16_t version, header;
    uint64_t body; /* of the wrapper: where the fat binary is */
};
struct entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t payload;
    uint32_t others[3];
    uint32_t capability;
};
enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2 };

static bool begins(const void *image, const char *magic)
{
    return strncmp(image, magic, 4) == 0;
}

static uint64_t elf_bytes(const void *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    uint64_t sections = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    uint64_t segments = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
    return sections > segments ? sections : segments;
}

/* The fat binary itself, of one in a wrapper; NULL: it is none. */
static const void *fatbin_of(const void *image)
{
    struct fatbin head;
    if (begins(image, FATBIN_WRAPPER)) {
        memcpy(&head, image, sizeof head);
        image = (const void *)head.body;
    }
    return begins(image, FATBIN) ? image : NULL;
}

bool sim_image_is_text(const void *image)
{
    const unsigned char *text = image;
    return !begins(image, ELFMAG) && !begins(image, FATBIN_WRAPPER) && !begins(image, FATBIN) &&
           (*text == '\t' || *text == '\n' || (*text >= ' ' && *text < 127));
}

uint64_t sim_image_bytes(const void *image)
{
    struct fatbin head;
    const void *fat = fatbin_of(image);
    if (begins(image, ELFMAG))
        return elf_bytes(image);
    if (!fat)
        return sim_image_is_text(image) ? strlen(image) : 0;
    memcpy(&head, fat, sizeof head);
    return head.header + head.body;
}

/* ---- for which GPU ---- */

static bool runs(int cubin, int capability)
{
    return cubin / 10 == capability / 10 && cubin <= capability;
}

/* Since version 8 of a cubin's ABI the capability stands in the second byte of the flags. */
static int elf_capability(const void *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    return (int)(header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff;
}

static int text_capability(const char *text)
{
    const char *target = strstr(text, ".target");
    const char *number = target ? strstr(target, "sm_") : NULL;
    return number ? atoi(number + 3) : 0;
}

/* The newest cubin that fits goes before any PTX. */
static void consider(const struct entry *entry, int capability, int *cubin, int *ptx)
{
    int has = (int)entry->capability;
    if (entry->kind == ENTRY_CUBIN && runs(has, capability) && has > *cubin)
        *cubin = has;
    if (entry->kind == ENTRY_PTX && has <= capability && has > *ptx)
        *ptx = has;
}

static bool fatbin_code(const char *fat, int capability, struct sim_code *code)
{
    struct fatbin head;
    struct entry entry;
    int cubin = 0, ptx = 0;
    memcpy(&head, fat, sizeof head);
    const char *at = fat + head.header, *end = at + head.body;
    for (; at + sizeof entry <= end; at += entry.header + entry.payload) {
        memcpy(&entry, at, sizeof entry);
        if (entry.header < sizeof entry || entry.payload > (uint64_t)(end - at))
            break;
        consider(&entry, capability, &cubin, &ptx);
    }
    *code = cubin ? (struct sim_code){cubin, cubin} : (struct sim_code){ptx, capability};
    return cubin || ptx;
}

bool sim_image_code(const void *image, int capability, struct sim_code *code)
{
    const void *fat = fatbin_of(image);
    if (fat)
        return fatbin_code(fat, capability, code);
    bool elf = begins(image, ELFMAG);
    int has = elf ? elf_capability(image) : text_capability(image);
    *code = (struct sim_code){has, elf ? has : capability};
    return elf ? runs(has, capability) : has <= capability;
}
