/*
 * driver.h - the CUDA driver as the hooks see it: rows of driver.def as types, prototypes and real pointers.
 *
 *      driver.def --> enum vs_api (trace/api.h), vs_hook_<symbol> prototypes, vs_rows[], vs_real_of()
 *      VS_CALLS   --> vs_drv_<symbol>(): the few driver functions that vramscope itself calls
 */
#ifndef VS_HOOKS_DRIVER_H
#define VS_HOOKS_DRIVER_H

/* cuda.h then declares every variant by its exact symbol and #defines none of the base names */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/api.h"

/* (type, name, ...) of a row, as parameters and as arguments */
#define VS_PARAMS_0()           void
#define VS_PARAMS_1(T, a)       T a
#define VS_PARAMS_2(T, a, ...)  T a, VS_PARAMS_1(__VA_ARGS__)
#define VS_PARAMS_3(T, a, ...)  T a, VS_PARAMS_2(__VA_ARGS__)
#define VS_PARAMS_4(T, a, ...)  T a, VS_PARAMS_3(__VA_ARGS__)
#define VS_PARAMS_5(T, a, ...)  T a, VS_PARAMS_4(__VA_ARGS__)
#define VS_PARAMS_6(T, a, ...)  T a, VS_PARAMS_5(__VA_ARGS__)
#define VS_PARAMS_7(T, a, ...)  T a, VS_PARAMS_6(__VA_ARGS__)
#define VS_PARAMS_8(T, a, ...)  T a, VS_PARAMS_7(__VA_ARGS__)
#define VS_PARAMS_9(T, a, ...)  T a, VS_PARAMS_8(__VA_ARGS__)
#define VS_PARAMS_10(T, a, ...) T a, VS_PARAMS_9(__VA_ARGS__)
#define VS_PARAMS_11(T, a, ...) T a, VS_PARAMS_10(__VA_ARGS__)
#define VS_PARAMS_12(T, a, ...) T a, VS_PARAMS_11(__VA_ARGS__)
#define VS_PARAMS_13(T, a, ...) T a, VS_PARAMS_12(__VA_ARGS__)
#define VS_PARAMS_14(T, a, ...) T a, VS_PARAMS_13(__VA_ARGS__)
#define VS_PARAMS_15(T, a, ...) T a, VS_PARAMS_14(__VA_ARGS__)
#define VS_PARAMS_16(T, a, ...) T a, VS_PARAMS_15(__VA_ARGS__)
#define VS_ARGS_0()
#define VS_ARGS_1(T, a)       a
#define VS_ARGS_2(T, a, ...)  a, VS_ARGS_1(__VA_ARGS__)
#define VS_ARGS_3(T, a, ...)  a, VS_ARGS_2(__VA_ARGS__)
#define VS_ARGS_4(T, a, ...)  a, VS_ARGS_3(__VA_ARGS__)
#define VS_ARGS_5(T, a, ...)  a, VS_ARGS_4(__VA_ARGS__)
#define VS_ARGS_6(T, a, ...)  a, VS_ARGS_5(__VA_ARGS__)
#define VS_ARGS_7(T, a, ...)  a, VS_ARGS_6(__VA_ARGS__)
#define VS_ARGS_8(T, a, ...)  a, VS_ARGS_7(__VA_ARGS__)
#define VS_ARGS_9(T, a, ...)  a, VS_ARGS_8(__VA_ARGS__)
#define VS_ARGS_10(T, a, ...) a, VS_ARGS_9(__VA_ARGS__)
#define VS_ARGS_11(T, a, ...) a, VS_ARGS_10(__VA_ARGS__)
#define VS_ARGS_12(T, a, ...) a, VS_ARGS_11(__VA_ARGS__)
#define VS_ARGS_13(T, a, ...) a, VS_ARGS_12(__VA_ARGS__)
#define VS_ARGS_14(T, a, ...) a, VS_ARGS_13(__VA_ARGS__)
#define VS_ARGS_15(T, a, ...) a, VS_ARGS_14(__VA_ARGS__)
#define VS_ARGS_16(T, a, ...) a, VS_ARGS_15(__VA_ARGS__)

