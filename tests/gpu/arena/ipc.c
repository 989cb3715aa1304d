/*
 * ipc.c - one process's memory in another, by cuIpcGetMemHandle, whoever serves it.
 *
 * The exporter fills blocks, one of which lies apart (under the arena: an alias mapping), and starts itself
 * again as the opener, which checks every word and writes its own.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/socket.h>
#include <sys/wait.h>

#define BLOCKS 7

static const uint64_t sizes[BLOCKS] = {4096, 100000, 3 * MIB, 2 * MIB, 40 * MIB, 48 * MIB, 1024 * MIB};

struct told {
    CUipcMemHandle handle[BLOCKS];
    uint64_t offset[BLOCKS]; /* within the allocation */
};

static void fill(CUdeviceptr p, uint64_t bytes, unsigned word)
{
    OK(cuMemsetD32, p, word, bytes / 4);
}

/* How many of the words are others. */
static uint64_t wrong(CUdeviceptr p, uint64_t bytes, unsigned word)
{
    unsigned *got = malloc(bytes);
    uint64_t bad = 0;
    OK(cuMemcpyDtoH, got, p, bytes);
    for (uint64_t i = 0; i < bytes / 4; i++)
        bad += got[i] != word;
    free(got);
    return bad;
}

static int opener(int peer)
{
    struct told told;
    CUdeviceptr p[BLOCKS], again, base;
    uint64_t bad = 0;
    double us = 0;
    char c = 0;
    begin();
    if (recv(peer, &told, sizeof told, MSG_WAITALL) != sizeof told)
        return 1;
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = 0;
        double t = now_us();
        OK(cuIpcOpenMemHandle, &p[i], told.handle[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        us = now_us() - t;
        OK(cuMemGetAddressRange, &base, &bytes, p[i]);
        bad += wrong(p[i], sizes[i], 100 + (unsigned)i);
        fill(p[i], sizes[i], 200 + (unsigned)i);
        printf("~ opened %llu bytes in %.0f us, range %zu\n", (unsigned long long)sizes[i], us, bytes);
    }
    OK(cuCtxSynchronize);
    verdict(bad == 0, "the opener sees the exporter's words");
    OK(cuIpcOpenMemHandle, &again, told.handle[4], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    printf("~ the same handle again is the same address: %d\n", again == p[4]);
    OK(cuIpcCloseMemHandle, again);
    verdict(wrong(p[4], sizes[4], 204) == 0, "what was opened twice stays after one close");
    for (int i = 0; i < BLOCKS; i++)
        OK(cuIpcCloseMemHandle, p[i]);
    printf("~ close again: %d\n", CU(cuIpcCloseMemHandle, p[0]));
    if (write(peer, &c, 1) != 1 || read(peer, &c, 1) != 1)
        return 1;
    CUresult late = CU(cuIpcOpenMemHandle, &again, told.handle[4], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    printf("~ opening what was freed: %d\n", late);
    return bad != 0;
}

/* A block that lies on what is free between others. */
static CUdeviceptr apart(uint64_t bytes)
{
    CUdeviceptr piece[48], p;
    for (int i = 0; i < 48; i++)
        OK(cuMemAlloc, &piece[i], 2 * MIB);
    for (int i = 0; i < 48; i += 2)
        OK(cuMemFree, piece[i]);
    OK(cuMemAlloc, &p, bytes);
    return p; /* the others stay, as neighbours whose words must not change */
}

static void exporter(int peer)
{
    struct told told;
    CUdeviceptr p[BLOCKS], own;
    uint64_t bad = 0;
    char c;
    begin();
    for (int i = 0; i < BLOCKS; i++) {
        if (i == 5)
            p[i] = apart(sizes[i]);
        else
            OK(cuMemAlloc, &p[i], sizes[i]);
        fill(p[i], sizes[i], 100 + (unsigned)i);
        OK(cuIpcGetMemHandle, &told.handle[i], p[i]);
    }
    printf("~ opening in the same process: %d\n",
           CU(cuIpcOpenMemHandle, &own, told.handle[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuCtxSynchronize);
    if (write(peer, &told, sizeof told) != sizeof told || read(peer, &c, 1) != 1)
        die("the opener's word", 0, __LINE__);
    for (int i = 0; i < BLOCKS; i++)
        bad += wrong(p[i], sizes[i], 200 + (unsigned)i);
    verdict(bad == 0, "the exporter sees the opener's words");
    OK(cuMemFree, p[4]);
    if (write(peer, &c, 1) != 1)
        die("the opener", 0, __LINE__);
    for (int i = 0; i < BLOCKS; i++)
        if (i != 4)
            OK(cuMemFree, p[i]);
}

int main(int argc, char **argv)
{
    int ends[2], status;
    char number[16];
    if (argc > 1)
        return opener(atoi(argv[1]));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(number, sizeof number, "%d", ends[1]);
        close(ends[0]);
        execl("/proc/self/exe", argv[0], number, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    exporter(ends[0]);
    waitpid(pid, &status, 0);
    verdict(status == 0, "the opener ends well");
    return status != 0;
}
