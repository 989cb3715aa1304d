/*
 * nvtx_tool.c - another NVTX tool, as a profiler brings one: gives out handles of its own, checks that it
 * gets them back, and prints every call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#undef NVTX_NO_IMPL
#include "framework/nvtx_abi.h"

static char domains[8], strings[8];
static int domain_count, string_count;

static void check(const char *base, const void *handle)
{
    if (handle && ((const char *)handle < base || (const char *)handle >= base + 8)) {
        printf("tool: a foreign handle\n");
        exit(3);
    }
}

static void show(const char *what, const void *domain, const nvtxEventAttributes_t *a)
{
    check(domains, domain);
    printf("tool: %s domain %d", what, domain ? (int)((const char *)domain - domains) : -1);
    if (a && a->size == sizeof *a && a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
        check(strings, a->message.registered);
        printf(" string %d", (int)((char *)a->message.registered - strings));
    }
    printf("\n");
}

static void mark_a(const char *text)
{
    printf("tool: mark %s\n", text);
}
static int push_a(const char *text)
{
    return printf("tool: push %s\n", text ? text : "(null)") * 0 + 7;
}
static int pop(void)
{
    return printf("tool: pop\n") * 0 + 7;
}
static uint64_t start_a(const char *text)
{
    return printf("tool: start %s\n", text) * 0 + 0x100000000ull;
}
static void end(uint64_t id)
{
    printf("tool: end %#llx\n", (unsigned long long)id);
}
static void domain_end(void *d, uint64_t id)
{
    check(domains, d);
    end(id);
}
static int push_ex(void *d, const nvtxEventAttributes_t *a)
{
    show("push", d, a);
    return 7;
}
static uint64_t start_ex(void *d, const nvtxEventAttributes_t *a)
{
    show("start", d, a);
    return 0x200000000ull;
}
static void mark_ex(void *d, const nvtxEventAttributes_t *a)
{
    show("mark", d, a);
}
static int domain_pop(void *d)
{
    show("pop", d, NULL);
    return 7;
}
static void *string_a(void *d, const char *s)
{
    printf("tool: string %s\n", s);
    check(domains, d);
    return &strings[string_count++];
}
static void *string_w(void *d, const wchar_t *s)
{
    printf("tool: wide string\n");
    check(domains, d);
    return &strings[string_count++];
}
static void *domain_a(const char *s)
{
    printf("tool: domain %s\n", s);
    return &domains[domain_count++];
}
static void *domain_w(const wchar_t *s)
{
    printf("tool: wide domain\n");
    return &domains[domain_count++];
}
static void destroy(void *d)
{
    show("destroy", d, NULL);
}
static void category(void *d, uint32_t c, const char *s)
{
    printf("tool: category %u %s\n", c, s);
    check(domains, d);
}
static void name_thread(uint32_t t, const char *s)
{
    printf("tool: thread %s\n", s);
}
static void *sync(void *d, const struct nvtx_sync *s)
{
    check(domains, d);
    check(strings, s->text.registered);
    printf("tool: sync\n");
    return NULL;
}

static void put(const struct nvtx_callbacks *c, int module, int slot, void *f)
{
    nvtx_function ***table;
    unsigned size;

    if (c->get_table(module, &table, &size) && (unsigned)slot < size)
        *table[slot] = (nvtx_function *)f;
}

int InitializeInjectionNvtx2(nvtx_get_export_table *get);
int InitializeInjectionNvtx2(nvtx_get_export_table *get)
{
    const struct nvtx_callbacks *c = get(NVTX_TABLE_CALLBACKS);

    setvbuf(stdout, NULL, _IOLBF, 0);
    put(c, NVTX_CORE, CORE_MARK_A, (void *)mark_a);
    put(c, NVTX_CORE, CORE_PUSH_A, (void *)push_a);
    put(c, NVTX_CORE, CORE_POP, (void *)pop);
    put(c, NVTX_CORE, CORE_START_A, (void *)start_a);
    put(c, NVTX_CORE, CORE_END, (void *)end);
    put(c, NVTX_CORE, CORE_THREAD_A, (void *)name_thread);
    put(c, NVTX_CORE2, CORE2_END, (void *)domain_end);
    put(c, NVTX_CORE2, CORE2_PUSH_EX, (void *)push_ex);
    put(c, NVTX_CORE2, CORE2_START_EX, (void *)start_ex);
    put(c, NVTX_CORE2, CORE2_MARK_EX, (void *)mark_ex);
    put(c, NVTX_CORE2, CORE2_POP, (void *)domain_pop);
    put(c, NVTX_CORE2, CORE2_STRING_A, (void *)string_a);
    put(c, NVTX_CORE2, CORE2_STRING_W, (void *)string_w);
    put(c, NVTX_CORE2, CORE2_DOMAIN_A, (void *)domain_a);
    put(c, NVTX_CORE2, CORE2_DOMAIN_W, (void *)domain_w);
    put(c, NVTX_CORE2, CORE2_DESTROY, (void *)destroy);
    put(c, NVTX_CORE2, CORE2_CATEGORY_A, (void *)category);
    put(c, NVTX_SYNC, SYNC_CREATE, (void *)sync);
    return 1;
}
