/*
 * nvtx.c - the NVTX injection library: ranges, marks and domains of programs that use NVTX.
 *
 * A push or pop returns the range's depth in its domain (0 = outermost), or NVTX_NOT_TRACKED if nothing is
 * recorded, or a pop finds no range.  What is done in a domain whose handle was not given out here is not
 * recorded.  Not seen: the old libnvToolsExt.so (NVTX 1 and 2, torch before 2.4), which has no injection of
 * this kind.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "nvtx_abi.h"
#include "ranges.h"
#include "core/contracts.h"
#include "core/fork.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table *get);
EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension *module);

/* ---- handles of domains and registered strings ---- */

/* A domain or a registered string; its address is the handle that the program holds.  Never freed: programs
 * use handles after they have destroyed the domain, which is harmless without a tool and must stay
 * harmless. */
struct nvtx_handle {
    struct vs_name *name;
    const char *text; /* a copy, if the table of names was full */
    size_t length;
};

/* Handles lie on pages of their own, so that an address tells whether it is one. */
enum { PAGES_HANDLES = 2048, PAGES_MOST = 512 };
static void *_Atomic pages[PAGES_MOST];
static _Atomic uint32_t given; /* handles, and those for which there was no room */

static struct nvtx_handle *take(void)
{
    uint32_t n = vs_take(&given, 1, PAGES_HANDLES * PAGES_MOST);
    struct nvtx_handle *there =
        n < PAGES_HANDLES * PAGES_MOST
            ? vs_map_once(&pages[n / PAGES_HANDLES], PAGES_HANDLES * sizeof *there, false)
            : NULL;
    return there ? &there[n % PAGES_HANDLES] : NULL;
}

/* Whether H is a handle that a program was given here.  False for NULL, and for anything else, which must not
 * be looked into. */
static bool is_ours(const struct nvtx_handle *h)
{
    /* relaxed: who has a handle has it from a call that counted it */
    uint32_t used = atomic_load_explicit(&given, memory_order_relaxed);
    for (uint32_t i = 0; h && i * PAGES_HANDLES < used; i++) {
        uintptr_t there = (uintptr_t)atomic_load_explicit(&pages[i], memory_order_acquire);
        uintptr_t at = (uintptr_t)h - there;
        if (there && at < PAGES_HANDLES * sizeof *h)
            return at % sizeof *h == 0;
    }
    if (h)
        vs_contract_broken(VS_CONTRACT_NVTX_TABLES, "a program uses a handle that it was not given here");
    return false;
}

/* ---- texts: ASCII, wide or registered ---- */

enum { NVTX_TEXT_BYTES = 1024 };
struct nvtx_words { /* a text, converted to UTF-8 */
    const char *text;
    size_t length;
    const struct nvtx_handle *handle; /* NULL: the text is not registered */
    char wide[NVTX_TEXT_BYTES];
};

/* torch.autograd.profiler.emit_nvtx appends a running number to each operator's name, so that every range
 * would have a new name and the tables would be full within minutes.  The length of the operator's name
 * alone. */
static size_t without_numbers(const char *text, size_t length)
{
    static const char *const tails[] = {", seq = ", ", op_id = "};
    const char *at = text, *end = text + length;

    while ((at = memchr(at, ',', (size_t)(end - at)))) {
        for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
            size_t n = strlen(tails[i]);

            if ((size_t)(end - at) > n && !memcmp(at, tails[i], n))
                return (size_t)(at - text);
        }
        at++;
    }
    return length;
}

static void from_ascii(struct nvtx_words *out, const char *text)
{
    out->handle = NULL;
    out->text = text ? text : "";
    out->length = without_numbers(out->text, strlen(out->text));
}

/* Writes C as UTF-8 and returns the bytes used; an invalid character becomes U+FFFD. */
static size_t put_utf8(char *out, uint32_t c)
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

