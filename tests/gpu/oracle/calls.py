#!/usr/bin/env python3
"""calls.py - every driver function that could move memory, and what the oracle writes down of each.

    calls.py generate CUPTI_INCLUDE > calls.inc      the C table that oracle.c is built with
    calls.py unknown CUPTI_INCLUDE                   functions of that CUPTI that neither list below knows

CALLS is written by the documentation of the CUDA driver, not by what vramscope hooks: the oracle must see what vramscope forgot.
LOOKED_AT: why no bytes move in functions whose names look so.
"""
import os
import re
import sys

# A function with one of these in its name could move memory; copies and fills work on memory that is there.
BROAD = ("Mem Alloc Free Array Ctx Module Library Graph Ipc External Multicast Pool Host Create Destroy Import "
         "Register Link Retain Release Load Reserve Trim Limit Resource Map Buffer Peer Bind").split()
COPIES = re.compile(r"cu(64)?Mem(cpy|set)")


def could_move_memory(name):
    return any(word in name for word in BROAD) and not COPIES.match(name)


CALLS = {}


def call(names, kind, params=None, before=False, **fields):
    """NAMES: functions with the same parameters.  FIELDS: what is logged, C expressions over the parameters `p`,
    in which OUT(x) is the value behind an out-parameter and 0 where the call failed.  BEFORE: logged on the way
    in, as vramscope records it, since another thread may be given the address before the call is back."""
    for name in names.split():
        CALLS[name] = {"kind": kind, "params": params or name, "before": before, "fields": fields}


# ---- allocations ----
call("cuMemAlloc_v2 cuMemAlloc", "alloc", address="OUT(p->dptr)", size="p->bytesize")
call("cuMemAllocPitch_v2", "alloc", address="OUT(p->dptr)",
     size="(OK && p->pPitch ? *p->pPitch : p->WidthInBytes) * p->Height")
call("cuMemAllocPitch", "alloc", address="OUT(p->dptr)",
     size="(uint64_t)(OK && p->pPitch ? *p->pPitch : p->WidthInBytes) * p->Height")
call("cuMemAllocManaged", "managed", address="OUT(p->dptr)", size="p->bytesize")
call("cuMemHostAlloc", "pinned", address="OUT(p->pp)", size="p->bytesize", flags="p->Flags")
call("cuMemHostAlloc_v2", "pinned", params="cuMemHostAlloc", address="OUT(p->pp)", size="p->bytesize",
     flags="p->Flags")
call("cuMemAllocHost_v2 cuMemAllocHost", "pinned", address="OUT(p->pp)", size="p->bytesize")
call("cuMemHostRegister_v2 cuMemHostRegister", "registered", address="OK ? U(p->p) : 0", size="p->bytesize",
     flags="p->Flags")
for ptsz in ("", "_ptsz"):  # `graph`: the one that the stream is being captured into, 0: none
    graph = f"captured(p->hStream, {int(ptsz != '')})"
    call("cuMemAllocAsync" + ptsz, "async", address="OUT(p->dptr)", size="p->bytesize", stream="U(p->hStream)",
         graph=f"OK ? {graph} : 0")
    call("cuMemAllocFromPoolAsync" + ptsz, "async", address="OUT(p->dptr)", size="p->bytesize", stream="U(p->hStream)",
         pool="U(p->pool)", graph=f"OK ? {graph} : 0")
    call("cuMemFreeAsync" + ptsz, "free_async", before=True, address="p->dptr", stream="U(p->hStream)", graph=graph)
# ---- and their frees ----
call("cuMemFree_v2 cuMemFree", "free", before=True, address="p->dptr")
call("cuMemFreeHost", "free", before=True, address="U(p->p)")
call("cuMemHostUnregister", "free", before=True, address="U(p->p)")
# ---- virtual memory management ----
call("cuMemAddressReserve", "va_reserve", address="OUT(p->ptr)", size="p->size")
call("cuMemAddressFree", "va_free", before=True, address="p->ptr", size="p->size")
call("cuMemCreate", "phys_create", address="OUT(p->handle)", size="p->size",
     location="p->prop ? (uint64_t)p->prop->location.type << 32 | (uint32_t)p->prop->location.id : 0")