/* of CUDA 12.4 and 12.5, where older headers are built with */
struct CUctxCreateParams_st;
struct CUgreenCtx_st;
struct CUdevResourceDesc_st;
/* of 12.6 and 12.8 */
struct CUmemDecompressParams_st;
struct CUmemcpyAttributes_st;
#if CUDA_VERSION < 12080
struct CUDA_MEMCPY3D_BATCH_OP_st {
    struct {
        enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1 } type;
        union {
            struct {
                CUdeviceptr ptr;
                size_t rowLength, layerHeight;
                int hint[2];
            } ptr;
            size_t array[4];
        } op;
    } src, dst;
    struct {
        size_t width, height, depth;
    } extent;
    unsigned int order, flags;
};
enum CUtensorMapIm2ColWideMode_enum { VS_TENSOR_MAP_WIDE };
#endif
/* of 13.3 to 13.5 */
struct CUDA_FABRIC_COPY_BATCH_OP_st;
#if CUDA_VERSION < 13030
enum CUlogicalEndpointIpcHandleType_enum { VS_ENDPOINT_HANDLE };
struct CUlogicalEndpointProp_struct {
    int type, devices;
    unsigned long long size;
};
enum CUgraphRecaptureStatus_enum { VS_RECAPTURE_STATUS };
typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node, const CUgraphNodeParams *original,
                                             const CUgraphNodeParams *recaptured,
                                             enum CUgraphRecaptureStatus_enum status);
#endif

/* The wrappers by their internal names (wrappers.c); the exported symbol is an alias, so that no program's
 * canonical PLT entry can come between our table and our code.  And what passes a call on to an interposer
 * behind us. */
#define VS_API(number, symbol, base, version, stream, shape, shape_args, n, signature)                       \
    CUresult vs_hook_##symbol(VS_PARAMS_##n signature);                                                      \
    CUresult vs_pass_##symbol(VS_PARAMS_##n signature);
#include "trace/driver.def"
#undef VS_API

enum vs_stream_kind { VS_STREAM_ANY, VS_STREAM_LEGACY, VS_STREAM_PTSZ };

struct vs_row {
    enum vs_api api;
    const char *symbol;
    const char *base;
    int version;
    enum vs_stream_kind stream;
    void *wrapper;
    void *pass;
};
extern const struct vs_row vs_rows[];
extern const size_t vs_row_count;

/* The row of the exact symbol NAME, NULL where it is not hooked. */
const struct vs_row *vs_row_find(const char *name);

/* Whether NAME, of the driver's, has no row because it is newer than this vramscope, and may move memory. */
bool vs_row_lacks(const char *name);

/* Likewise FUNCTION, no row's, which cuGetProcAddress gave for BASE. */
bool vs_row_lacks_form(const char *base, const void *function);

/* ---- real pointers ---- */

/* For a call before the driver was found: looks it up, keeping errno.  NULL: no driver, or one without the
 * function. */
void *vs_real_slow(enum vs_api api);
extern _Atomic(void *) vs_real_table[VS_API_END];

/* The driver's own function for API.  Relaxed: the pointer leads to code that was mapped before its address
 * was known, and it publishes nothing else. */
static inline void *vs_real_of(enum vs_api api)
{
    void *p = atomic_load_explicit(&vs_real_table[api], memory_order_relaxed);
    return __builtin_expect(p != NULL, 1) ? p : vs_real_slow(api);
}

/* Makes FUNCTION replace the driver's for API, for all callers of the hook (provider.h: vs_stand_in).  Called
 * before the driver is looked up. */
void vs_override(enum vs_api api, void *function);
/* The function that was replaced: the driver's own, or that of an interposer behind us. */
void *vs_real_under(enum vs_api api);
/* Likewise, below what vs_override puts there: for what must see each call that reaches the driver, a
 * provider's among them.  FUNCTION finds by vs_real_beneath what it stands for. */
void vs_put_beneath(enum vs_api api, void *function);
void *vs_real_beneath(enum vs_api api);
/* The driver's own function, whatever else is called in its place; NULL before the driver was found. */
void *vs_driver_own(enum vs_api api);
/* The driver has FUNCTION for API, which it does not export. */
void vs_driver_own_is(enum vs_api api, void *function);

/* Looks up the driver's addresses if the host has loaded it (idempotent, no lock of ours: several threads
 * may do it at once and all write the same).  False: it is not loaded. */
bool vs_driver_learn(void);
/* Whether ADDRESS lies in the driver that was found. */
bool vs_driver_owns(const void *address);

/* The real address of the driver's exported NAME (exact symbol), never one of our wrappers; NULL where the
 * driver is not loaded or lacks it.  Takes the loader's lock: not for the hot path. */
void *vs_cuda_real(const char *name);

