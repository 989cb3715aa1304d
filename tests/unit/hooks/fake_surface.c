/*
 * fake_surface.c - the fake driver's graphs, arrays, imports, multicast objects, contexts and modules:
 * numbers again, and a graph of up to eight nodes that a test fills in.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <errno.h>
#include <stdint.h>

#include "../../../dry/driver/newer.h"
#include "fake_driver.h"

struct fake_graph fake_graph;
struct fake_primary fake_primary;

#define RETURN(name) return fake_result(#name)

/* ---- graphs: the node handle is the node's index + 1 ---- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    params->dptr = 0xa000;
    RETURN(cuGraphAddMemAllocNode);
}
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n,
                               CUdeviceptr p)
{
    RETURN(cuGraphAddMemFreeNode);
}
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
    RETURN(cuGraphAddNode_v2);
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    for (int i = 0; nodes != NULL && i < fake_graph.nodes; i++)
        nodes[i] = (CUgraphNode)(uintptr_t)(i + 1);
    *n = (size_t)fake_graph.nodes;
    fake_graph.reads++;
    return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    *type = fake_graph.free[(uintptr_t)node - 1] ? CU_GRAPH_NODE_TYPE_MEM_FREE : CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    return CUDA_SUCCESS;
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    *params =
        (CUDA_MEM_ALLOC_NODE_PARAMS){.dptr = fake_graph.address[(uintptr_t)node - 1],
                                     .bytesize = fake_graph.size[(uintptr_t)node - 1],
                                     .poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    return CUDA_SUCCESS;
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *p)
{
    *p = fake_graph.address[(uintptr_t)node - 1];
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    *(uint64_t *)value = attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? fake_graph.reserved : 3;
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    *exec = (CUgraphExec)(uintptr_t)(0xe000 + flags);
    RETURN(cuGraphInstantiateWithFlags);
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    RETURN(cuGraphLaunch);
}
CUresult fake_graph_launch(CUgraphExec exec, CUstream stream) __attribute__((alias("cuGraphLaunch")));
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    RETURN(cuGraphExecDestroy);
}
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    RETURN(cuDeviceGraphMemTrim);
}

/* ---- arrays ---- */

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *array)
{
    return fake_give((CUdeviceptr *)out, "cuArrayCreate_v2");
}
CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *array)
{
    return fake_give((CUdeviceptr *)out, "cuArray3DCreate_v2");
}
CUresult cuArrayDestroy(CUarray array)
{
    RETURN(cuArrayDestroy);
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
    return fake_give((CUdeviceptr *)out, "cuMipmappedArrayCreate");
}
CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned n, CUstream stream)
{
    RETURN(cuMemMapArrayAsync);
}

/* ---- imports, multicast ---- */

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags)
{
    return fake_give(p, "cuIpcOpenMemHandle_v2");
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
    RETURN(cuIpcCloseMemHandle);
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    *base = p;
    *size = 7777;
    return CUDA_SUCCESS;
}
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    *pool = (CUmemoryPool)0xf000;
    RETURN(cuMemPoolImportFromShareableHandle);
}
CUresult cuGraphicsMapResources(unsigned n, CUgraphicsResource *resources, CUstream stream)
{
    RETURN(cuGraphicsMapResources);
}
CUresult cuGraphicsUnmapResources(unsigned n, CUgraphicsResource *resources, CUstream stream)
{
    RETURN(cuGraphicsUnmapResources);
}
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
    return fake_give((CUdeviceptr *)handle, "cuMulticastCreate");
}
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
                            CUmemGenericAllocationHandle handle, size_t from, size_t size,
                            unsigned long long flags)
{
    RETURN(cuMulticastBindMem);
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t size)
{
    RETURN(cuMulticastUnbind);
}
CUresult cuLogicalEndpointImport(CUlogicalEndpointId id, const void *handle,
                                 CUlogicalEndpointIpcHandleType type)
{
    RETURN(cuLogicalEndpointImport);
}
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset,
                                  CUmemGenericAllocationHandle handle, cuuint64_t from, cuuint64_t size,
                                  unsigned long long flags)
{
    RETURN(cuLogicalEndpointBindMem);
}
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset, void *p,
                                   cuuint64_t size, unsigned long long flags)
{
    RETURN(cuLogicalEndpointBindAddr);
}
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset, cuuint64_t size)
{
    RETURN(cuLogicalEndpointUnbind);
}
CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId id)
{
    RETURN(cuLogicalEndpointDestroy);
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    *prop = (CUmemAllocationProp){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    return CUDA_SUCCESS;
}

/* ---- contexts, modules ---- */

CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
    *out = (CUcontext)(uintptr_t)(0x500000 + device);
    RETURN(cuCtxCreate_v2);
}
CUresult cuCtxDestroy_v2(CUcontext context)
{
    RETURN(cuCtxDestroy_v2);
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    *active = fake_primary.retains > 0;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult status = fake_result("cuDevicePrimaryCtxRetain");
    *out = (CUcontext)(uintptr_t)(0x600000 + device);
    fake_primary.retains++; /* last: what happens meanwhile finds it as it was */
    return status;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    fake_primary.retains--;
    RETURN(cuDevicePrimaryCtxRelease_v2);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CUresult status = fake_result("cuDevicePrimaryCtxReset_v2");
    if (status == CUDA_SUCCESS)
        fake_primary.retains = 0;
    return status;
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    RETURN(cuCtxSetLimit);
}
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return fake_give((CUdeviceptr *)module, "cuModuleLoadData");
}
CUresult cuModuleUnload(CUmodule module)
{
    RETURN(cuModuleUnload);
}