call("cuMemRelease", "phys_release", before=True, address="p->handle")
call("cuMemRetainAllocationHandle", "phys_retain", address="OUT(p->handle)", at="U(p->addr)")
call("cuMemImportFromShareableHandle", "phys_retain", address="OUT(p->handle)")
call("cuMemMap", "map", address="p->ptr", size="p->size", offset="p->offset", handle="p->handle")
call("cuMemUnmap", "unmap", before=True, address="p->ptr", size="p->size")
call("cuMemSetAccess", "set_access", address="p->ptr", size="p->size", count="p->count")
call("cuMemMapArrayAsync cuMemMapArrayAsync_ptsz", "bind_array", address="U(p->mapInfoList)", count="p->count")
call("cuMulticastCreate", "multicast_create", address="OUT(p->mcHandle)", size="p->prop ? p->prop->size : 0")
call("cuMulticastAddDevice", "state", address="p->mcHandle")
call("cuMulticastBindMem", "bind", address="p->mcHandle", size="p->size", handle="p->memHandle")
call("cuMulticastBindAddr", "bind", address="p->mcHandle", size="p->size", at="p->memptr")
call("cuMulticastBindMem_v2", "bind", address="p->mcHandle", size="p->size", handle="p->memHandle")
call("cuMulticastBindAddr_v2", "bind", address="p->mcHandle", size="p->size", at="p->memptr")
call("cuMulticastUnbind", "unbind", before=True, address="p->mcHandle", size="p->size")
ENDPOINT = "(1ull << 62 | p->leId)"  # a number, which as an object must not be a handle
call("cuLogicalEndpointCreate", "multicast_create", address=f"OK ? {ENDPOINT} : 0", size="p->prop ? p->prop->size : 0")
call("cuLogicalEndpointImport", "multicast_create", address=f"OK ? {ENDPOINT} : 0", size="0")
call("cuLogicalEndpointAddDevice", "state", address=ENDPOINT)
call("cuLogicalEndpointBindMem", "bind", address=ENDPOINT, size="p->size", handle="p->memHandle")
call("cuLogicalEndpointBindAddr", "bind", address=ENDPOINT, size="p->size", at="U(p->ptr)")
call("cuLogicalEndpointUnbind", "unbind", before=True, address=ENDPOINT, size="p->size")
call("cuLogicalEndpointDestroy", "phys_release", before=True, address=ENDPOINT)
# ---- pools: what they hold is a figure, not a call (see compare.py) ----
call("cuMemPoolCreate", "state", address="OUT(p->pool)")
call("cuMemPoolDestroy", "state", before=True, address="U(p->pool)")
call("cuMemPoolTrimTo", "state", before=True, address="U(p->pool)", keep="p->minBytesToKeep")
call("cuMemPoolSetAttribute", "state", address="U(p->pool)", attribute="p->attr",
     value="p->value ? *(const uint64_t *)p->value : 0")
call("cuDeviceSetMemPool", "state", address="U(p->pool)", device="p->dev")
call("cuMemSetMemPool", "state", address="U(p->pool)")
call("cuMemPoolImportFromShareableHandle", "state", address="OUT(p->pool_out)")
call("cuMemPoolImportPointer", "import", address="OUT(p->ptr_out)", pool="U(p->pool)")
# ---- graphs ----
call("cuGraphAddMemAllocNode", "node_alloc", address="OK && p->nodeParams ? p->nodeParams->dptr : 0",
     size="p->nodeParams ? p->nodeParams->bytesize : 0", graph="U(p->hGraph)")
call("cuGraphAddMemFreeNode", "node_free", address="p->dptr", graph="U(p->hGraph)")
call("cuGraphAddNode cuGraphAddNode_v2 cuGraphAddNode_v3", "node_any", type="p->nodeParams ? p->nodeParams->type : 0",
     address="node_address(p->nodeParams, status)", size="node_size(p->nodeParams)", graph="U(p->hGraph)")
call("cuGraphAddChildGraphNode", "node_child", graph="U(p->hGraph)", child="U(p->childGraph)")
call("cuGraphClone", "graph_clone", graph="OUT(p->phGraphClone)", of="U(p->originalGraph)")
call("cuGraphInstantiate cuGraphInstantiate_v2", "instantiate", exec="OUT(p->phGraphExec)", graph="U(p->hGraph)")
call("cuGraphInstantiateWithFlags", "instantiate", exec="OUT(p->phGraphExec)", graph="U(p->hGraph)", flags="p->flags")
call("cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz", "instantiate", exec="OUT(p->phGraphExec)",
     graph="U(p->hGraph)", flags="p->instantiateParams ? p->instantiateParams->flags : 0")