static void from_wide(struct nvtx_words *out, const wchar_t *text)
{
    size_t n = 0;

    for (; text && *text && n + 4 < sizeof(out->wide); text++)
        n += put_utf8(out->wide + n, (uint32_t)*text);
    out->wide[n] = 0;
    out->text = out->wide;
    out->length = n;
    out->handle = NULL;
}

static void from_registered(struct nvtx_words *out, const struct nvtx_handle *handle)
{
    from_ascii(out, NULL);
    if (!is_ours(handle))
        return;
    out->handle = handle;
    out->text = handle->name ? handle->name->text : handle->text ? handle->text : "";
    out->length = handle->length;
}

/* The text of an event, "" if it has none; reads only as much of the attributes as their size field covers.
 */
static void from_attributes(struct nvtx_words *out, const struct nvtx_attributes *a)
{
    int32_t type = 0;

    if (a && a->size >= offsetof(struct nvtx_attributes, text) + sizeof(a->text))
        type = a->text_type;
    if (type == NVTX_TEXT_WIDE)
        from_wide(out, a->text.wide);
    else if (type == NVTX_TEXT_REGISTERED)
        from_registered(out, a->text.registered);
    else
        from_ascii(out, type == NVTX_TEXT_ASCII ? a->text.ascii : NULL);
}

/* Its names, which point into WORDS. */
static struct vs_range_names range_names(struct nvtx_words *words, const struct nvtx_attributes *a,
                                         const struct nvtx_handle *domain)
{
    from_attributes(words, a);
    struct vs_range_names names = {.text = words->text, .length = words->length};

    names.name = words->handle && words->handle->name ? words->handle->name
                                                      : vs_name_intern(words->text, words->length);
    names.domain = domain ? domain->name : NULL;
    return names;
}

static struct nvtx_handle *new_handle(const struct nvtx_attributes *a)
{
    struct nvtx_handle *h = take();
    struct nvtx_words words;

    if (!h)
        return NULL;
    from_attributes(&words, a);
    h->name = vs_name_intern(words.text, words.length);
    if (!h->name)
        h->text = strndup(words.text, words.length);
    h->length = h->name ? h->name->length : h->text ? words.length : 0;
    if (!h->name && !h->text)
        h->text = "";
    return h;
}

static bool is_foreign(const struct nvtx_handle *domain)
{
    return domain && !is_ours(domain);
}

/* ---- in any domain, by attributes; NULL is the default domain ---- */

static void domain_mark(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    struct nvtx_words words;
    int saved = errno;

    if (is_foreign(domain))
        return;
    from_attributes(&words, a);
    vs_range_mark(words.text, words.length, domain ? domain->name : NULL, VS_SOURCE_NVTX);
    errno = saved;
}

static uint64_t domain_start(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    int saved = errno;

    if (is_foreign(domain))
        return 0;
    struct nvtx_words words;
    struct vs_range_names names = range_names(&words, a, domain);
    uint32_t id = vs_range_start(&names, VS_SOURCE_NVTX);

    errno = saved;
    return id;
}

static void domain_end(struct nvtx_handle *domain, uint64_t id)
{
    int saved = errno;

    if (id <= UINT32_MAX)
        vs_range_end((uint32_t)id);
    errno = saved;
}

static int domain_push(struct nvtx_handle *domain, const struct nvtx_attributes *a)
{
    int saved = errno, depth;

    if (is_foreign(domain))
        return NVTX_NOT_TRACKED;
    struct nvtx_words words;
    struct vs_range_names names = range_names(&words, a, domain);
    uint32_t id = vs_range_open(&names, VS_SOURCE_NVTX, &depth);

    errno = saved;
    return id ? depth : NVTX_NOT_TRACKED;
}

static int domain_pop(struct nvtx_handle *domain)
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
    domain_mark(NULL, a);
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
    return domain_start(NULL, a);
}

static void end(uint64_t id)
{
    domain_end(NULL, id);
}

static int push_ex(const struct nvtx_attributes *a)
{
    return domain_push(NULL, a);
}

