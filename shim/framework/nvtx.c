/*
 * nvtx.c - the functions that a program's NVTX calls.
 *
 * This file only translates NVTX's calls; ranges.c decides which phase a range names.
 *
 * A push or pop returns the range's depth in its domain (0 = outermost), or NVTX_NOT_TRACKED if nothing is
 * recorded, or a pop finds no range.  What is done in a domain whose handle was not given out here is not
 * recorded.
 */
#include "nvtx.h"

#include <errno.h>
#include <stdbool.h>

static bool is_foreign(const struct nvtx_handle *domain)
{
    return domain && !nvtx_is_ours(domain);
}

/* ---- in any domain, by attributes; NULL is the default domain ---- */

void nvtx_domain_mark(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;
    int saved = errno;

    if (is_foreign(domain))
        return;
    nvtx_from_attributes(&words, a);
    vs_range_mark(words.text, words.length, domain ? domain->name : NULL, VS_SOURCE_NVTX);
    errno = saved;
}

uint64_t nvtx_domain_start(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    int saved = errno;

    if (is_foreign(domain))
        return 0;
    struct nvtx_words words;
    struct vs_range_names names = nvtx_range_names(&words, a, domain);
    uint32_t id = vs_range_start(&names, VS_SOURCE_NVTX);

    errno = saved;
    return id;
}

void nvtx_domain_end(struct nvtx_handle *domain, uint64_t id)
{
    int saved = errno;

    if (id <= UINT32_MAX)
        vs_range_end((uint32_t)id);
    errno = saved;
}

int nvtx_domain_push(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    int saved = errno, depth;

    if (is_foreign(domain))
        return NVTX_NOT_TRACKED;
    struct nvtx_words words;
    struct vs_range_names names = nvtx_range_names(&words, a, domain);
    uint32_t id = vs_range_open(&names, VS_SOURCE_NVTX, &depth);

    errno = saved;
    return id ? depth : NVTX_NOT_TRACKED;
}

int nvtx_domain_pop(struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return NVTX_NOT_TRACKED;
    int saved = errno, depth = vs_range_close(domain ? domain->name : NULL, VS_SOURCE_NVTX);

    errno = saved;
    return depth < 0 ? NVTX_NOT_TRACKED : depth;
}

/* ---- the default domain ---- */

static void mark_ex(const struct nvtx_attributes *a)
{
    nvtx_domain_mark(NULL, a);
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
    return nvtx_domain_start(NULL, a);
}

static void end(uint64_t id)
{
    nvtx_domain_end(NULL, id);
}

static int push_ex(const struct nvtx_attributes *a)
{
    return nvtx_domain_push(NULL, a);
}

static int pop(void)
{
    return nvtx_domain_pop(NULL);
}

/* ---- by text ---- */

#define ATTRIBUTES(type, of)                                                                                 \
    &(struct nvtx_attributes)                                                                                \
    {                                                                                                        \
        .version = 3, .size = sizeof(struct nvtx_attributes), .text_type = (type), .text = { of }            \
    }
#define NARROW(text) ATTRIBUTES(NVTX_TEXT_ASCII, .ascii = (text))
#define WIDE(text)   ATTRIBUTES(NVTX_TEXT_WIDE, .wide = (text))

#define X(low, type, OF)                                                                                     \
    static void mark_##low(type *text)                                                                       \
    {                                                                                                        \
        nvtx_domain_mark(NULL, OF(text));                                                                    \
    }                                                                                                        \
                                                                                                             \
    static uint64_t start_##low(type *text)                                                                  \
    {                                                                                                        \
        return nvtx_domain_start(NULL, OF(text));                                                            \
    }                                                                                                        \
                                                                                                             \
    static int push_##low(type *text)                                                                        \
    {                                                                                                        \
        return nvtx_domain_push(NULL, OF(text));                                                             \
    }                                                                                                        \
                                                                                                             \
    static void *domain_##low(type *text)                                                                    \
    {                                                                                                        \
        return nvtx_new_handle(OF(text));                                                                    \
    }                                                                                                        \
                                                                                                             \
    static void *string_##low(struct nvtx_handle *domain, type *text)                                        \
    {                                                                                                        \
        return nvtx_new_handle(OF(text));                                                                    \
    }
X(a, const char, NARROW)
X(w, const wchar_t, WIDE)
#undef X

/* ---- the tables; what has no entry does nothing ---- */

#define F(f) (nvtx_function *)(void *)(f)
nvtx_function *const nvtx_core[CORE_SLOTS] = {
    [CORE_MARK_EX] = F(mark_ex),   [CORE_MARK_A] = F(mark_a),   [CORE_MARK_W] = F(mark_w),
    [CORE_START_EX] = F(start_ex), [CORE_START_A] = F(start_a), [CORE_START_W] = F(start_w),
    [CORE_END] = F(end),           [CORE_PUSH_EX] = F(push_ex), [CORE_PUSH_A] = F(push_a),
    [CORE_PUSH_W] = F(push_w),     [CORE_POP] = F(pop),
};
nvtx_function *const nvtx_core2[CORE2_SLOTS] = {
    [CORE2_MARK_EX] = F(nvtx_domain_mark), [CORE2_START_EX] = F(nvtx_domain_start),
    [CORE2_END] = F(nvtx_domain_end),      [CORE2_PUSH_EX] = F(nvtx_domain_push),
    [CORE2_POP] = F(nvtx_domain_pop),      [CORE2_STRING_A] = F(string_a),
    [CORE2_STRING_W] = F(string_w),        [CORE2_DOMAIN_A] = F(domain_a),
    [CORE2_DOMAIN_W] = F(domain_w),
};