/* ---- interposers (interposers.c) ----
 *
 * Libraries that are preloaded behind us and stand before the driver themselves, a quota on memory for
 * instance: a call goes from the program to us, to them, to the driver.  One is known by its place (between
 * us and the first library that another is linked with) and by its exports: dlsym, or a function that we
 * hook.  A library that the program is linked with and that defines the driver's functions is none: calls
 * bind to it as without us (symbols/rebind_startup.c).
 *
 * One gets the calls of a function from the moment on at which the program reaches it by a way that would
 * have led to the interposer without us: a reference, its dlsym, its cuGetProcAddress.  Before, it might not
 * be ready to be called. */

/* Called once by the constructor, before any other code of the process runs. */
void vs_interposers_find(void);

bool vs_interposers_there(void);
/* Whether ADDRESS lies in one. */
bool vs_interposer_owns(const void *address);
/* The function NAME of the first that exports it, NULL where none does. */
void *vs_interposer_export(const char *name);

/* FUNCTION, of an interposer behind us, gets all calls of ROW from now on, by
 * vs_pass_<symbol>; the first that is said stays. */
void vs_interpose(const struct vs_row *row, void *function);
void *vs_interposed(enum vs_api api);

/* ---- ways into the driver that go past the hooks (uncovered.c): each is reported in the database once ----
 */

