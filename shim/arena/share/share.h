/* share.h - memory shared with other processes: what cuda/ tells this folder, and asks it. */
#ifndef VS_ARENA_SHARE_SHARE_H
#define VS_ARENA_SHARE_SHARE_H

#include "arena/device/served.h"
#include "hooks/driver.h"
#include "passing.h"

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

/* ---- what stands in a CUipcMemHandle that names memory of an arena ---- */

#define VS_IPC_MAGIC "vsarena3"

/* The handle is the key, as the driver's own are: who has it may open the block, and nobody else may. */
struct vs_ipc_ticket {
    char magic[8];       /* without an end */
    int32_t pid, device; /* of the exporter, as it sees them: nothing is opened by them */
    struct vs_passing_address where;
    uint64_t id, size; /* of the block */
};
_Static_assert(sizeof(struct vs_ipc_ticket) == CU_IPC_HANDLE_SIZE, "a ticket is a handle");

/* Whether this process made it. */
bool vs_ipc_is_own(const struct vs_ipc_ticket *ticket);

#endif
