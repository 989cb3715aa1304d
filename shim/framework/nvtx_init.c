/*
 * nvtx_init.c - becoming a program's NVTX tool.
 *
 * NVTX is header-only: every shared object that uses it has a copy of its own.  At its first NVTX call the
 * copy loads the library that NVTX_INJECTION64_PATH names and passes a function that gives its tables.  So
 * we are called, and fill tables, once per shared object.  `vramscope run` names us there unless the user
 * has a tool already.
 *
 * Ranges may also begin or end with a structured payload, by an extension whose functions do nothing unless a
 * tool takes them.  A range may be pushed by a plain call and popped by one of these (NCCL's
 * ncclCommInitRankConfig is), so a tool that leaves them alone has it open for ever: all that its thread
 * allocates later would lie in it.  What the payload says is not read: a range that begins with one has no
 * name here.
 *
 * Not seen: the old libnvToolsExt.so (NVTX 1 and 2, torch before 2.4), which has no injection of this kind.
 */
#include "nvtx.h"
#include "core/contracts.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table *get);
EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension *module);

/* ---- the program's tables ---- */

static void fill(const struct nvtx_callbacks *callbacks, int module, nvtx_function *const *ours, unsigned n)
{
    nvtx_function ***table = NULL;
    unsigned slots = 0;

    if (!callbacks->get_table(module, &table, &slots) || !table)
        return;
    for (unsigned i = 1; i < slots && i < n; i++)
        if (ours[i] && table[i])
            *table[i] = ours[i];
}

int InitializeInjectionNvtx2(nvtx_get_export_table *get)
{
    const struct nvtx_callbacks *callbacks = get ? get(NVTX_TABLE_CALLBACKS) : NULL;

    if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
        return vs_contract_broken(VS_CONTRACT_NVTX_TABLES, "a program's NVTX has no tables of version 3");
    fill(callbacks, NVTX_CORE, nvtx_core, CORE_SLOTS);
    fill(callbacks, NVTX_CORE2, nvtx_core2, CORE2_SLOTS);
    vs_contract_proven(VS_CONTRACT_NVTX_TABLES, "a program's tables are of version 3");
    return 1;
}

/* ---- payloads ---- */

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
