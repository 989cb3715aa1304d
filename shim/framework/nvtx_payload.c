/*
 * nvtx_payload.c - ranges that begin or end with a structured payload.
 *
 * NVTX has these in an extension, whose functions do nothing unless a tool takes them.  A range may be pushed
 * by a plain call and popped by one of these (NCCL's ncclCommInitRankConfig is), so a tool that leaves them
 * alone has it open for ever: all that its thread allocates later would lie in it.
 *
 * What the payload says is not read: a range that begins with one has no name here.  Another tool behind us
 * gets such a call without its payload, because its schemas were never passed on.
 */
#include "nvtx.h"

#include "core/contracts.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension *module);

static const struct nvtx_attributes unnamed = {.version = 3, .size = sizeof(unnamed)};

static void mark_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    nvtx_domain_mark(domain, &unnamed);
}

static int push_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return nvtx_domain_push(domain, &unnamed);
}

static int pop_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return nvtx_domain_pop(domain);
}

static uint64_t start_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return nvtx_domain_start(domain, &unnamed);
}

static void end_payload(struct nvtx_handle *domain, uint64_t id, const void *payload, size_t count)
{
    nvtx_domain_end(domain, id);
}

/* 0 is "not supported": NVTX turns the extension's functions into no-ops and keeps us loaded.  Slots that
 * stay empty, such as those of schemas, become no-ops too. */
int InitializeInjectionNvtxExtension(struct nvtx_extension *module)
{
    static const intptr_t ours[] = {
        [PAYLOAD_MARK] = (intptr_t)mark_payload, [PAYLOAD_PUSH] = (intptr_t)push_payload,
        [PAYLOAD_POP] = (intptr_t)pop_payload,   [PAYLOAD_START] = (intptr_t)start_payload,
        [PAYLOAD_END] = (intptr_t)end_payload,
    };

    if (!module || module->struct_size < offsetof(struct nvtx_extension, get_function) ||
        module->module != NVTX_EXTENSION_PAYLOAD)
        return 0;
    if (module->version != NVTX_VERSION_3 || module->compatible < NVTX_PAYLOADS_FIRST ||
        module->compatible > NVTX_PAYLOADS_LAST)
        return vs_contract_broken(VS_CONTRACT_NVTX_TABLES, "payloads are of version %u, 0x%04x",
                                  module->version, module->compatible);
    if (!module->segment_count || !module->segments || module->segments->slots <= PAYLOAD_END ||
        !module->segments->functions)
        return 0;
    for (unsigned i = PAYLOAD_MARK; i <= PAYLOAD_END; i++)
        module->segments->functions[i] = ours[i];
    return 1;
}
