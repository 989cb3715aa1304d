/*
 * attributes.c - cuDeviceGetAttribute: what a GPU can do, by its card.
 */
#include "sim.h"

/* What is the same of all cards; what stands in neither table is 0 ("not supported"). */
static const struct {
    CUdevice_attribute attribute;
    int value;
} constants[] = {
#define A(name, value)                                                                                       \
    {                                                                                                        \
        CU_DEVICE_ATTRIBUTE_##name, value                                                                    \
    }
    A(MAX_THREADS_PER_BLOCK, 1024),
    A(MAX_BLOCK_DIM_X, 1024),
    A(MAX_BLOCK_DIM_Y, 1024),
    A(MAX_BLOCK_DIM_Z, 64),
    A(MAX_GRID_DIM_X, 2147483647),
    A(MAX_GRID_DIM_Y, 65535),
    A(MAX_GRID_DIM_Z, 65535),
    A(MAX_SHARED_MEMORY_PER_BLOCK, 49152),
    A(TOTAL_CONSTANT_MEMORY, 65536),
    A(WARP_SIZE, 32),
    A(MAX_PITCH, 2147483647),
    A(MAX_REGISTERS_PER_BLOCK, 65536),
    A(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536),
    A(TEXTURE_ALIGNMENT, 512),
    A(TEXTURE_PITCH_ALIGNMENT, 32),
    A(SURFACE_ALIGNMENT, 512),
    A(GPU_OVERLAP, 1),
    A(CAN_MAP_HOST_MEMORY, 1),
    A(CONCURRENT_KERNELS, 1),
    A(UNIFIED_ADDRESSING, 1),
    A(STREAM_PRIORITIES_SUPPORTED, 1),
    A(GLOBAL_L1_CACHE_SUPPORTED, 1),
    A(LOCAL_L1_CACHE_SUPPORTED, 1),
    A(MANAGED_MEMORY, 1),
    A(CONCURRENT_MANAGED_ACCESS, 1),
    A(COMPUTE_PREEMPTION_SUPPORTED, 1),
    A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
    A(COOPERATIVE_LAUNCH, 1),
    A(HOST_REGISTER_SUPPORTED, 1),
    A(CAN_FLUSH_REMOTE_WRITES, 1),
    A(CAN_USE_STREAM_WAIT_VALUE_NOR, 1),
    A(CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
    A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
    A(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1),
    A(READ_ONLY_HOST_REGISTER_SUPPORTED, 1),
    A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1),
    A(MEMORY_POOLS_SUPPORTED, 1),
    A(MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
    A(SPARSE_CUDA_ARRAY_SUPPORTED, 1),
    A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1),
    A(IPC_EVENT_SUPPORTED, 1),
    A(UNIFIED_FUNCTION_POINTERS, 1),
    A(MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632),
    A(MAXIMUM_TEXTURE1D_WIDTH, 131072),
    A(MAXIMUM_TEXTURE2D_WIDTH, 131072),
    A(MAXIMUM_TEXTURE2D_HEIGHT, 65536),
    A(MAXIMUM_TEXTURE3D_WIDTH, 16384),
    A(MAXIMUM_TEXTURE3D_HEIGHT, 16384),
    A(MAXIMUM_TEXTURE3D_DEPTH, 16384),
    A(MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456),
    A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072),
    A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000),
    A(MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120),
#undef A
};

static int constant(CUdevice_attribute attribute)
{
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (constants[i].attribute == attribute)
            return constants[i].value;
    return 0;
}

/* ECC comes with HBM; the others have it too, switched off or taking no memory. */
static bool has_hbm(int capability)
{
    return capability % 10 == 0 && capability < 120;
}

static int of_card(CUdevice_attribute attribute, CUdevice device)
{
    const struct sim_card *card = sim_card();
    const struct sim_capability *architecture = sim_capability();
    bool hopper = card->capability >= 90;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return card->capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return card->capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return card->multiprocessors;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return card->clock;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return card->memory_clock;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return card->bus;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return card->l2;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        return card->capability >= 80 ? card->l2 / 8 * 5 : 0;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID:
        return card->pci_device;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return sim_physical(device) + 1;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
        return has_hbm(card->capability) && sim_card_is_real();
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return sim_card_is_real() ? 3 : 1;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return architecture->threads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return architecture->blocks;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return architecture->shared;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return architecture->shared_of_block;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return architecture->shared - architecture->shared_of_block;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
        return architecture->doubles;
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return has_hbm(card->capability) && sim_card_is_real();
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        return hopper;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
        return hopper ? 4 : 1;
    default:
        return constant(attribute);
    }
}

int simcuda_attribute(int attribute, int device)
{
    return of_card((CUdevice_attribute)attribute, device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = of_card(attribute, device);
    return CUDA_SUCCESS;
}