call("cuGraphLaunch cuGraphUpload", "launch", exec="U(p->hGraph)", stream="U(p->hStream)")
call("cuGraphLaunch_ptsz cuGraphUpload_ptsz", "launch", exec="U(p->hGraphExec)", stream="U(p->hStream)")
call("cuGraphExecDestroy", "state", before=True, address="U(p->hGraphExec)")
call("cuGraphExecUpdate cuGraphExecUpdate_v2", "exec_update", exec="U(p->hGraphExec)", graph="U(p->hGraph)")
call("cuGraphDestroy", "graph_destroy", before=True, graph="U(p->hGraph)")
call("cuGraphDestroyNode", "node_destroy", before=True, node="U(p->hNode)")
call("cuDeviceGraphMemTrim", "state", before=True, address="p->device")
# ---- arrays: the size by the description, for one level ----
call("cuArrayCreate_v2", "array", address="OUT(p->pHandle)", size="ARRAY_2D(p->pAllocateArray)")
call("cuArrayCreate", "array", address="OUT(p->pHandle)", size="ARRAY_2D((const struct old_2d *)p->pAllocateArray)")
call("cuArray3DCreate", "array", address="OUT(p->pHandle)",
     size="ARRAY_3D((const struct old_3d *)p->pAllocateArray, 1)")
call("cuArray3DCreate_v2", "array", address="OUT(p->pHandle)", size="ARRAY_3D(p->pAllocateArray, 1)",
     flags="p->pAllocateArray ? p->pAllocateArray->Flags : 0", layers="LAYERS(p->pAllocateArray)")
call("cuMipmappedArrayCreate", "array", address="OUT(p->pHandle)",
     size="ARRAY_3D(p->pMipmappedArrayDesc, p->numMipmapLevels)",
     flags="p->pMipmappedArrayDesc ? p->pMipmappedArrayDesc->Flags : 0", layers="LAYERS(p->pMipmappedArrayDesc)")
call("cuArrayDestroy", "free", before=True, address="U(p->hArray)")
call("cuMipmappedArrayDestroy", "free", before=True, address="U(p->hMipmappedArray)")
# ---- memory of others ----
call("cuIpcOpenMemHandle_v2 cuIpcOpenMemHandle", "import", address="OUT(p->pdptr)")
call("cuIpcCloseMemHandle", "free", before=True, address="p->dptr")
call("cuImportExternalMemory", "import_external", address="OUT(p->extMem_out)",
     size="p->memHandleDesc ? p->memHandleDesc->size : 0")
call("cuExternalMemoryGetMappedBuffer", "import", address="OUT(p->devPtr)", size="p->bufferDesc ? p->bufferDesc->size : 0")
call("cuExternalMemoryGetMappedMipmappedArray", "import", address="OUT(p->mipmap)")
call("cuDestroyExternalMemory", "free_external", before=True, address="U(p->extMem)")
call("cuGraphicsMapResources cuGraphicsMapResources_ptsz", "graphics", count="p->count")
call("cuGraphicsUnmapResources cuGraphicsUnmapResources_ptsz", "graphics", before=True, count="p->count")
# ---- contexts: the oracle hears of the context itself by a resource callback inside these calls ----
call("cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4", "context_create", address="OUT(p->pctx)", device="p->dev")
call("cuGreenCtxCreate", "green_create", address="OUT(p->phCtx)", device="p->dev")
call("cuDevicePrimaryCtxRetain", "primary_retain", address="OUT(p->pctx)", device="p->dev")
call("cuCtxDestroy cuCtxDestroy_v2", "context_destroy", before=True, address="U(p->ctx)")
call("cuGreenCtxDestroy", "green_destroy", before=True, address="U(p->hCtx)")
call("cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2",
     "primary_end", before=True, device="p->dev")
call("cuCtxSetLimit", "limit", address="p->limit", value="p->value")
# ---- code and its static data ----
call("cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary", "module_load", address="OUT(p->module)")
call("cuLibraryLoadData cuLibraryLoadFromFile", "module_load", address="OUT(p->library)")
call("cuModuleUnload", "module_unload", before=True, address="U(p->hmod)")
call("cuLibraryUnload", "module_unload", before=True, address="U(p->library)")

