/*
 * share.h - memory shared with other processes: what the rest of the arena asks of this folder.
 */
#ifndef VS_ARENA_SHARE_SHARE_H
#define VS_ARENA_SHARE_SHARE_H

#include "arena/cuda/served.h"

extern const struct vs_stand_in vs_stand_ins_exports[]; /* exports.c */
extern const struct vs_stand_in vs_stand_ins_imports[]; /* imports.c */

/* exports.c: what struct vs_sharing has of blocks and arenas that end */
void vs_exports_block_ends(struct vs_served *s, struct vs_arena *arena, CUdeviceptr address);
void vs_exports_arena_ends(struct vs_served *s);
/* imports.c: what it has of contexts that ended, and of memory that was opened, wherever the shim is */
void vs_imports_context_ended(CUcontext context, CUdevice device);
bool vs_imports_opened(CUdeviceptr address, struct vs_arena_block *block);

#endif
