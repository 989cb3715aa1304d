/*
 * dry.h - dry mode (SIMCUDA_DRY=1): any kernel can be launched and computes nothing, and bytes that no small
 * read asks for are not kept, so that programs of any size run in little memory.
 */
#ifndef DRY_DRIVER_DRY_H
#define DRY_DRIVER_DRY_H

#include "sim.h"

bool sim_dry(void);
/* Whether a copy or fill of SIZE bytes keeps them: always outside dry mode. */
bool sim_keeps(uint64_t size);
/* [ADDRESS, +SIZE) reads as zeros from now on, without taking memory where that can be had. */
void sim_forget(uint64_t address, uint64_t size);

/* reads.c: noted under the lock, told without it. */
void sim_note_read(uint64_t to, uint64_t from, size_t size);
void sim_tell_read(void);

/* room.c: addresses of device memory, SIZE of them at a multiple of ALIGNMENT; 0: there are none.  HINT may
 * be 0. */
uint64_t sim_room_take(uint64_t size, uint64_t alignment, uint64_t hint, int protection);
void sim_room_give(uint64_t address, uint64_t size);
void sim_room_protect(uint64_t address, uint64_t size); /* takes the access back; its bytes are gone */
void sim_room_private(uint64_t address, uint64_t size); /* a file was mapped there: no more, in dry mode */

#endif
