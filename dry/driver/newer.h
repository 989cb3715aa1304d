/* newer.h - prototypes of CUDA 13.1 to 13.5 for builds with older headers. */
#ifndef DRY_DRIVER_NEWER_H
#define DRY_DRIVER_NEWER_H

#include <cuda.h>

/* These have a header of their own, which need not be there. */
typedef CUresult (*PFN_cuProfilerInitialize_v4000)(const char *, const char *, int);
typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);

#if CUDA_VERSION < 13010
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle,
                               size_t, size_t, unsigned long long);
typedef __typeof__(&cuMulticastBindMem_v2) PFN_cuMulticastBindMem_v13010;
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t,
                                unsigned long long);
typedef __typeof__(&cuMulticastBindAddr_v2) PFN_cuMulticastBindAddr_v13010;
#endif

#if CUDA_VERSION < 13020
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
typedef __typeof__(&cuMemcpyWithAttributesAsync) PFN_cuMemcpyWithAttributesAsync_v13020;
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
typedef __typeof__(&cuMemcpyWithAttributesAsync_ptsz) PFN_cuMemcpyWithAttributesAsync_v13020_ptsz;
#endif

#if CUDA_VERSION < 13030
#define CUDA_ERROR_GRAPH_RECAPTURE_FAILURE 918
typedef enum CUgraphRecaptureStatus_enum {
    CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE = 0,
    CU_GRAPH_RECAPTURE_INELIGIBLE_FOR_UPDATE = 1,
    CU_GRAPH_RECAPTURE_ERROR = 2
} CUgraphRecaptureStatus;
typedef CUresult (*CUgraphRecaptureCallback)(void *, CUgraphNode, const CUgraphNodeParams *,
                                             const CUgraphNodeParams *, CUgraphRecaptureStatus);
CUresult cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback,
                                       void *);
typedef __typeof__(&cuStreamBeginRecaptureToGraph) PFN_cuStreamBeginRecaptureToGraph_v13030;
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback,
                                            void *);
typedef __typeof__(&cuStreamBeginRecaptureToGraph_ptsz) PFN_cuStreamBeginRecaptureToGraph_v13030_ptsz;

typedef cuuint32_t CUlogicalEndpointId;
typedef enum CUlogicalEndpointIpcHandleType_enum {
    CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_NONE,
    CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC
} CUlogicalEndpointIpcHandleType;
typedef struct CUlogicalEndpointFabricHandle_st {
    unsigned char data[CU_IPC_HANDLE_SIZE];
} CUlogicalEndpointFabricHandle;
typedef enum CUlogicalEndpointType_enum {
    CU_LOGICAL_ENDPOINT_TYPE_INVALID,
    CU_LOGICAL_ENDPOINT_TYPE_UNICAST,
    CU_LOGICAL_ENDPOINT_TYPE_MULTICAST
} CUlogicalEndpointType;
typedef struct CUlogicalEndpointProp_struct {
    CUlogicalEndpointType type;
    union {
        struct {
            CUdevice device;
        } unicast;
        struct {
            unsigned int numDevices;
        } multicast;
    };
    unsigned long long size;
    unsigned int ipcHandleTypes;
    unsigned int flags;
} CUlogicalEndpointProp;
CUresult cuLogicalEndpointIdReserve(CUlogicalEndpointId *, cuuint32_t);
typedef __typeof__(&cuLogicalEndpointIdReserve) PFN_cuLogicalEndpointIdReserve_v13030;
CUresult cuLogicalEndpointIdRelease(CUlogicalEndpointId, cuuint32_t);
typedef __typeof__(&cuLogicalEndpointIdRelease) PFN_cuLogicalEndpointIdRelease_v13030;
CUresult cuLogicalEndpointCreate(CUlogicalEndpointId, const CUlogicalEndpointProp *);
typedef __typeof__(&cuLogicalEndpointCreate) PFN_cuLogicalEndpointCreate_v13030;
CUresult cuLogicalEndpointAddDevice(CUlogicalEndpointId, CUdevice);
typedef __typeof__(&cuLogicalEndpointAddDevice) PFN_cuLogicalEndpointAddDevice_v13030;
CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId);
typedef __typeof__(&cuLogicalEndpointDestroy) PFN_cuLogicalEndpointDestroy_v13030;
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId, CUdevice, cuuint64_t, void *, cuuint64_t,
                                   unsigned long long);
typedef __typeof__(&cuLogicalEndpointBindAddr) PFN_cuLogicalEndpointBindAddr_v13030;
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId, CUdevice, cuuint64_t, CUmemGenericAllocationHandle,
                                  cuuint64_t, cuuint64_t, unsigned long long);
typedef __typeof__(&cuLogicalEndpointBindMem) PFN_cuLogicalEndpointBindMem_v13030;
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId, CUdevice, cuuint64_t, cuuint64_t);
typedef __typeof__(&cuLogicalEndpointUnbind) PFN_cuLogicalEndpointUnbind_v13030;
CUresult cuLogicalEndpointExport(void *, CUlogicalEndpointId, CUlogicalEndpointIpcHandleType);
typedef __typeof__(&cuLogicalEndpointExport) PFN_cuLogicalEndpointExport_v13030;
CUresult cuLogicalEndpointImport(CUlogicalEndpointId, const void *, CUlogicalEndpointIpcHandleType);
typedef __typeof__(&cuLogicalEndpointImport) PFN_cuLogicalEndpointImport_v13030;
CUresult cuLogicalEndpointGetLimits(cuuint64_t *, cuuint64_t *, const CUlogicalEndpointProp *);
typedef __typeof__(&cuLogicalEndpointGetLimits) PFN_cuLogicalEndpointGetLimits_v13030;
CUresult cuLogicalEndpointQuery(CUlogicalEndpointId, cuuint32_t, int *);
typedef __typeof__(&cuLogicalEndpointQuery) PFN_cuLogicalEndpointQuery_v13030;
#endif

#if CUDA_VERSION < 13040
#define CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN ((CUmemLocationType)6)
CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                           CUgraphNodeParams *);
typedef __typeof__(&cuGraphAddNode_v3) PFN_cuGraphAddNode_v13040;
#endif

#endif
