/*
 * ticket.h - what stands in a CUipcMemHandle that names memory of an arena.
 */
#ifndef VS_ARENA_SHARE_TICKET_H
#define VS_ARENA_SHARE_TICKET_H

#include "passing.h"
#include "hooks/driver.h"

#define VS_IPC_MAGIC "vsarena2"

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
