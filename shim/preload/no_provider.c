/*
 * no_provider.c - of a build without the arena (-DVRAMSCOPE_ARENA=OFF): nobody stands in the driver's place.
 */
#include "provider/provider.h"

#ifndef VRAMSCOPE_ARENA
const struct vs_provider *vs_arena_provider(bool serves)
{
    return NULL;
}
#endif
