/*
 * dry.c - dry mode, and which bytes it keeps.  In it memory is counted as ever, any kernel can be launched
 * and computes nothing, and only small copies and fills are really made.
 *
 *      SIMCUDA_DRY=1             dry mode
 *      SIMCUDA_KEEP=1MiB         copies and fills of at most so many bytes are done; larger ones keep nothing
 */
#define _GNU_SOURCE /* MADV_FREE */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ull

bool sim_dry(void)
{
    static int known; /* 1: no, 2: yes; the same for every thread that looks */
    int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!now) {
        const char *choice = getenv("SIMCUDA_DRY");
        now = choice && strcmp(choice, "1") == 0 ? 2 : 1;
        __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    }
    return now == 2;
}

int simcuda_dry(void)
{
    return sim_dry();
}

bool sim_keeps(uint64_t size)
{
    static uint64_t keep; /* under the driver's lock */
    if (!keep)
        keep = sim_env_bytes("SIMCUDA_KEEP", 1ull << 20);
    return !sim_dry() || size <= keep;
}

/* Whether the whole pages [START, END) are private and of no file, and went back to the kernel.  MADV_FREE is
 * refused for all others, which MADV_DONTNEED would fill with the file's bytes. */
static bool gave_back(uint64_t start, uint64_t end)
{
    return end > start && madvise((void *)start, end - start, MADV_FREE) == 0 &&
           madvise((void *)start, end - start, MADV_DONTNEED) == 0;
}

void sim_forget(uint64_t address, uint64_t size)
{
    uint64_t start = sim_round(address, PAGE), end = (address + size) / PAGE * PAGE;
    if (!gave_back(start, end)) {
        memset((void *)address, 0, size);
        return;
    }
    memset((void *)address, 0, start - address);
    memset((void *)end, 0, address + size - end);
}

/* ---- single numbers that a library reads from the device by itself, mostly to count something: nobody
 * computed them, so the Python package (_dry_reads) says what they are, or that nobody knows.  It is told at
 * the end of the call (fault.c), when no lock is held and what was written to is still there ---- */

enum { NUMBER = 8 };

static void (*_Atomic told)(void *to, size_t size);
static _Thread_local struct {
    void *to;
    size_t size;
} read_now;

SIM_API void simcuda_on_read(void (*reader)(void *to, size_t size))
{
    told = reader;
}

static bool is_of_host(uint64_t address)
{
    const struct sim_block *block = sim_block_find(address);
    return !block || block->kind == SIM_PINNED || block->kind == SIM_REGISTERED;
}

void sim_note_read(uint64_t to, uint64_t from, size_t size)
{
    if (told && size <= NUMBER && is_of_host(to) && !is_of_host(from)) {
        read_now.to = (void *)to;
        read_now.size = size;
    }
}

void sim_tell_read(void)
{
    void *to = read_now.to;
    void (*reader)(void *, size_t) = to ? told : NULL;
    read_now.to = NULL;
    if (reader)
        reader(to, read_now.size);
}
