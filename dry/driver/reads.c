/*
 * reads.c - single numbers that a library reads from the device by itself, mostly to count something.
 *
 * Nobody computed them, so the Python package (_dry_reads) says what they are, or that nobody knows.  The
 * runtime tells of a read after the driver's call, so no lock is held while Python looks at it.
 */
#include "sim.h"

enum { NUMBER = 8 };

static void (*_Atomic told)(void *to, size_t size);

SIM_API void simcuda_on_read(void (*reader)(void *to, size_t size))
{
    told = reader;
}

SIM_API void simcuda_was_read(void *to, size_t size)
{
    void (*reader)(void *, size_t) = told;
    if (reader && size <= NUMBER)
        reader(to, size);
}
