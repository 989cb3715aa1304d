/*
 * reads.c - single numbers that a library reads from the device by itself, mostly to count something.
 *
 * Nobody computed them: the Python package (_dry_reads) says what they are, or that nobody knows.  It is told
 * at the end of the call (fault.c), when no lock is held and what was written to is still there.
 */
#include "dry.h"

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
