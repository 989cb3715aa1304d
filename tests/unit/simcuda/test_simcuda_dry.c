/*
 * test_simcuda_dry.c - dry mode of the simulated driver: any kernel, addresses as a real driver gives them,
 * and no more of the host's memory than what is read.
 */
#include "simcuda_kit.h"

#include <elf.h>
#include <stdbool.h>
#include <sys/resource.h>

#define GIB  (1024 * MIB)
#define ROOM (32 * MIB)

int simcuda_dry(void);
void simcuda_on_read(void (*reader)(void *to, size_t size));

/* ---- device code ---- */

struct fatbin {
    uint32_t magic;
    uint16_t version, header;
    uint64_t body;
};
struct entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t payload;
    uint32_t others[3], capability;
    char rest[32], code[16];
};
static struct {
    struct fatbin head;
    struct entry entries[5];
} fat;
static struct {
    uint32_t magic, version;
    void *data, *names;
} wrapper = {0x466243b1, 1, &fat, NULL};

/* Cubins for 7.5, 8.0, 8.6 and 9.0, and PTX of 12.0; what is in them stands for compressed code. */
static void make_fatbin(void)
{
    static const uint32_t capabilities[] = {75, 80, 86, 90, 120};
    fat.head = (struct fatbin){0xba55ed50, 1, sizeof fat.head, sizeof fat.entries};
    for (int i = 0; i < 5; i++)
        fat.entries[i] = (struct entry){.kind = i == 4 ? 1 : 2,
                                        .version = 0x101,
                                        .header = offsetof(struct entry, code),
                                        .payload = sizeof fat.entries[i].code,
                                        .capability = capabilities[i],
                                        .code = "\x28\xb5\x2f\xfd not read"};
}

static void launch_all(CUmodule module)
{
    CUfunction f;
    uint64_t word = 1;
    void *parameters[] = {&word};
    OK(cuModuleGetFunction(&f, module, "_ZN2at6native6kernelIfEEvPT_"));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    OK(cuLaunchCooperativeKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters));
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1};
    OK(cuLaunchKernelEx(&config, f, parameters, NULL));
}

SIM_TEST(any_kernel_of_any_image_is_launched)
{
    CUmodule module;
    Elf64_Ehdr cubin = {.e_ident = ELFMAG, .e_flags = 90, .e_phoff = sizeof cubin};
    make_fatbin();
    begin();
    OK(cuModuleLoadData(&module, &cubin));
    launch_all(module);
    OK(cuModuleLoadFatBinary(&module, &fat));
    launch_all(module);
    OK(cuModuleLoadData(&module, &wrapper));
    launch_all(module);
    OK(cuModuleLoadData(
        &module, ".version 8.0\n.target sm_80\n.entry _ZN2at6native6kernelIfEEvPT_(.param .u64 p) { }"));
    launch_all(module);
    CUfunction f;
    IS(cuModuleGetFunction(&f, module, "another"), CUDA_ERROR_NOT_FOUND);
}