void vs_uncovered(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of a function, in the form for vs_uncovered. */
#define VS_UNCOVERED_REFERRED                                                                                \
    "%s, which this vramscope does not know, is referred to by the program or a library of it"
/* An object that the program started with refers to NAME, in its own string table.  Safe before the C library
 * is initialised. */
void vs_uncovered_reference(const char *name);
/* Reports those that the driver has, which is loaded now. */
void vs_uncovered_references(void);
/* FOUND, where it lies in a CUDA driver other than the one that was learnt. */
void vs_uncovered_driver(const void *found);
/* Writes what was reported so far into a new journal. */
void vs_uncovered_to_journal(void);

/* ---- driver functions that vramscope itself calls ---- */

#define VS_CALLS(X)                                                                                          \
    X(cuCtxGetCurrent, 1, (CUcontext *, context))                                                            \
    X(cuCtxGetDevice, 1, (CUdevice *, device))                                                               \
    X(cuStreamGetCtx, 2, (CUstream, stream, CUcontext *, context))                                           \
    X(cuStreamIsCapturing, 2, (CUstream, stream, CUstreamCaptureStatus *, status))                           \
    X(cuStreamSynchronize, 1, (CUstream, stream))                                                            \
    X(cuThreadExchangeStreamCaptureMode, 1, (CUstreamCaptureMode *, mode))                                   \
    X(cuPointerGetAttribute, 3, (void *, data, CUpointer_attribute, attribute, CUdeviceptr, address))        \
    X(cuDeviceGetMemPool, 2, (CUmemoryPool *, pool, CUdevice, device))                                       \
    X(cuDeviceGetDefaultMemPool, 2, (CUmemoryPool *, pool, CUdevice, device))                                \
    X(cuMemPoolGetAttribute, 3, (CUmemoryPool, pool, CUmemPool_attribute, attribute, void *, value))         \
    X(cuDeviceGetName, 3, (char *, name, int, length, CUdevice, device))                                     \
    X(cuDeviceGetUuid_v2, 2, (CUuuid *, uuid, CUdevice, device))                                             \
    X(cuDeviceGetUuid, 2, (CUuuid *, uuid, CUdevice, device))                                                \
    X(cuDeviceTotalMem_v2, 2, (size_t *, bytes, CUdevice, device))                                           \
    X(cuMemGetInfo_v2, 2, (size_t *, free_bytes, size_t *, total_bytes))                                     \
    X(cuDevicePrimaryCtxGetState, 3, (CUdevice, device, unsigned *, flags, int *, active))                   \
    X(cuDevicePrimaryCtxRetain, 2, (CUcontext *, context, CUdevice, device))                                 \
    X(cuDevicePrimaryCtxRelease_v2, 1, (CUdevice, device))                                                   \
    X(cuCtxSetCurrent, 1, (CUcontext, context))                                                              \
    X(cuMemGetAddressRange_v2, 3, (CUdeviceptr *, base, size_t *, size, CUdeviceptr, address))               \
    X(cuMemGetAllocationPropertiesFromHandle, 2,                                                             \
      (CUmemAllocationProp *, prop, CUmemGenericAllocationHandle, handle))                                   \
    X(cuMemAddressReserve, 5,                                                                                \
      (CUdeviceptr *, address, size_t, size, size_t, alignment, CUdeviceptr, at, unsigned long long, flags)) \
    X(cuMemAddressFree, 2, (CUdeviceptr, address, size_t, size))                                             \
    X(cuMemMap, 5,                                                                                           \
      (CUdeviceptr, address, size_t, size, size_t, offset, CUmemGenericAllocationHandle, handle,             \
       unsigned long long, flags))                                                                           \
    X(cuMemUnmap, 2, (CUdeviceptr, address, size_t, size))                                                   \
    X(cuMemSetAccess, 4, (CUdeviceptr, address, size_t, size, const CUmemAccessDesc *, list, size_t, count)) \
    X(cuMemRelease, 1, (CUmemGenericAllocationHandle, handle))                                               \
    X(cuDeviceGetCount, 1, (int *, count))                                                                   \
    X(cuMemAdvise, 4, (CUdeviceptr, address, size_t, size, CUmem_advise, advice, CUdevice, device))          \
    X(cuMemExportToShareableHandle, 4,                                                                       \
      (void *, out, CUmemGenericAllocationHandle, handle, CUmemAllocationHandleType, type,                   \
       unsigned long long, flags))                                                                           \
    X(cuMemImportFromShareableHandle, 3,                                                                     \
      (CUmemGenericAllocationHandle *, handle, void *, from, CUmemAllocationHandleType, type))               \
    X(cuCtxSynchronize, 0, ())                                                                               \
    X(cuArray3DGetDescriptor_v2, 2, (CUDA_ARRAY3D_DESCRIPTOR *, descriptor, CUarray, array))                 \
    X(cuMipmappedArrayGetLevel, 3, (CUarray *, level, CUmipmappedArray, array, unsigned int, number))        \
    X(cuGraphicsResourceGetMappedPointer_v2, 3,                                                              \
      (CUdeviceptr *, address, size_t *, size, CUgraphicsResource, resource))                                \
    X(cuGraphGetNodes, 3, (CUgraph, graph, CUgraphNode *, nodes, size_t *, count))                           \
    X(cuGraphNodeGetType, 2, (CUgraphNode, node, CUgraphNodeType *, type))                                   \
    X(cuGraphMemAllocNodeGetParams, 2, (CUgraphNode, node, CUDA_MEM_ALLOC_NODE_PARAMS *, params))            \
    X(cuGraphMemFreeNodeGetParams, 2, (CUgraphNode, node, CUdeviceptr *, address))                           \
    X(cuGraphChildGraphNodeGetGraph, 2, (CUgraphNode, node, CUgraph *, graph))                               \
    X(cuFuncGetParamInfo, 4, (CUfunction, f, size_t, index, size_t *, offset, size_t *, size))               \
    X(cuKernelGetParamInfo, 4, (CUkernel, kernel, size_t, index, size_t *, offset, size_t *, size))          \
    X(cuFuncGetName, 2, (const char **, name, CUfunction, f))                                                \
    X(cuKernelGetName, 2, (const char **, name, CUkernel, kernel))                                           \
    X(cuGraphKernelNodeGetParams, 2, (CUgraphNode, node, CUDA_KERNEL_NODE_PARAMS_v1 *, params))              \
    X(cuGraphKernelNodeGetParams_v2, 2, (CUgraphNode, node, CUDA_KERNEL_NODE_PARAMS *, params))              \
    X(cuGraphKernelNodeGetAttribute, 3,                                                                      \
      (CUgraphNode, node, CUkernelNodeAttrID, attribute, CUkernelNodeAttrValue *, value))                    \
    X(cuGraphMemcpyNodeGetParams, 2, (CUgraphNode, node, CUDA_MEMCPY3D *, params))                           \
    X(cuGraphMemsetNodeGetParams, 2, (CUgraphNode, node, CUDA_MEMSET_NODE_PARAMS *, params))                 \
    X(cuDeviceGetGraphMemAttribute, 3, (CUdevice, device, CUgraphMem_attribute, attribute, void *, value))

enum vs_call {
#define X(symbol, n, signature) VS_CALL_##symbol,
    VS_CALLS(X)
#undef X
        VS_CALL_END
};
extern _Atomic(void *) vs_call_table[VS_CALL_END];

/* vs_drv_<symbol>(...): the real function, CUDA_ERROR_NOT_FOUND where the driver has none. */
#define X(symbol, n, signature)                                                                              \
    static inline CUresult vs_drv_##symbol(VS_PARAMS_##n signature)                                          \
    {                                                                                                        \
        CUresult (*real)(VS_PARAMS_##n signature) =                                                          \
            atomic_load_explicit(&vs_call_table[VS_CALL_##symbol], memory_order_relaxed);                    \
        return real ? real(VS_ARGS_##n signature) : CUDA_ERROR_NOT_FOUND;                                    \
    }
VS_CALLS(X)
#undef X

#endif
