/*
 * nvtx.c - the functions that a program's NVTX calls.
 *
 * Each function records, and then calls the tool whose place we took, if there is one, with that tool's own
 * handles.  This file only translates NVTX's calls; ranges.c decides which phase a range names.
 *
 * A push or pop returns the range's depth in its domain (0 = outermost).  If nothing is recorded, or a pop
 * finds no range, it returns NVTX_NOT_TRACKED or, if there is another tool, that tool's answer.
 *
 * A handle that was not given out here is another tool's: it is passed on as it is, and what is done in such
 * a domain is not recorded.
 */
#include "nvtx.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define CHAIN(table, slot, type) ((type)(void *)nvtx_chain_##table[slot])

typedef int push_text_fn(const void *text);
typedef uint64_t start_text_fn(const void *text);
typedef void text_fn(const void *text);
typedef int pop_fn(void);
typedef void end_fn(uint64_t id);
typedef int domain_push_fn(void *domain, const void *attributes);
typedef uint64_t domain_start_fn(void *domain, const void *attributes);
typedef void domain_mark_fn(void *domain, const void *attributes);
typedef int domain_pop_fn(void *domain);
typedef void domain_end_fn(void *domain, uint64_t id);
typedef void *register_fn(void *domain, const void *text);
typedef void *create_fn(const void *text);
typedef void destroy_fn(void *handle);
typedef void category_fn(void *domain, uint32_t category, const void *text);

static void *theirs(struct nvtx_handle *h)
{
    return nvtx_is_ours(h) ? h->theirs : h;
}

static bool is_foreign(const struct nvtx_handle *domain)
{
    return domain && !nvtx_is_ours(domain);
}

/* ---- translating structures that may have one of our string handles, for the other tool ---- */

struct translated {
    union {
        char bytes[256];
        void *align;
    };
};

/* Copies the SIZE bytes of FROM and replaces our handle by the other tool's; returns FROM itself if there is
 * nothing to replace. */
static const void *translate(struct translated *to, const void *from, size_t size, size_t type_at,
                             size_t text_at)
{
    int32_t type;
    void *handle;

    if (!from || size < text_at + sizeof(void *))
        return from;
    memcpy(&type, (const char *)from + type_at, sizeof(type));
    if (type != NVTX_TEXT_REGISTERED)
        return from;
    memcpy(&handle, (const char *)from + text_at, sizeof(handle));
    handle = theirs(handle);
    if (size > sizeof(to->bytes))
        size = sizeof(to->bytes);
    memcpy(to->bytes, from, size);
    memcpy(to->bytes + text_at, &handle, sizeof(handle));
    ((struct nvtx_sync *)(void *)to->bytes)->size = (uint16_t)size; /* all begin with version and size */
    return to->bytes;
}

#define TRANSLATE(to, from, type)                                                                            \
    translate(to, from, from ? from->size : 0, offsetof(type, text_type), offsetof(type, text))

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

static int pop(const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return NVTX_NOT_TRACKED;
    int saved = errno, depth = vs_range_close(domain ? domain->name : NULL, VS_SOURCE_NVTX);

    errno = saved;
    return depth < 0 ? NVTX_NOT_TRACKED : depth;
}

static void mark(const struct nvtx_words *words, const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return;
    int saved = errno;

    vs_range_mark(words->text, words->length, domain ? domain->name : NULL, VS_SOURCE_NVTX);
    errno = saved;
}

/* Start and end: the program has our id of a range, the other tool its own.  A small table maps the one to
 * the other.  A range for which the table has no room is never ended for the other tool. */
enum { STARTED = 4096, PROBES = 16 };
static struct {
    uint64_t ours; /* atomic; 0 free, UINT64_MAX being filled */
    uint64_t theirs;
} started[STARTED];

static void remember(uint32_t ours, uint64_t their)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        uint64_t unused = 0;

        if (!__atomic_compare_exchange_n(&started[(ours + i) % STARTED].ours, &unused, UINT64_MAX, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        started[(ours + i) % STARTED].theirs = their;
        /* Release: a thread that sees our id sees the other tool's id beside it. */
        __atomic_store_n(&started[(ours + i) % STARTED].ours, ours, __ATOMIC_RELEASE);
        return;
    }
}

