/*
 * no_provider.c - used in builds without the arena (-DVRAMSCOPE_ARENA=OFF): there is no provider.
 */
#include "provider/provider.h"

#ifndef VRAMSCOPE_ARENA
const struct vs_provider *vs_arena_provider(bool serves)
{
    return NULL;
}
#endif
