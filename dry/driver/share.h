/*
 * share.h - memory that another process can map, and memory mapped from one (share.c).
 */
#ifndef DRY_DRIVER_SHARE_H
#define DRY_DRIVER_SHARE_H

#include "sim.h"

enum sim_ticket_kind { SIM_TICKET_MEMORY = 1, SIM_TICKET_POOL, SIM_TICKET_POOL_MEMORY };

/* What stands in a CUipcMemHandle, a CUmemPoolPtrExportData and the file that a pool is exported as. */
struct sim_ticket {
    char magic[8];
    int32_t pid, fd;            /* the exporting process, and its descriptor of the pages */
    uint64_t file_device, file; /* which file that is: numbers of descriptors are used again */
    uint64_t offset, size;      /* the allocation within those pages */
    uint64_t pages;             /* bytes of them */
    uint16_t kind, device;
    uint32_t pool;
};
_Static_assert(sizeof(struct sim_ticket) == CU_IPC_HANDLE_SIZE, "a ticket is a handle");

/* Makes a ticket for [ADDRESS, +SIZE) within the pages [START, +PAGES), which become a shared file's. */
CUresult sim_share(struct sim_ticket *ticket, enum sim_ticket_kind kind, uint64_t address, uint64_t size,
                   uint64_t start, uint64_t pages);
void sim_unshare(uint64_t start); /* pages that are about to be unmapped: no more tickets to them */
bool sim_is_ticket(const struct sim_ticket *ticket, enum sim_ticket_kind kind);

enum sim_import_way { SIM_BY_IPC, SIM_BY_FILE, SIM_BY_POOL };
struct sim_import { /* detail of a SIM_IMPORTED block */
    enum sim_import_way way;
    unsigned references;
    uint64_t pages, size; /* what is mapped; the block lies within */
    struct sim_ticket ticket;
};
/* Maps what TICKET names as a block of the current context. */
CUresult sim_import_ticket(const struct sim_ticket *ticket, enum sim_import_way way, struct sim_block **out);
/* Maps [OFFSET, +SIZE) of a file. */
CUresult sim_import_file(int fd, uint64_t offset, uint64_t size, struct sim_block **out);
CUresult sim_import_free(struct sim_block *block);
bool sim_import_freeable(const struct sim_block *block); /* by cuMemFree */

#endif