SIM_TEST(a_library_has_every_kernel_and_variable_that_is_asked_for)
{
    CUlibrary library;
    CUkernel kernel, again;
    CUdeviceptr variable, other;
    size_t bytes;
    int value = 7, read = 0;
    make_fatbin();
    begin();
    OK(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "k"));
    OK(cuLibraryGetKernel(&again, library, "k"));
    CHECK(kernel == again);
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLibraryGetGlobal(&variable, &bytes, library, "v"));
    OK(cuLibraryGetGlobal(&other, NULL, library, "w"));
    CHECK(variable != other && bytes >= 64 << 10);
    OK(cuMemcpyHtoD(variable, &value, sizeof value));
    OK(cuMemcpyDtoH(&read, variable, sizeof read));
    CHECK(read == 7);
    size_t offset;
    IS(cuKernelGetParamInfo(kernel, 0, &offset, NULL), CUDA_ERROR_NOT_SUPPORTED); /* nobody knows */
    OK(cuLibraryUnload(library));
    IS(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

SIM_TEST(a_captured_kernel_is_a_node)
{
    CUmodule module;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUfunction f;
    size_t nodes = 0;
    make_fatbin();
    begin();
    OK(cuModuleLoadData(&module, &fat));
    OK(cuModuleGetFunction(&f, module, "k"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 1);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
}

static int binary_version(int *ptx)
{
    CUmodule module;
    CUfunction f;
    int binary;
    make_fatbin();
    begin();
    OK(cuModuleLoadData(&module, &wrapper));
    OK(cuModuleGetFunction(&f, module, "k"));
    OK(cuFuncGetAttribute(ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, f));
    OK(cuFuncGetAttribute(&binary, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
    return binary;
}

SIM_TEST(a_card_runs_the_newest_code_of_its_major_capability, "SIMCUDA_GPU", "RTX4090")
{
    int ptx, binary = binary_version(&ptx);
    CHECK(binary == 86 && ptx == 86);
}

SIM_TEST(a_card_without_code_of_its_own_compiles_ptx, "SIMCUDA_GPU", "rtx5090")
{
    int ptx, binary = binary_version(&ptx);
    CHECK(binary == 120 && ptx == 120);
}

SIM_TEST(an_image_without_code_for_the_card_is_refused, "SIMCUDA_GPU", "V100")
{
    CUmodule module;
    make_fatbin();
    begin();
    IS(cuModuleLoadData(&module, &wrapper), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

SIM_TEST(a_multiprocessor_holds_what_its_threads_and_shared_memory_allow)
{
    CUmodule module;
    CUfunction f;
    int blocks, grid, block;
    make_fatbin();
    begin();
    OK(cuModuleLoadData(&module, &fat));
    OK(cuModuleGetFunction(&f, module, "k"));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 1024, 0));
    CHECK(blocks == 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 100 << 10));
    CHECK(blocks == 2); /* shared memory is less */
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
    CHECK(block == 1024 && grid == 264);
    IS(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10),
       CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
}

/* ---- cards ---- */

SIM_TEST(without_a_word_it_is_an_h200)
{
    char name[64];
    size_t total;
    int value;
    begin();
    CHECK(simcuda_dry() == 1);
    OK(cuDeviceGetName(name, sizeof name, 0));
    CHECK(strcmp(name, "NVIDIA H200") == 0);
    OK(cuDeviceTotalMem(&total, 0));
    CHECK(total == 150109880320);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CHECK(value == 132);
    CHECK(used() == 518 * MIB);
}

SIM_TEST(a_card_has_several_names_in_any_case, "SIMCUDA_GPU", "A100-sxm4-80gb")
{
    char name[64];
    int major, minor;
    begin();
    OK(cuDeviceGetName(name, sizeof name, 0));
    CHECK(strcmp(name, "NVIDIA A100-SXM4-80GB") == 0);
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    CHECK(major == 8 && minor == 0);
}

static void body_unknown(void)
{
    close(2);
    cuInit(0);
    begin();
}

TEST(an_unknown_card_is_refused)
{
    int status = child_status(body_unknown, "SIMCUDA_GPU", "H2000");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

SIM_TEST(the_devices_that_a_program_names_are_there_in_its_order, "CUDA_VISIBLE_DEVICES", "3,1,-1,0")
{
    int count, (*nvml_init)(void), (*nvml_count)(unsigned *);
    unsigned machine;
    char bus[16];
    CUuuid uuid;
    begin();
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* too late */
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(strcmp(bus, "0000:04:00.0") == 0);
    OK(cuDeviceGetUuid(&uuid, 1));
    CHECK(uuid.bytes[15] == 'b');
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(nvml != NULL);
    *(void **)&nvml_init = dlsym(nvml, "nvmlInit_v2");
    *(void **)&nvml_count = dlsym(nvml, "nvmlDeviceGetCount_v2");
    CHECK(nvml_init() == 0 && nvml_count(&machine) == 0 && machine == 4); /* all that there are */
}

SIM_TEST(a_program_that_hides_all_devices_has_none, "CUDA_VISIBLE_DEVICES", "")
{
    IS(cuInit(0), CUDA_ERROR_NO_DEVICE);
}

/* ---- addresses ---- */

/* What an H200's driver did, allocation by allocation: the first holes, then rooms from the top down, and
 * holes of rooms before new rooms, the lowest first. */
SIM_TEST(addresses_are_given_as_an_h200_gave_them)
{
    CUdeviceptr first, tail, room, second, small, large, after, low, last;
    begin();
    OK(cuMemAlloc(&first, 20 * MIB));
    OK(cuMemAlloc(&tail, 2 * MIB));
    CHECK(first % ROOM == 8 * MIB && tail % ROOM == 30 * MIB && tail < first);
    OK(cuMemAlloc(&room, 20 * MIB));
    OK(cuMemAlloc(&small, 2 * MIB));
    OK(cuMemAlloc(&second, 20 * MIB));
    CHECK(room % ROOM == 0 && small == room + 20 * MIB && second == room - ROOM);
    OK(cuMemAlloc(&large, 100 * MIB));
    OK(cuMemAlloc(&after, 26 * MIB));
    CHECK(large == second - 4 * ROOM && after == large + 100 * MIB);
    OK(cuMemFree(large));
    OK(cuMemAlloc(&low, 10 * MIB)); /* the lowest hole, before those of higher rooms */
    CHECK(low == large);
    OK(cuMemFree(low));
    OK(cuMemFree(after)); /* the room is empty, and goes back: it has no 32 MiB more than is asked for */
    OK(cuMemAlloc(&last, 128 * MIB));
    CHECK(last == second - 4 * ROOM);
}

SIM_TEST(addresses_that_are_reserved_are_nobody_elses)
{
    CUdeviceptr a, b, reserved;
    begin();
    OK(cuMemAlloc(&a, 40 * MIB));
    OK(cuMemAddressReserve(&reserved, 40 * MIB, 0, 0, 0));
    OK(cuMemAlloc(&b, 22 * MIB));
    CHECK(reserved == a - 2 * ROOM && b == a + 40 * MIB);
    OK(cuMemAlloc(&b, 24 * MIB));
    CHECK(b > a && b % ROOM == 8 * MIB);
    OK(cuMemAlloc(&b, 24 * MIB)); /* not in what is reserved */
    CHECK(b == reserved - ROOM);
    OK(cuMemAddressFree(reserved, 40 * MIB));
}

SIM_TEST(small_allocations_share_two_mib)
{
    CUdeviceptr a, b;
    begin();
    OK(cuMemAlloc(&a, 512));
    OK(cuMemAlloc(&b, 512));
    CHECK(b == a + 512);
}

/* ---- the host's memory ---- */

static size_t resident(void)
{
    size_t pages, own;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%zu %zu", &pages, &own) == 2);
    fclose(file);
    return own * 4096;
}

SIM_TEST(large_memory_takes_none_of_the_hosts)
{
    CUdeviceptr a, b;
    void *pinned;
    begin();
    size_t before = resident();
    OK(cuMemAlloc(&a, 40 * GIB));
    OK(cuMemAlloc(&b, 40 * GIB));
    OK(cuMemHostAlloc(&pinned, 64 * GIB, 0));
    OK(cuMemsetD8(a, 0, 40 * GIB));
    OK(cuMemsetD32(a, 0x3f800000, 10 * GIB));
    OK(cuMemcpyDtoD(b, a, 40 * GIB));
    OK(cuMemcpyDtoH(pinned, b, 40 * GIB));
    OK(cuMemcpyHtoD(a, pinned, 40 * GIB));
    CHECK(used() == 518 * MIB + 80 * GIB);
    CHECK(resident() - before < 16 * MIB);
}

SIM_TEST(small_copies_are_kept_and_larger_ones_read_as_zeros)
{
    static char host[4 * MIB], back[4 * MIB];
    CUdeviceptr a;
    begin();
    OK(cuMemAlloc(&a, 16 * MIB));
    memset(host, 5, sizeof host);
    OK(cuMemcpyHtoD(a, host, MIB)); /* kept */
    OK(cuMemcpyDtoH(back, a, MIB));
    CHECK(memcmp(host, back, MIB) == 0);
    memset(back, 9, sizeof back);
    OK(cuMemcpyDtoH(back + 1, a, 3 * MIB)); /* not kept: zeros, to the byte */
    CHECK(back[0] == 9 && back[1] == 0 && back[MIB] == 0 && back[3 * MIB] == 0 && back[3 * MIB + 1] == 9);
    OK(cuMemcpyHtoD(a + 8, host, 2 * MIB));
    OK(cuMemcpyDtoH(back, a, 16));
    CHECK(back[0] == 5 && back[7] == 5 && back[8] == 0);
}

SIM_TEST(many_handles_need_no_descriptors_and_can_be_exported)
{
    struct rlimit few = {64, 64};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base;
    CUmemGenericAllocationHandle handle, first = 0, again;
    int fd, value = 11, read = 0;
    begin();
    setrlimit(RLIMIT_NOFILE, &few);
    OK(cuMemAddressReserve(&base, 120 * GIB, 0, 0, 0));
    for (size_t i = 0; i < 60 * 512; i++) {
        OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
        OK(cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, handle, 0));
        first = first ? first : handle;
    }
    OK(cuMemSetAccess(base, 60 * GIB, &access, 1));
    OK(cuMemcpyHtoD(base + 64, &value, sizeof value));
    OK(cuMemExportToShareableHandle(&fd, first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(pread(fd, &read, sizeof read, 64) == sizeof read && read == 11);
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CHECK(again == first);
    value = 12;
    OK(cuMemcpyHtoD(base + 64, &value, sizeof value));
    CHECK(pread(fd, &read, sizeof read, 64) == sizeof read && read == 12);
    OK(cuMemUnmap(base, 60 * GIB));
}

/* ---- single numbers that are read ---- */

static void *told_of;

static void on_read(void *to, size_t size)
{
    CHECK(size == 8);
    told_of = to;
}

SIM_TEST(a_number_that_is_read_is_told_by_the_call_that_reads_it)
{
    CUdeviceptr a;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    uint64_t one = 0, plane = 0, captured = 0;
    begin();
    simcuda_on_read(on_read);
    OK(cuMemAlloc(&a, 16 * MIB));
    OK(cuMemcpyDtoH(&one, a, sizeof one));
    CHECK(told_of == &one);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .dstHost = &plane};
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.WidthInBytes = sizeof plane;
    copy.Height = 1;
    OK(cuMemcpy2D(&copy));
    CHECK(told_of == &plane);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyDtoHAsync(&captured, a, sizeof captured, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(told_of == &plane);
    OK(cuGraphLaunch(exec, stream));
    CHECK(told_of == &captured);
    told_of = NULL;
    OK(cuMemcpyDtoD(a + 4 * MIB, a, 8));
    OK(cuMemcpyHtoD(a, &one, sizeof one));
    CHECK(told_of == NULL);
}

/* ---- what is not simulated ---- */

static char facts[] = "/tmp/simcuda-facts-XXXXXX";

static void body_missing(void)
{
    CUresult (*create)(unsigned, void *, void *, void *);
    close(2);
    begin();
    OK(cuGetProcAddress("cuLinkCreate", (void **)&create, 13000, 0, NULL));
    CHECK(create != NULL);
    create(0, NULL, NULL, NULL);
}

TEST(what_is_not_simulated_is_found_and_ends_the_run_when_called)
{
    char line[128] = "";
    int fd = mkstemp(facts);
    int status = child_status(body_missing, "VRAMSCOPE_DRY_FACTS", facts);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    assert_string_equal(line, "missing\tlibcuda.so.1\tcuLinkCreate_v2\n");
    close(fd);
    unlink(facts);
}

int main(void)
{
    setenv("SIMCUDA_DRY", "1", 1);
    unsetenv("CUDA_VISIBLE_DEVICES"); /* of the machine that the tests run on */
    return run_all_tests(NULL, NULL);
}