static uint64_t forget(uint64_t ours)
{
    for (uint32_t i = 0; ours && i < PROBES; i++) {
        uint64_t expected = ours, at = (ours + i) % STARTED;

        if (__atomic_load_n(&started[at].ours, __ATOMIC_ACQUIRE) != ours)
            continue;
        uint64_t their = started[at].theirs;

        if (__atomic_compare_exchange_n(&started[at].ours, &expected, 0, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return their;
    }
    return 0;
}

static uint32_t start(const struct nvtx_words *words, const struct nvtx_handle *domain)
{
    if (is_foreign(domain))
        return 0;
    struct vs_range_names names = nvtx_range_names(words, domain);
    int saved = errno;
    uint32_t id = vs_range_start(&names, VS_SOURCE_NVTX);

    errno = saved;
    return id;
}

/* The id that the program gets: ours, or the other tool's if we record nothing. */
static uint64_t give_out(uint32_t ours, uint64_t their)
{
    if (!ours)
        return their;
    remember(ours, their);
    return ours;
}

/* Ends the range and returns the other tool's id for it; 0: it has none. */
static uint64_t end(uint64_t id)
{
    int saved = errno;
    bool ours = id <= UINT32_MAX && vs_range_end((uint32_t)id);

    errno = saved;
    return ours ? forget(id) : id;
}

/* ---- the default domain, by text ---- */

#define NARROW_AND_WIDE(X)                                                                                   \
    X(a, A, const char, nvtx_from_ascii)                                                                     \
    X(w, W, const wchar_t, nvtx_from_wide)

#define X(low, CAP, type, convert)                                                                           \
    static void mark_##low(type *text)                                                                       \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
        text_fn *next = CHAIN(core, CORE_MARK_##CAP, text_fn *);                                             \
                                                                                                             \
        convert(&words, text);                                                                               \
        mark(&words, NULL);                                                                                  \
        if (next)                                                                                            \
            next(text);                                                                                      \
    }                                                                                                        \
                                                                                                             \
    static uint64_t start_##low(type *text)                                                                  \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
        start_text_fn *next = CHAIN(core, CORE_START_##CAP, start_text_fn *);                                \
                                                                                                             \
        convert(&words, text);                                                                               \
        uint32_t id = start(&words, NULL);                                                                   \
        return next ? give_out(id, next(text)) : id;                                                         \
    }                                                                                                        \
                                                                                                             \
    static int push_##low(type *text)                                                                        \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
        push_text_fn *next = CHAIN(core, CORE_PUSH_##CAP, push_text_fn *);                                   \
                                                                                                             \
        convert(&words, text);                                                                               \
        int depth = push(&words, NULL), their = next ? next(text) : depth;                                   \
        return depth == NVTX_NOT_TRACKED ? their : depth;                                                    \
    }                                                                                                        \
                                                                                                             \
    static void *string_##low(struct nvtx_handle *domain, type *text)                                        \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
        register_fn *next = CHAIN(core2, CORE2_STRING_##CAP, register_fn *);                                 \
                                                                                                             \
        convert(&words, text);                                                                               \
        return nvtx_new_handle(&words, next ? next(theirs(domain), text) : NULL);                            \
    }                                                                                                        \
                                                                                                             \
    static void *domain_##low(type *text)                                                                    \
    {                                                                                                        \
        struct nvtx_words words;                                                                             \
        create_fn *next = CHAIN(core2, CORE2_DOMAIN_##CAP, create_fn *);                                     \
                                                                                                             \
        convert(&words, text);                                                                               \
        return nvtx_new_handle(&words, next ? next(text) : NULL);                                            \
    }                                                                                                        \
                                                                                                             \
    static void domain_category_##low(struct nvtx_handle *domain, uint32_t category, type *text)             \
    {                                                                                                        \
        category_fn *next = CHAIN(core2, CORE2_CATEGORY_##CAP, category_fn *);                               \
                                                                                                             \
        if (next)                                                                                            \
            next(theirs(domain), category, text);                                                            \
    }
NARROW_AND_WIDE(X)
#undef X

/* ---- by attributes, in any domain ---- */

static void mark_in(const struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    mark(&words, domain);
}

static uint32_t start_in(const struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    return start(&words, domain);
}

static int push_in(const struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;

    nvtx_from_attributes(&words, a);
    return push(&words, domain);
}

static void mark_ex(const struct nvtx_attributes *a)
{
    text_fn *next = CHAIN(core, CORE_MARK_EX, text_fn *);
    struct translated t;

    mark_in(NULL, a);
    if (next)
        next(TRANSLATE(&t, a, struct nvtx_attributes));
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
    start_text_fn *next = CHAIN(core, CORE_START_EX, start_text_fn *);
    struct translated t;
    uint32_t id = start_in(NULL, a);

    return next ? give_out(id, next(TRANSLATE(&t, a, struct nvtx_attributes))) : id;
}

static int push_ex(const struct nvtx_attributes *a)
{
    push_text_fn *next = CHAIN(core, CORE_PUSH_EX, push_text_fn *);
    struct translated t;
    int depth = push_in(NULL, a);
    int their = next ? next(TRANSLATE(&t, a, struct nvtx_attributes)) : depth;

    return depth == NVTX_NOT_TRACKED ? their : depth;
}

static int pop_default(void)
{
    pop_fn *next = CHAIN(core, CORE_POP, pop_fn *);
    int depth = pop(NULL), their = next ? next() : depth;

    return depth == NVTX_NOT_TRACKED ? their : depth;
}

static void end_default(uint64_t id)
{
    end_fn *next = CHAIN(core, CORE_END, end_fn *);
    uint64_t their = end(id);

    if (next && their)
        next(their);
}

void nvtx_domain_mark(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    domain_mark_fn *next = CHAIN(core2, CORE2_MARK_EX, domain_mark_fn *);
    struct translated t;

    mark_in(domain, a);
    if (next)
        next(theirs(domain), TRANSLATE(&t, a, struct nvtx_attributes));
}

uint64_t nvtx_domain_start(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    domain_start_fn *next = CHAIN(core2, CORE2_START_EX, domain_start_fn *);
    struct translated t;
    uint32_t id = start_in(domain, a);

    return next ? give_out(id, next(theirs(domain), TRANSLATE(&t, a, struct nvtx_attributes))) : id;
}

void nvtx_domain_end(struct nvtx_handle *domain, uint64_t id)
{
    domain_end_fn *next = CHAIN(core2, CORE2_END, domain_end_fn *);
    uint64_t their = end(id);

    if (next && their)
        next(theirs(domain), their);
}

int nvtx_domain_push(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    domain_push_fn *next = CHAIN(core2, CORE2_PUSH_EX, domain_push_fn *);
    struct translated t;
    int depth = push_in(domain, a);
    int their = next ? next(theirs(domain), TRANSLATE(&t, a, struct nvtx_attributes)) : depth;

    return depth == NVTX_NOT_TRACKED ? their : depth;
}

int nvtx_domain_pop(struct nvtx_handle *domain)
{
    domain_pop_fn *next = CHAIN(core2, CORE2_POP, domain_pop_fn *);
    int depth = pop(domain), their = next ? next(theirs(domain)) : depth;

    return depth == NVTX_NOT_TRACKED ? their : depth;
}

/* ---- calls that only concern the other tool ---- */

static void *resource_create(struct nvtx_handle *domain, const struct nvtx_resource *resource)
{
    register_fn *next = CHAIN(core2, CORE2_RESOURCE_CREATE, register_fn *);
    struct translated t;

    return next ? next(theirs(domain), TRANSLATE(&t, resource, struct nvtx_resource)) : NULL;
}

static void domain_destroy(struct nvtx_handle *domain)
{
    destroy_fn *next = CHAIN(core2, CORE2_DESTROY, destroy_fn *);

    if (next && theirs(domain))
        next(theirs(domain));
}

static void *sync_create(struct nvtx_handle *domain, const struct nvtx_sync *sync)
{
    register_fn *next = CHAIN(sync, SYNC_CREATE, register_fn *);
    struct translated t;

    return next ? next(theirs(domain), TRANSLATE(&t, sync, struct nvtx_sync)) : NULL;
}

/* ---- the tables; entries that we leave empty get the other tool's function, if there is one ---- */

#define F(f) (nvtx_function *)(void *)(f)
nvtx_function *const nvtx_ours_core[CORE_SLOTS] = {
    [CORE_MARK_EX] = F(mark_ex),   [CORE_MARK_A] = F(mark_a),   [CORE_MARK_W] = F(mark_w),
    [CORE_START_EX] = F(start_ex), [CORE_START_A] = F(start_a), [CORE_START_W] = F(start_w),
    [CORE_END] = F(end_default),   [CORE_PUSH_EX] = F(push_ex), [CORE_PUSH_A] = F(push_a),
    [CORE_PUSH_W] = F(push_w),     [CORE_POP] = F(pop_default),
};
nvtx_function *const nvtx_ours_core2[CORE2_SLOTS] = {
    [CORE2_MARK_EX] = F(nvtx_domain_mark),
    [CORE2_START_EX] = F(nvtx_domain_start),
    [CORE2_END] = F(nvtx_domain_end),
    [CORE2_PUSH_EX] = F(nvtx_domain_push),
    [CORE2_POP] = F(nvtx_domain_pop),
    [CORE2_RESOURCE_CREATE] = F(resource_create),
    [CORE2_CATEGORY_A] = F(domain_category_a),
    [CORE2_CATEGORY_W] = F(domain_category_w),
    [CORE2_STRING_A] = F(string_a),
    [CORE2_STRING_W] = F(string_w),
    [CORE2_DOMAIN_A] = F(domain_a),
    [CORE2_DOMAIN_W] = F(domain_w),
    [CORE2_DESTROY] = F(domain_destroy),
};
nvtx_function *const nvtx_ours_sync[SYNC_SLOTS] = {[SYNC_CREATE] = F(sync_create)};
