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

/* ---- recording ---- */

static int push(const struct nvtx_words *words, const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return NVTX_NOT_TRACKED;
    struct vs_range_names names = nvtx_range_names(words, domain);
    int saved = errno, depth;
    uint32_t id = vs_range_open(&names, VS_SOURCE_NVTX, &depth);

    errno = saved;
    return id ? depth : NVTX_NOT_TRACKED;
}

static void mark(const struct nvtx_words *words, const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return;
    int saved = errno;

    vs_range_mark(words->text, words->length, domain ? domain->name : NULL, VS_SOURCE_NVTX);
    errno = saved;
}

static uint64_t start(const struct nvtx_words *words, const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return 0;
    struct vs_range_names names = nvtx_range_names(words, domain);
    int saved = errno;
    uint32_t id = vs_range_start(&names, VS_SOURCE_NVTX);

    errno = saved;
    return id;
}

/* ---- in any domain, by attributes; NULL is the default domain ---- */

void nvtx_domain_mark(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    mark(&words, domain);
}

uint64_t nvtx_domain_start(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    return start(&words, domain);
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
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    return push(&words, domain);
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

#define NARROW_AND_WIDE(X)                                                                                   \
    X(a, const char, nvtx_from_ascii)                                                                        \
    X(w, const wchar_t, nvtx_from_wide)

#define X(low, type, convert)                                                                                \
    static void mark_##low(type *text)                                                                       \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
                                                                                                             \
        convert(&words, text);                                                                               \
        mark(&words, NULL);                                                                                  \
    }                                                                                                        \
                                                                                                             \
    static uint64_t start_##low(type *text)                                                                  \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
                                                                                                             \
        convert(&words, text);                                                                               \
        return start(&words, NULL);                                                                          \
    }                                                                                                        \
                                                                                                             \
    static int push_##low(type *text)                                                                        \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
                                                                                                             \
        convert(&words, text);                                                                               \
        return push(&words, NULL);                                                                           \
    }                                                                                                        \
                                                                                                             \
    static void *domain_##low(type *text)                                                                    \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
                                                                                                             \
        convert(&words, text);                                                                               \
        return nvtx_new_handle(&words);                                                                      \
    }                                                                                                        \
                                                                                                             \
    static void *string_##low(struct nvtx_handle *domain, type *text)                                        \
    {                                                                                                        \
        return domain_##low(text);                                                                           \
    }
NARROW_AND_WIDE(X)
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
