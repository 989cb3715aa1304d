// link: cuda
/*
 * prog_maps.c - a program that maps its memory itself, as XLA's allocator does: 32 pieces of 2 MiB side by
 * side, and two cuMemAlloc beside them.
 */
#include "prog.h"

#define PIECE  (2 * MIB)
#define PIECES 32

int main(void)
{
    CUmemGenericAllocationHandle piece;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address, small[2];
    CUcontext context;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAddressReserve(&address, PIECES * PIECE, 0, 0, 0));
    for (int i = 0; i < PIECES; i++) {
        OK(cuMemCreate(&piece, PIECE, &prop, 0));
        OK(cuMemMap(address + i * PIECE, PIECE, 0, piece, 0));
        OK(cuMemRelease(piece));
    }
    OK(cuMemSetAccess(address, PIECES * PIECE, &access, 1));
    for (int i = 0; i < 2; i++)
        OK(cuMemAlloc(&small[i], 1000));
    for (int i = 0; i < 2; i++)
        OK(cuMemFree(small[i]));
    OK(cuMemUnmap(address, PIECES * PIECE));
    OK(cuMemAddressFree(address, PIECES * PIECE));
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
