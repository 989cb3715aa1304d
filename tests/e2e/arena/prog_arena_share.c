// link: cuda
/*
 * prog_arena_share - memory of one process in others, step by step, each process under what the test gives
 * it.
 *
 * `export FILE [resumed]` fills blocks and writes their handles into FILE; `resumed`: it is suspended and
 * resumed before.  Then it obeys the words on its standard input:
 *
 *      free      frees the third block
 *      again     allocates it anew, and writes its handle
 *      close     closes every file but the standard ones
 *      check     says how many words the openers have left wrong
 *      end
 *
 * `open FILE WHAT` opens them:
 *
 *      words     reads and writes all of it
 *      status    says what opening the third gives
 *      forged    says what that gives with one byte changed, for each byte but those of the size
 *      contexts  opens in several contexts, and in one that is reset
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"
#include "vramscope.h"

#define BLOCKS 5
#define GAPS   24

static const size_t sizes[BLOCKS] = {4096, 200000, 5 * MIB, 48 * MIB, 130 * MIB};

struct told {
    CUipcMemHandle handle[BLOCKS];
    CUipcMemHandle inside; /* asked for with an address within the last block */
};

static unsigned word_at(CUdeviceptr p)
{
    unsigned word = 0;
    OK(cuMemcpyDtoH(&word, p, 4));
    return word;
}

/* One word in 4 KiB, and the last. */
static unsigned wrong(CUdeviceptr p, size_t bytes, unsigned word)
{
    unsigned bad = word_at(p + bytes - 4) != word;
    for (size_t at = 0; at < bytes; at += 4096)
        bad += word_at(p + at) != word;
    return bad;
}

/* ---- who exports ---- */

static CUdeviceptr block[BLOCKS], neighbour[GAPS];

static void write_file(const char *file, const struct told *told)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.new", file);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, told, sizeof *told) == sizeof *told);
    close(fd);
    CHECK(rename(name, file) == 0);
}

/* The fourth is larger than any room that is left in one piece. */
static void allocate(struct told *told, bool resumed)
{
    CUdeviceptr gap[GAPS];
    char why[256];
    for (unsigned i = 0; i < GAPS; i++) {
        OK(cuMemAlloc(&gap[i], 2 * MIB));
        OK(cuMemAlloc(&neighbour[i], 2 * MIB));
        OK(cuMemsetD32(neighbour[i], 7777, MIB / 2));
    }
    for (unsigned i = 0; i < GAPS; i++)
        OK(cuMemFree(gap[i]));
    for (unsigned i = 0; i < BLOCKS; i++) {
        OK(cuMemAlloc(&block[i], sizes[i]));
        OK(cuMemsetD32(block[i], 100 + i, sizes[i] / 4));
    }
    if (resumed)
        CHECK(vramscope_suspend(why, sizeof why) == 0 && vramscope_resume(why, sizeof why) == 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuIpcGetMemHandle(&told->handle[i], block[i]));
    OK(cuIpcGetMemHandle(&told->inside, block[BLOCKS - 1] + 70 * MIB));
}

static void check(void)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        bad += wrong(block[i], sizes[i], 200 + i);
    for (unsigned i = 0; i < GAPS; i++)
        bad += wrong(neighbour[i], 2 * MIB, 7777);
    printf("wrong words: %u\n", bad);
}

static void export(const char *file, bool resumed)
{
    struct told told;
    char line[64];
    begin();
    allocate(&told, resumed);
    write_file(file, &told);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
        if (strcmp(line, "free\n") == 0) {
            OK(cuMemFree(block[2]));
        } else if (strcmp(line, "again\n") == 0) {
            OK(cuMemAlloc(&block[2], sizes[2]));
            OK(cuMemsetD32(block[2], 102, sizes[2] / 4));
            OK(cuIpcGetMemHandle(&told.handle[2], block[2]));
            write_file(file, &told);
        } else if (strcmp(line, "close\n") == 0) {
            for (int fd = 3; fd < 4096; fd++)
                close(fd);
        } else if (strcmp(line, "check\n") == 0) {
            check();
        }
        puts("so be it");
        fflush(stdout);
    }
}

/* ---- who opens ---- */

static CUresult open_one(const CUipcMemHandle *handle, CUdeviceptr *p)
{
    return cuIpcOpenMemHandle(p, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static void words(const struct told *told)
{
    CUdeviceptr p[BLOCKS], again, base;
    size_t bytes;
    unsigned bad = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        OK(open_one(&told->handle[i], &p[i]));
        OK(cuMemGetAddressRange(&base, &bytes, p[i] + sizes[i] - 1));
        CHECK(base == p[i] && bytes == sizes[i]);
        bad += wrong(p[i], sizes[i], 100 + i);
        OK(cuMemsetD32(p[i], 200 + i, sizes[i] / 4));
    }
    OK(open_one(&told->inside, &again));
    CHECK(again == p[BLOCKS - 1]); /* the allocation, whatever address of it was given */
    OK(cuIpcCloseMemHandle(again));
    IS(cuIpcOpenMemHandle(&again, told->handle[0], 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemFree(p[1]), CUDA_ERROR_INVALID_VALUE); /* not ours to free */
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuIpcCloseMemHandle(p[i]));
    IS(cuIpcCloseMemHandle(p[1]), CUDA_ERROR_INVALID_VALUE);
    printf("wrong words: %u\n", bad);
}

static void contexts(const struct told *told)
{
    CUcontext other, first;
    CUdeviceptr p, q;
    OK(cuCtxGetCurrent(&first));
    OK(open_one(&told->handle[1], &p));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(open_one(&told->handle[1], &q)); /* in each context an opening of its own */
    CHECK(p != q);
    OK(cuIpcCloseMemHandle(q));
    OK(cuCtxSetCurrent(first));
    word_at(p);
    OK(cuIpcCloseMemHandle(p));
    OK(cuCtxSetCurrent(other));
    OK(open_one(&told->handle[1], &q));
    OK(cuCtxDestroy(other)); /* with what it has open */
    OK(cuCtxSetCurrent(first));
    OK(open_one(&told->handle[1], &p));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuCtxSetCurrent(first));
    IS(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
    OK(open_one(&told->handle[1], &p));
    word_at(p);
    OK(cuIpcCloseMemHandle(p));
    puts("contexts are kept apart");
}

/* How many bytes one after the other give the same. */
static void forged(const struct told *told)
{
    CUresult before = CUDA_SUCCESS;
    unsigned same = 0;
    for (unsigned byte = 0; byte < 56; byte++) {
        CUipcMemHandle handle = told->handle[2];
        CUdeviceptr p;
        handle.reserved[byte] ^= 1;
        CUresult status = open_one(&handle, &p);
        if (status == CUDA_SUCCESS)
            OK(cuIpcCloseMemHandle(p));
        if (same && status != before)
            printf("%u:%d ", same, before);
        same = same && status == before ? same + 1 : 1;
        before = status;
    }
    printf("%u:%d\n", same, before);
}

static int opener(const char *file, const char *what)
{
    struct told told;
    CUdeviceptr p;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, &told, sizeof told) == sizeof told);
    close(fd);
    begin();
    if (strcmp(what, "words") == 0)
        words(&told);
    else if (strcmp(what, "contexts") == 0)
        contexts(&told);
    else if (strcmp(what, "forged") == 0)
        forged(&told);
    else
        printf("opening gives %d\n", open_one(&told.handle[2], &p));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "export") == 0)
        export(argv[2], argc == 4);
    else if (argc == 4 && strcmp(argv[1], "open") == 0)
        return opener(argv[2], argv[3]);
    else
        return 2;
    return 0;
}
