/*
 * serve_ipc.h - what stands in a CUipcMemHandle that names memory of an arena.
 */
#ifndef VS_ARENA_SERVE_IPC_H
#define VS_ARENA_SERVE_IPC_H

#include "handover.h"
#include "hooks/cuda.h"
#include "hooks/hook.h"

#define VS_IPC_MAGIC "vsarena"

struct vs_ipc_ticket {
    char magic[8];
    int32_t pid, device; /* of the exporter, as it sees them: for words only */
    uint64_t name;       /* where it answers (handover.h) */
    uint64_t id;         /* of the block */
    uint64_t size;       /* of the block */
    uint64_t unused[3];
};
_Static_assert(sizeof(struct vs_ipc_ticket) == CU_IPC_HANDLE_SIZE, "a ticket is a handle");

/* Whether this process made it. */
bool vs_ipc_is_own(const struct vs_ipc_ticket *ticket);

#endif
