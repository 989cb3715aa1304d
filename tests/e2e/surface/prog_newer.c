// link: cuda
/* The memory that functions of CUDA 13.1 to 13.5 move, reached by the road that the argument names: linked,
 * dlsym, or proc (cuGetProcAddress). */
#include "prog.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include "../../../dry/driver/newer.h"

#define CALLS(X)                                                                                             \
    X(cuGraphAddNode, 13040, cuGraphAddNode_v3)                                                              \
    X(cuMulticastBindMem, 13010, cuMulticastBindMem_v2)                                                      \
    X(cuMulticastBindAddr, 13010, cuMulticastBindAddr_v2)                                                    \
    X(cuLogicalEndpointIdReserve, 13030, cuLogicalEndpointIdReserve)                                         \
    X(cuLogicalEndpointIdRelease, 13030, cuLogicalEndpointIdRelease)                                         \
    X(cuLogicalEndpointCreate, 13030, cuLogicalEndpointCreate)                                               \
    X(cuLogicalEndpointAddDevice, 13030, cuLogicalEndpointAddDevice)                                         \
    X(cuLogicalEndpointQuery, 13030, cuLogicalEndpointQuery)                                                 \
    X(cuLogicalEndpointBindMem, 13030, cuLogicalEndpointBindMem)                                             \
    X(cuLogicalEndpointBindAddr, 13030, cuLogicalEndpointBindAddr)                                           \
    X(cuLogicalEndpointUnbind, 13030, cuLogicalEndpointUnbind)                                               \
    X(cuLogicalEndpointExport, 13030, cuLogicalEndpointExport)                                               \
    X(cuLogicalEndpointImport, 13030, cuLogicalEndpointImport)                                               \
    X(cuLogicalEndpointDestroy, 13030, cuLogicalEndpointDestroy)

#undef cuGraphAddNode
static struct {
#define X(base, version, symbol) PFN_##base##_v##version symbol;
    CALLS(X)
#undef X
} at;

static void *asked(const char *base, int version)
{
    void *found = NULL;
    OK(cuGetProcAddress(base, &found, version, 0, NULL));
    CHECK(found != NULL);
    return found;
}

static void take(const char *road)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver != NULL);
#define X(base, version, symbol)                                                                             \
    at.symbol = strcmp(road, "linked") == 0  ? symbol                                                        \
                : strcmp(road, "dlsym") == 0 ? (PFN_##base##_v##version)dlsym(driver, #symbol)               \
                                             : (PFN_##base##_v##version)asked(#base, version);
    CALLS(X)
#undef X
}

static CUmemGenericAllocationHandle memory_of(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    return handle;
}

/* The caller's handle goes; the memory is the mapping's. */
static CUdeviceptr mapped(int device)
{
    CUmemGenericAllocationHandle handle = memory_of(device);
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    return address;
}

static void graph(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = 3 * MIB;
    OK(cuGraphCreate(&graph, 0));
    OK(at.cuGraphAddNode_v3(&node, graph, NULL, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemFree(params.alloc.dptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void multicast(void)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 4 * MIB};
    CUmemGenericAllocationHandle object, memory = memory_of(0);
    CUdeviceptr address = mapped(1);
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMulticastAddDevice(object, 1));
    OK(at.cuMulticastBindMem_v2(object, 0, 0, memory, 0, 2 * MIB, 0));
    IS(at.cuMulticastBindAddr_v2(object, 0, 0, address, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(at.cuMulticastBindAddr_v2(object, 1, 0, address, 2 * MIB, 0));
    OK(cuMemRelease(memory));
    OK(cuMemUnmap(address, 2 * MIB));             /* both live by their bindings */
    OK(cuMulticastUnbind(object, 0, 0, 2 * MIB)); /* device 0's goes */
    OK(cuMemRelease(object));                     /* and device 1's */
}

static void endpoint(void)
{
    const CUlogicalEndpointIpcHandleType fabric = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC;
    CUlogicalEndpointProp prop = {
        .type = CU_LOGICAL_ENDPOINT_TYPE_MULTICAST, .size = 8 * MIB, .ipcHandleTypes = (unsigned)fabric};
    CUlogicalEndpointFabricHandle handle;
    CUlogicalEndpointId id;
    int ready;
    prop.multicast.numDevices = 2;
    OK(at.cuLogicalEndpointIdReserve(&id, 2));
    OK(at.cuLogicalEndpointCreate(id, &prop));
    IS(at.cuLogicalEndpointCreate(id, &prop), CUDA_ERROR_INVALID_VALUE);
    OK(at.cuLogicalEndpointAddDevice(id, 0));
    OK(at.cuLogicalEndpointAddDevice(id, 1));
    OK(at.cuLogicalEndpointQuery(id, 1, &ready));
    CUmemGenericAllocationHandle first = memory_of(0), second = memory_of(0);
    CUdeviceptr address = mapped(1);
    OK(at.cuLogicalEndpointBindMem(id, 0, 0, first, 0, 2 * MIB, 0));
    OK(at.cuLogicalEndpointBindMem(id, 0, 2 * MIB, second, 0, 2 * MIB, 0));
    OK(at.cuLogicalEndpointBindAddr(id, 1, 0, (void *)address, 2 * MIB, 0));
    OK(cuMemRelease(first));
    OK(cuMemRelease(second));
    OK(cuMemUnmap(address, 2 * MIB)); /* all three live by their bindings */
    IS(at.cuLogicalEndpointUnbind(id, 0, 0, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(at.cuLogicalEndpointUnbind(id, 0, 0, 4 * MIB)); /* both of device 0's go at once */
    OK(at.cuLogicalEndpointExport(&handle, id, fabric));
    OK(at.cuLogicalEndpointImport(id + 1, &handle, fabric));
    OK(at.cuLogicalEndpointDestroy(id)); /* and with it device 1's */
    OK(at.cuLogicalEndpointDestroy(id + 1));
    OK(at.cuLogicalEndpointIdRelease(id, 2));
}

/* Memory of a part of device 1 is device 1's. */
static void part_of_a_device(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, .id = 1}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemRelease(handle));
}

int main(int argc, char **argv)
{
    begin();
    take(argc > 1 ? argv[1] : "linked");
    graph();
    multicast();
    endpoint();
    part_of_a_device();
    puts("done");
    return 0;
}
