/*
 * maps.h - tensor maps (TMA descriptors): the address that a map of these 128 bytes was made for.
 *
 * A program makes a map once, by a call of the driver, and passes copies of it to many launches.  The
 * position of the address in it is not documented, so a copy is recognised by its contents.  Any thread; no
 * lock.
 */
#ifndef VS_ACCESS_MAPS_H
#define VS_ACCESS_MAPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VS_MAP_BYTES 128u
#define VS_MAP_ALIGN 64u

/* Whether any was ever made. */
extern _Atomic bool vs_maps_any;

/* Stores that the 128 bytes at MAP were made for ADDRESS. */
void vs_map_made(const void *map, uint64_t address);
/* The address that these 128 bytes were made for; 0: unknown. */
uint64_t vs_map_address(const void *map);

#endif
