/*
 * nvtx_names.c - NVTX's texts: ASCII, wide or registered, and the handles for domains and strings.
 */
#define _GNU_SOURCE
#include "nvtx.h"

#include <stdatomic.h>
#include <string.h>

#include "core/contracts.h"
#include "core/fork.h"

/* Handles lie on pages of their own, so that an address tells whether it is one. */
enum { PAGES_HANDLES = 2048, PAGES_MOST = 512 };
static void *_Atomic pages[PAGES_MOST];
static _Atomic uint32_t given; /* handles, and those for which there was no room */

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
    if (!nvtx_is_ours(handle))
        return;
    out->handle = handle;
    out->text = handle->name ? handle->name->text : handle->text ? handle->text : "";
    out->length = handle->length;
}

void nvtx_from_attributes(struct nvtx_words *out, const struct nvtx_attributes *a)
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

struct vs_range_names nvtx_range_names(struct nvtx_words *words, const struct nvtx_attributes *a,
                                       const struct nvtx_handle *domain)
{
    nvtx_from_attributes(words, a);
    struct vs_range_names names = {.text = words->text, .length = words->length};

    names.name = words->handle && words->handle->name ? words->handle->name
                                                      : vs_name_intern(words->text, words->length);
    names.domain = domain ? domain->name : NULL;
    return names;
}

/* ---- handles ---- */

static struct nvtx_handle *take(void)
{
    uint32_t n = vs_take(&given, 1, PAGES_HANDLES * PAGES_MOST);
    struct nvtx_handle *there =
        n < PAGES_HANDLES * PAGES_MOST
            ? vs_map_once(&pages[n / PAGES_HANDLES], PAGES_HANDLES * sizeof *there, false)
            : NULL;
    return there ? &there[n % PAGES_HANDLES] : NULL;
}

bool nvtx_is_ours(const struct nvtx_handle *h)
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

struct nvtx_handle *nvtx_new_handle(const struct nvtx_attributes *a)
{
    struct nvtx_handle *h = take();
    struct nvtx_words words;

    if (!h)
        return NULL;
    nvtx_from_attributes(&words, a);
    h->name = vs_name_intern(words.text, words.length);
    if (!h->name)
        h->text = strndup(words.text, words.length);
    h->length = h->name ? h->name->length : h->text ? words.length : 0;
    if (!h->name && !h->text)
        h->text = "";
    return h;
}
