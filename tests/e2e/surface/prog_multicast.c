// link: cuda
/* A multicast object over two devices: what is bound into it stays alive, the object itself is nothing. */
#include "prog.h"

static CUmemGenericAllocationHandle memory_of(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    return handle;
}

int main(void)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 4 * MIB};
    CUmemGenericAllocationHandle object, memory[2];
    CUdeviceptr address, mapped;
    begin();
    memory[0] = memory_of(0);
    memory[1] = memory_of(1);
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMulticastBindMem(object, 0, memory[0], 0, 2 * MIB, 0));
    OK(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(mapped, 2 * MIB, 0, memory[1], 0));
    OK(cuMulticastBindAddr(object, 2 * MIB, mapped, 2 * MIB, 0));
    IS(cuMulticastBindMem(object, 3, memory[0], 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory[0]));
    OK(cuMemRelease(memory[1]));
    OK(cuMemUnmap(mapped, 2 * MIB)); /* both live by their bindings now */
    OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    OK(cuMemMap(address, 4 * MIB, 0, object, 0));
    IS(cuMulticastUnbind(object, 1, 0, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMulticastUnbind(object, 0, 0, 2 * MIB)); /* device 0's goes */
    OK(cuMemUnmap(address, 4 * MIB));
    OK(cuMemRelease(object)); /* device 1's goes with the object */
    puts("done");
    return 0;
}
