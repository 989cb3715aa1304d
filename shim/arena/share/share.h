/*
 * share.h - memory shared with other processes: what cuda/ tells this folder, and asks it.
 */
#ifndef VS_ARENA_SHARE_SHARE_H
#define VS_ARENA_SHARE_SHARE_H

#include "arena/device/served.h"

extern const struct vs_stand_in vs_stand_ins_exports[]; /* exports.c */
extern const struct vs_stand_in vs_stand_ins_imports[]; /* imports.c */

/* Blocks that others may open now: while there are none, nobody looks whether a block is one; atomic. */
extern uint32_t vs_served_exports;
/* The block at ADDRESS, which has pins, is about to be freed. */
void vs_exports_block_ends(struct vs_served *s, struct vs_arena *arena, CUdeviceptr address);
/* S's arena is seen by nobody any more, and about to end. */
void vs_exports_arena_ends(struct vs_served *s);
/* CONTEXT is gone, or (NULL) the primary one of DEVICE. */
void vs_imports_context_ended(CUcontext context, CUdevice device);
/* Whether ADDRESS lies in memory of another process's arena that is open here; then *BLOCK is that. */
bool vs_imports_opened(CUdeviceptr address, struct vs_arena_block *block);

#endif
