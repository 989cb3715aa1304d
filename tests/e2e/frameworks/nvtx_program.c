/*
 * nvtx_program.c LIBRARY [foreign] - speaks NVTX in all its ways by NVIDIA's own headers; LIBRARY has a
 * second copy of NVTX.  Prints what NVTX answers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtSync.h>

#include "framework/nvtx_abi.h"

/* What the shim believes of the binary interface is what the headers say. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(CORE_POP, NVTX_CBID_CORE_RangePop);
SAME(CORE_MARK_EX, NVTX_CBID_CORE_MarkEx);
SAME(CORE_START_W, NVTX_CBID_CORE_RangeStartW);
SAME(CORE2_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(CORE2_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(CORE2_DOMAIN_W, NVTX_CBID_CORE2_DomainCreateW);
SAME(NVTX_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_NOT_TRACKED, NVTX_NO_PUSH_POP_TRACKING);
SAME(sizeof(struct nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME(offsetof(struct nvtx_attributes, text_type), offsetof(nvtxEventAttributes_t, messageType));
SAME(offsetof(struct nvtx_attributes, text), offsetof(nvtxEventAttributes_t, message));
SAME(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME(NVTX_TEXT_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);

static nvtxEventAttributes_t attributes(int type)
{
    nvtxEventAttributes_t a = {0};

    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = type;
    return a;
}

static void default_domain(void)
{
    nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII), w = attributes(NVTX_MESSAGE_TYPE_UNICODE);

    a.message.ascii = "by attributes";
    w.message.unicode = L"gr\u00fc\u00df \u20ac \U0001f600";
    printf("push %d", nvtxRangePushA("forward"));
    printf(" %d", nvtxRangePushW(L"wide"));
    printf(" %d", nvtxRangePushEx(&a));
    printf(" %d\n", nvtxRangePushEx(&w));
    for (int i = 0; i < 4; i++)
        printf("pop %d\n", nvtxRangePop());
    printf("nothing is open: %d\n", nvtxRangePop());
    nvtxMarkA("a mark");
    nvtxMarkEx(&w);
}

static void sizes(void)
{
    nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII);

    a.message.ascii = (const char *)8; /* lies beyond what `size` covers */
    a.size = offsetof(nvtxEventAttributes_t, message);
    printf("short %d", nvtxRangePushEx(&a));
    printf(" %d\n", nvtxRangePop());
    printf("null %d", nvtxRangePushA(NULL));
    printf(" %d\n", nvtxRangePop());
}

static void domains(void)
{
    nvtxDomainHandle_t one = nvtxDomainCreateA("one"), two = nvtxDomainCreateW(L"two");
    nvtxStringHandle_t ascii = nvtxDomainRegisterStringA(one, "logits");
    nvtxStringHandle_t wide = nvtxDomainRegisterStringW(two, L"gr\u00fc\u00df");
    nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_REGISTERED);

    printf("handles differ: %d\n", one && two && ascii && wide && one != two && ascii != wide);
    a.message.registered = ascii;
    printf("one %d", nvtxDomainRangePushEx(one, &a));
    printf(" %d", nvtxDomainRangePushEx(one, &a));
    a.message.registered = wide;
    printf(" two %d", nvtxDomainRangePushEx(two, &a));
    printf(" one %d", nvtxDomainRangePop(one));
    printf(" %d", nvtxDomainRangePop(one));
    printf(" %d", nvtxDomainRangePop(one));
    printf(" two %d\n", nvtxDomainRangePop(two));
    nvtxDomainMarkEx(two, &a);
    nvtxDomainNameCategoryA(one, 3, "category");
    nvtxNameOsThreadA(1, "thread");
    nvtxSyncUserAttributes_t sync = {
        NVTX_VERSION, sizeof(sync), NVTX_MESSAGE_TYPE_REGISTERED, {.registered = ascii}};
    nvtxDomainSyncUserCreate(one, &sync);
    nvtxDomainDestroy(one);
    nvtxDomainDestroy(two);
}

static void *end_it(void *id)
{
    nvtxRangeEnd(*(nvtxRangeId_t *)id);
    return NULL;
}

static void across_threads(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("async");
    nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII);
    pthread_t thread;

    a.message.ascii = "in a domain";
    nvtxRangeId_t first = nvtxRangeStartA("started"), second = nvtxDomainRangeStartEx(domain, &a);

    printf("ids differ: %d\n", first && second && first != second);
    pthread_create(&thread, NULL, end_it, &first);
    pthread_join(thread, NULL);
    nvtxDomainRangeEnd(domain, second);
    nvtxRangeEnd(12345678);
}

static void second_copy(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*push)(void) = library ? (int (*)(void))dlsym(library, "library_push") : NULL;

    if (!push) {
        printf("%s\n", dlerror());
        return;
    }
    printf("library push %d", push());
    printf(" pop %d\n", nvtxRangePop());
}

static void emitted_by_torch(void)
{
    nvtxRangePushA("aten::mm, seq = 17, op_id = 9, sizes = [[2, 2], [2, 2]]");
    nvtxRangePop();
    nvtxRangePushA("a, b, op_id = 3");
    nvtxRangePop();
}

/* Neither a domain nor a string that it was given: no readable memory. */
static void foreign_handles(void)
{
    nvtxDomainHandle_t domain = (nvtxDomainHandle_t)(uintptr_t)0x5ca1ab1e1000;
    nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_REGISTERED);

    a.message.registered = (nvtxStringHandle_t)(uintptr_t)0x5ca1ab1e2000;
    printf("foreign string %d", nvtxRangePushEx(&a));
    printf(" %d", nvtxRangePop());
    printf(" domain %d", nvtxDomainRangePushEx(domain, &a));
    printf(" %d", nvtxDomainRangePop(domain));
    printf(" %d\n", nvtxDomainRangeStartEx(domain, &a) != 0);
    nvtxDomainMarkEx(domain, &a);
}

int main(int argc, char **argv)
{
    default_domain();
    sizes();
    domains();
    across_threads();
    second_copy(argv[1]);
    emitted_by_torch();
    if (argc > 2)
        foreign_handles();
    return 0;
}