# Names that sound like it, in groups by why they are no allocation.
LOOKED_AT = {}


def looked_at(reason, names):
    for name in names.split():
        LOOKED_AT[name] = reason


looked_at("asks, and changes nothing", """
cuDeviceTotalMem cuDeviceTotalMem_v2 cuMemGetInfo cuMemGetInfo_v2 cuMemGetAddressRange cuMemGetAddressRange_v2
cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2 cuMemHostGetFlags cuArrayGetDescriptor cuArrayGetDescriptor_v2
cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuTexRefGetArray cuTexRefGetMipmappedArray cuSurfRefGetArray cuCtxGetDevice
cuCtxGetDevice_v2 cuCtxGetLimit cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetCurrent cuCtxGetSharedMemConfig
cuCtxGetStreamPriorityRange cuCtxGetFlags cuCtxGetId cuCtxGetExecAffinity cuCtxGetDevResource cuDevicePrimaryCtxGetState
cuMemRangeGetAttribute cuMemRangeGetAttributes cuStreamGetCtx cuStreamGetCtx_ptsz cuStreamGetCtx_v2 cuStreamGetCtx_v2_ptsz
cuStreamGetGreenCtx cuGreenCtxGetDevResource cuGreenCtxGetId cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle
cuMemGetAccess cuMulticastGetGranularity cuMemPoolGetAttribute cuMemPoolGetAccess cuDeviceGetDefaultMemPool cuDeviceGetMemPool
cuMemGetDefaultMemPool cuMemGetMemPool cuDeviceGetGraphMemAttribute cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
cuArrayGetMemoryRequirements cuMipmappedArrayGetMemoryRequirements cuArrayGetSparseProperties cuMipmappedArrayGetSparseProperties
cuArrayGetPlane cuMipmappedArrayGetLevel cuModuleGetLoadingMode cuModuleGetFunctionCount cuModuleEnumerateFunctions
cuLibraryGetKernelCount cuLibraryEnumerateKernels cuLibraryGetUnifiedFunction cuKernelGetLibrary cuFuncGetModule
cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2 cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams
cuGraphHostNodeGetParams cuGraphNodeGetType cuGraphGetRootNodes cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2 cuGraphGetNodes cuGraphGetEdges cuGraphGetEdges_v2
cuGraphNodeFindInClone cuGraphChildGraphNodeGetGraph cuGraphKernelNodeGetAttribute cuGraphEventRecordNodeGetEvent
cuGraphEventWaitNodeGetEvent cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresWaitNodeGetParams
cuGraphNodeGetEnabled cuGraphExecGetFlags cuGraphBatchMemOpNodeGetParams cuGraphDebugDotPrint cuTexObjectGetResourceDesc
cuTexObjectGetResourceViewDesc cuSurfObjectGetResourceDesc cuOccupancyAvailableDynamicSMemPerBlock cuDeviceCanAccessPeer
cuDeviceGetDevResource cuFuncIsLoaded cuDeviceGetHostAtomicCapabilities cuLogsDumpToMemory cuStreamGetDevResource
cuStreamGetDevResource_ptsz cuGraphNodeGetContainingGraph cuGraphNodeGetLocalId cuGraphNodeGetToolsId cuGraphGetId cuGraphExecGetId
cuGraphNodeGetParams cuLogicalEndpointGetLimits cuMemGetLocationInfo""")
looked_at("chooses which context, or how it behaves; makes and ends none", """
cuCtxPushCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent cuCtxPopCurrent_v2 cuCtxSetCurrent cuCtxSynchronize cuCtxSynchronize_v2
cuCtxSetCacheConfig cuCtxSetSharedMemConfig cuCtxSetFlags cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
cuCtxResetPersistingL2Cache cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent cuFuncSetSharedMemConfig
cuDevResourceGenerateDesc cuDevSmResourceSplitByCount cuDevSmResourceSplit""")
looked_at("a second use count of a context that is there (before CUDA 4); no library of today calls it", "cuCtxAttach cuCtxDetach")
looked_at("a handle of a green context that is there", "cuCtxFromGreenCtx")
looked_at("hands memory out to others; allocates none", """
cuIpcGetMemHandle cuMemExportToShareableHandle cuMemPoolExportToShareableHandle cuMemPoolExportPointer
cuMemGetHandleForAddressRange""")
looked_at("changes access rights or hints of memory that is there", """
cuMemPoolSetAccess cuMemAdvise cuMemAdvise_v2 cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz cuDeviceSetGraphMemAttribute""")
looked_at("moves pages of managed memory: its device share is no call's", """
cuMemPrefetchAsync cuMemPrefetchAsync_ptsz cuMemPrefetchAsync_v2 cuMemPrefetchAsync_v2_ptsz cuMemPrefetchBatchAsync
cuMemPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync cuMemDiscardBatchAsync_ptsz cuMemDiscardAndPrefetchBatchAsync
cuMemDiscardAndPrefetchBatchAsync_ptsz""")
looked_at("works on memory that is there", """
cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz cuStreamBatchMemOp cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2
cuStreamBatchMemOp_v2_ptsz cuLaunchHostFunc cuLaunchHostFunc_ptsz cuLaunchHostFunc_v2 cuLaunchHostFunc_v2_ptsz""")
looked_at("the driver's own overhead, which no allocation's address names: residual", """
cuInit cuStreamCreate cuStreamCreateWithPriority cuGreenCtxStreamCreate cuStreamCreateForCaptureToCig cuStreamDestroy
cuStreamDestroy_v2 cuEventCreate cuEventDestroy cuEventDestroy_v2 cuCtxEnablePeerAccess cuCtxDisablePeerAccess cuFuncLoad
cuModuleGetFunction cuModuleGetGlobal cuModuleGetGlobal_v2 cuModuleGetTexRef cuModuleGetSurfRef cuLibraryGetKernel
cuLibraryGetModule cuLibraryGetGlobal cuLibraryGetManaged cuMultiKernelCooperativeDomainCreate
cuMultiKernelCooperativeDomainDestroy""")
looked_at("links or compiles on the host", """
cuLinkCreate cuLinkCreate_v2 cuLinkAddData cuLinkAddData_v2 cuLinkAddFile cuLinkAddFile_v2 cuLinkComplete cuLinkDestroy
cuBinaryFree""")
looked_at("a view of an array or memory that is there", """
cuTexRefCreate cuTexRefDestroy cuTexRefSetArray cuTexRefSetMipmappedArray cuSurfRefCreate cuSurfRefDestroy cuSurfRefSetArray
cuTexObjectCreate cuTexObjectDestroy cuSurfObjectCreate cuSurfObjectDestroy cuTensorMapEncodeTiled cuTensorMapEncodeIm2col
cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress""")
looked_at("a graph, or a node of one, that holds no memory node", """
cuGraphCreate cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode
cuGraphAddEmptyNode cuGraphAddHostNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddBatchMemOpNode
cuGraphConditionalHandleCreate cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphRemoveDependencies
cuGraphRemoveDependencies_v2 cuGraphMemsetNodeSetParams cuGraphMemcpyNodeSetParams cuGraphKernelNodeSetParams
cuGraphKernelNodeSetParams_v2 cuGraphHostNodeSetParams cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeSetEvent
cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeSetParams cuGraphBatchMemOpNodeSetParams
cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams
cuGraphExecMemsetNodeSetParams cuGraphExecHostNodeSetParams cuGraphExecChildGraphNodeSetParams
cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecBatchMemOpNodeSetParams cuGraphExecNodeSetParams
cuGraphNodeSetEnabled cuGraphKernelNodeCopyAttributes cuGraphKernelNodeSetAttribute cuGraphRetainUserObject
cuGraphReleaseUserObject cuUserObjectCreate cuUserObjectRetain cuUserObjectRelease cuStreamBeginCaptureToGraph
cuStreamBeginCaptureToGraph_ptsz cuStreamBeginRecaptureToGraph cuStreamBeginRecaptureToGraph_ptsz""")
looked_at("a semaphore, an event or a notification of others", """
cuIpcGetEventHandle cuIpcOpenEventHandle cuImportExternalSemaphore cuDestroyExternalSemaphore cuSignalExternalSemaphoresAsync
cuSignalExternalSemaphoresAsync_ptsz cuWaitExternalSemaphoresAsync cuWaitExternalSemaphoresAsync_ptsz cuSemaphoreCreate
cuSemaphoreDestroy cuDeviceRegisterAsyncNotification cuLogsRegisterCallback cuCoredumpRegisterStartCallback
cuCoredumpRegisterCompleteCallback cuLogicalEndpointIdReserve cuLogicalEndpointIdRelease cuEventCreateFromNVNSync
cuEventCreateFromEGLSync cuProfilerInitialize""")
looked_at("graphics interoperability: cuGraphicsMapResources is what maps, and is logged", """
cuGraphicsUnregisterResource cuGraphicsSubResourceGetMappedArray cuGraphicsResourceGetMappedPointer
cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedEglFrame cuGraphicsEGLRegisterImage
cuEGLStreamConsumerReleaseFrame cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsVDPAURegisterVideoSurface
cuGraphicsVDPAURegisterOutputSurface cuNVNtextureGetArray""")
looked_at("OpenGL and VDPAU as before CUDA 3; none in a training job", """
cuGLCtxCreate cuGLCtxCreate_v2 cuGLInit cuGLRegisterBufferObject cuGLMapBufferObject cuGLMapBufferObject_v2
cuGLMapBufferObject_v2_ptds cuGLUnmapBufferObject cuGLUnregisterBufferObject cuGLSetBufferObjectMapFlags
cuGLMapBufferObjectAsync cuGLMapBufferObjectAsync_v2 cuGLMapBufferObjectAsync_v2_ptsz cuGLUnmapBufferObjectAsync
cuVDPAUCtxCreate cuVDPAUCtxCreate_v2""")
looked_at("private to other tools of the driver's maker; exported by no libcuda that we know", """
cuNNSetAllocator cuMemPeerRegister cuMemPeerUnregister cuMemPeerGetDevicePointer""")
FAMILIES = [(re.compile(r"cu(64)?(Graphics)?D3D(9|10|11)"), "Direct3D: Windows alone"),
            (re.compile(r"cu64"), "64-bit forms of CUDA 3.1 for 32-bit programs: no 64-bit library exports them")]