static int pop(void)
{
    return domain_pop(NULL);
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
        domain_mark(NULL, OF(text));                                                                         \
    }                                                                                                        \
                                                                                                             \
    static uint64_t start_##low(type *text)                                                                  \
    {                                                                                                        \
        return domain_start(NULL, OF(text));                                                                 \
    }                                                                                                        \
                                                                                                             \
    static int push_##low(type *text)                                                                        \
    {                                                                                                        \
        return domain_push(NULL, OF(text));                                                                  \
    }                                                                                                        \
                                                                                                             \
    static void *domain_##low(type *text)                                                                    \
    {                                                                                                        \
        return new_handle(OF(text));                                                                         \
    }                                                                                                        \
                                                                                                             \
    static void *string_##low(struct nvtx_handle *domain, type *text)                                        \
    {                                                                                                        \
        return new_handle(OF(text));                                                                         \
    }
X(a, const char, NARROW)
X(w, const wchar_t, WIDE)
#undef X

/* ---- the tables; what has no entry does nothing ---- */

#define F(f) (nvtx_function *)(void *)(f)
static nvtx_function *const core[CORE_SLOTS] = {
    [CORE_MARK_EX] = F(mark_ex),   [CORE_MARK_A] = F(mark_a),   [CORE_MARK_W] = F(mark_w),
    [CORE_START_EX] = F(start_ex), [CORE_START_A] = F(start_a), [CORE_START_W] = F(start_w),
    [CORE_END] = F(end),           [CORE_PUSH_EX] = F(push_ex), [CORE_PUSH_A] = F(push_a),
    [CORE_PUSH_W] = F(push_w),     [CORE_POP] = F(pop),
};
static nvtx_function *const core2[CORE2_SLOTS] = {
    [CORE2_MARK_EX] = F(domain_mark), [CORE2_START_EX] = F(domain_start), [CORE2_END] = F(domain_end),
    [CORE2_PUSH_EX] = F(domain_push), [CORE2_POP] = F(domain_pop),        [CORE2_STRING_A] = F(string_a),
    [CORE2_STRING_W] = F(string_w),   [CORE2_DOMAIN_A] = F(domain_a),     [CORE2_DOMAIN_W] = F(domain_w),
};

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

/* NVTX is header-only: every shared object that uses it has a copy of its own.  At its first NVTX call the
 * copy loads the library that NVTX_INJECTION64_PATH names and passes a function that gives its tables, so
 * this is called once per shared object.  `vramscope run` names us there unless the user has a tool already.
 */
int InitializeInjectionNvtx2(nvtx_get_export_table *get)
{
    const struct nvtx_callbacks *callbacks = get ? get(NVTX_TABLE_CALLBACKS) : NULL;

    if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
        return vs_contract_broken(VS_CONTRACT_NVTX_TABLES, "a program's NVTX has no tables of version 3");
    fill(callbacks, NVTX_CORE, core, CORE_SLOTS);
    fill(callbacks, NVTX_CORE2, core2, CORE2_SLOTS);
    vs_contract_proven(VS_CONTRACT_NVTX_TABLES, "a program's tables are of version 3");
    return 1;
}

/*
 * ---- payloads ----
 *
 * Ranges may also begin or end with a structured payload, by an extension whose functions do nothing unless a
 * tool takes them.  A range may be pushed by a plain call and popped by one of these (NCCL's
 * ncclCommInitRankConfig is), so a tool that leaves them alone has it open for ever: all that its thread
 * allocates later would lie in it.  What the payload says is not read: a range that begins with one has no
 * name here.
 */

static const struct nvtx_attributes unnamed = {.version = 3, .size = sizeof(unnamed)};

static void mark_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    domain_mark(domain, &unnamed);
}

static int push_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return domain_push(domain, &unnamed);
}

static int pop_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return domain_pop(domain);
}

static uint64_t start_payload(struct nvtx_handle *domain, const void *payload, size_t count)
{
    return domain_start(domain, &unnamed);
}

static void end_payload(struct nvtx_handle *domain, uint64_t id, const void *payload, size_t count)
{
    domain_end(domain, id);
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
