/*
 * share.c - device memory between processes.  When memory is exported its bytes move into a memfd that is
 * mapped in their place; an importer opens it through /proc, by a ticket that names process, descriptor and
 * file.  So a killed process leaves nothing behind, and a ticket is worthless once the memory is freed.
 */
#define _GNU_SOURCE /* memfd_create */
#include "share.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "simcuda\n"
#define PAGE  4096ull

struct region {
    struct sim_range range;
    int fd;
};
static struct sim_map regions;

/* Pages that were never touched stay holes. */
bool sim_copy_pages(int fd, uint64_t start, uint64_t size)
{
    static const char zero[PAGE];
    for (uint64_t at = 0; at < size; at += PAGE)
        if (memcmp((void *)(start + at), zero, PAGE) != 0 &&
            pwrite(fd, (void *)(start + at), PAGE, (off_t)at) != (ssize_t)PAGE)
            return false;
    return true;
}

static struct region *share_pages(uint64_t start, uint64_t size)
{
    struct region *region = (struct region *)sim_map_at(&regions, start);
    if (region)
        return region;
    region = calloc(1, sizeof *region);
    int fd = region ? sim_shareable_file(size) : -1;
    if (fd < 0 || !sim_copy_pages(fd, start, size) ||
        mmap((void *)start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        free(region);
        return NULL;
    }
    region->range.start = start;
    region->range.size = size;
    region->fd = fd;
    sim_map_insert(&regions, &region->range);
    return region;
}

CUresult sim_share(struct sim_ticket *ticket, enum sim_ticket_kind kind, uint64_t address, uint64_t size,
                   uint64_t start, uint64_t pages)
{
    struct stat file;
    struct region *region = share_pages(start, pages);
    if (!region)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (fstat(region->fd, &file) != 0) /* the program closed every descriptor */
        return CUDA_ERROR_OPERATING_SYSTEM;
    *ticket = (struct sim_ticket){.pid = getpid(),
                                  .fd = region->fd,
                                  .file_device = file.st_dev,
                                  .file = file.st_ino,
                                  .offset = address - start,
                                  .size = size,
                                  .pages = pages,
                                  .kind = (uint16_t)kind};
    memcpy(ticket->magic, MAGIC, sizeof ticket->magic);
    return CUDA_SUCCESS;
}

void sim_unshare(uint64_t start)
{
    struct region *region = (struct region *)sim_map_at(&regions, start);
    if (!region)
        return;
    close(region->fd);
    sim_room_private(region->range.start, region->range.size);
    sim_map_remove(&regions, &region->range);
    free(region);
}

bool sim_is_ticket(const struct sim_ticket *ticket, enum sim_ticket_kind kind)
{
    return memcmp(ticket->magic, MAGIC, sizeof ticket->magic) == 0 && ticket->kind == kind &&
           sim_valid_device(ticket->device);
}

/* ---- importing ---- */

/* The file that TICKET names, or -1 where its process has gone or freed the memory. */
static int open_ticket(const struct sim_ticket *ticket)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->pid, (int)ticket->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &file) != 0 || file.st_dev != ticket->file_device ||
                    file.st_ino != ticket->file || (uint64_t)file.st_size < ticket->pages)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static uint64_t map_file(int fd, uint64_t offset, uint64_t size)
{
    uint64_t address = sim_map_pages(sim_round(size, PAGE), SIM_GRANULARITY, PROT_NONE, MAP_PRIVATE);
    if (address && mmap((void *)address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                        (off_t)offset) == MAP_FAILED) {
        munmap((void *)address, sim_round(size, PAGE));
        return 0;
    }
    return address;
}

static CUresult new_import(enum sim_import_way way, uint64_t pages, uint64_t mapped, uint64_t offset,
                           uint64_t size, int device, struct sim_block **out)
{
    struct sim_import *import = calloc(1, sizeof *import);
    struct sim_block *block = import ? sim_block_add(pages + offset, size, SIM_IMPORTED, device) : NULL;
    if (!block) {
        free(import);
        munmap((void *)pages, sim_round(mapped, PAGE));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *import = (struct sim_import){.way = way, .references = 1, .pages = pages, .size = mapped};
    block->detail = import;
    block->owner = sim_context_owner();
    *out = block;
    return CUDA_SUCCESS;
}

CUresult sim_import_ticket(const struct sim_ticket *ticket, enum sim_import_way way, struct sim_block **out)
{
    int fd = open_ticket(ticket);
    if (fd < 0 || ticket->offset > ticket->pages || ticket->size > ticket->pages - ticket->offset) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    uint64_t pages = map_file(fd, 0, ticket->pages);
    close(fd);
    if (!pages)
        return CUDA_ERROR_MAP_FAILED;
    CUresult result =
        new_import(way, pages, ticket->pages, ticket->offset, ticket->size, ticket->device, out);
    if (result == CUDA_SUCCESS)
        ((struct sim_import *)(*out)->detail)->ticket = *ticket;
    return result;
}

CUresult sim_import_file(int fd, uint64_t offset, uint64_t size, struct sim_block **out)
{
    uint64_t pages = offset % PAGE ? 0 : map_file(fd, offset, size);
    return pages ? new_import(SIM_BY_FILE, pages, size, 0, size, sim_context_owner()->device, out)
                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_import_free(struct sim_block *block)
{
    struct sim_import *import = block->detail;
    munmap((void *)import->pages, sim_round(import->size, PAGE));
    free(import);
    sim_block_drop(block);
    return CUDA_SUCCESS;
}

bool sim_import_freeable(const struct sim_block *block)
{
    return ((const struct sim_import *)block->detail)->way != SIM_BY_IPC;
}