def why_looked_at(name):
    if name in LOOKED_AT:
        return LOOKED_AT[name]
    return next((why for pattern, why in FAMILIES if pattern.match(name)), None)


# ---- what a CUPTI has ----

def header(include, name):
    with open(os.path.join(include, name), errors="replace") as f:
        return f.read()


def callbacks(include):
    found = re.findall(r"CUPTI_DRIVER_TRACE_CBID_(\w+)\s*=\s*(\d+)", header(include, "cupti_driver_cbid.h"))
    return [(name, int(number)) for name, number in found if name.startswith("cu")]


def parameter_structs(include):
    return set(re.findall(r"\}\s*(\w+)_params;", header(include, "generated_cuda_meta.h")))


def unknown(include):
    return [name for name, _ in callbacks(include)
            if could_move_memory(name) and name not in CALLS and why_looked_at(name) is None]


def generate(include):
    structs = parameter_structs(include)
    rows = []
    print("/* calls.inc - made by calls.py from CUPTI's headers */")
    for name, number in callbacks(include):
        known = CALLS.get(name)
        if known is None:
            if could_move_memory(name) and why_looked_at(name) is None:
                rows.append((number, name, "NULL", 0))
        elif known["params"] not in structs:
            rows.append((number, name, "NULL", 0))
        else:
            print(f"static int put_{name}(uint64_t *v, const void *params, int status)\n{{")
            print(f"    const {known['params']}_params *p = params;\n    (void)status;")
            for i, expression in enumerate(known["fields"].values()):
                print(f"    v[{i}] = (uint64_t)({expression});")
            print(f"    return {len(known['fields'])};\n}}")
            rows.append((number, name, "put_" + name, int(known["before"])))
    print("static const struct call calls[CBIDS] = {")
    for number, name, put, before in rows:
        print(f'    [{number}] = {{"{name}", {put}, {before}}},')
    print("};")
    print("static const char *const broad[] = {" + ", ".join(f'"{word}"' for word in BROAD) + "};")
    print(f"#define CBIDS_KNOWN {max(number for _, number in callbacks(include)) + 1}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("generate", "unknown"):
        sys.exit(__doc__)
    if sys.argv[1] == "generate":
        generate(sys.argv[2])
        return
    names = unknown(sys.argv[2])
    print("".join(name + "\n" for name in names), end="")
    sys.exit(bool(names))


if __name__ == "__main__":
    main()
