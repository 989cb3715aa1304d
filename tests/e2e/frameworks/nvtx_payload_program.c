/*
 * nvtx_payload_program.c - ranges that begin or end with a payload, as NCCL's do.  Prints what NVTX
 * answers.
 */
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "framework/nvtx_abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(NVTX_EXTENSION_PAYLOAD, NVTX_EXT_PAYLOAD_MODULEID);
SAME(NVTX_VERSION_3, NVTX_VERSION);
#ifndef OTHER_VERSION
_Static_assert(NVTX_EXT_PAYLOAD_COMPATID >= NVTX_PAYLOADS_FIRST &&
                   NVTX_EXT_PAYLOAD_COMPATID <= NVTX_PAYLOADS_LAST,
               "a known version");
#endif
SAME(PAYLOAD_MARK, NVTX3EXT_CBID_nvtxMarkPayload);
SAME(PAYLOAD_PUSH, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(PAYLOAD_POP, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME(PAYLOAD_START, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME(PAYLOAD_END, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME(sizeof(struct nvtx_segment), sizeof(nvtxExtModuleSegment_t));
SAME(offsetof(struct nvtx_segment, functions), offsetof(nvtxExtModuleSegment_t, functionSlots));
SAME(sizeof(struct nvtx_extension), sizeof(nvtxExtModuleInfo_t));
SAME(offsetof(struct nvtx_extension, module), offsetof(nvtxExtModuleInfo_t, moduleId));
SAME(offsetof(struct nvtx_extension, compatible), offsetof(nvtxExtModuleInfo_t, compatId));
SAME(offsetof(struct nvtx_extension, segments), offsetof(nvtxExtModuleInfo_t, segments));
SAME(offsetof(struct nvtx_extension, get_function), offsetof(nvtxExtModuleInfo_t, getExportFunction));

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    uint64_t rank = 3;
    nvtxPayloadData_t payload = {NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, sizeof(rank), &rank};

    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "ncclCommInitRankConfig";
    printf("enabled %d\n", nvtxDomainIsEnabled(domain));
    printf("outer %d", nvtxDomainRangePushEx(domain, &a));
    printf(" inner %d", nvtxRangePushPayload(domain, &payload, 1));
    printf(" inner %d", nvtxDomainRangePop(domain));
    printf(" outer %d", nvtxRangePopPayload(domain, &payload, 1));
    printf(" none %d\n", nvtxRangePopPayload(domain, NULL, 0));
    nvtxMarkPayload(NULL, &payload, 1);
    nvtxRangeId_t first = nvtxRangeStartPayload(domain, &payload, 1),
                  second = nvtxDomainRangeStartEx(domain, &a);
    printf("ids differ: %d\n", first && second && first != second);
    nvtxRangeEndPayload(domain, second, &payload, 1);
    nvtxDomainRangeEnd(domain, first);
    nvtxDomainRangePushEx(domain, &a);
    nvtxDomainRangePop(domain);
    return 0;
}
