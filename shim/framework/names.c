/*
 * names.c - the process's table of names: open addressing; names and their text come from two static arrays
 * that only grow.
 *
 * A name is completed and then published by one compare-and-swap.  A thread that loses that race uses the
 * winner's and leaves its own copy unused.
 */
#include "names.h"

#include <stdbool.h>
#include <string.h>

#include "core/fork.h"
#include "record/record.h"

enum { MAX_NAMES = 8192, SLOTS = 2 * MAX_NAMES, TEXT_BYTES = 512 * 1024 };

static struct vs_name names[MAX_NAMES];
static struct vs_name *slots[SLOTS]; /* atomic */
static char text_bytes[TEXT_BYTES];
static _Atomic uint32_t names_used, text_used;

static const char *const phases[] = {"forward", "logits", "backward", "optimizer"};

/* Fewer than eight bytes as one word, without a loop: the halves may overlap. */
static inline uint64_t last_bytes(const char *text, size_t length)
{
    uint32_t low = 0, high = 0;

    if (length >= sizeof(low)) {
        memcpy(&low, text, sizeof(low));
        memcpy(&high, text + length - sizeof(high), sizeof(high));
    } else if (length > 0) {
        low = (unsigned char)text[0] | (uint32_t)(unsigned char)text[length / 2] << 8;
        high = (unsigned char)text[length - 1];
    }
    return (uint64_t)high << 32 | low;
}

/* Eight bytes at a time, so that hashing a long name costs a push no more than reading it. */
static uint32_t hash_text(const char *text, size_t length)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = length, word;

    for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        h = (h ^ word) * odd;
        h ^= h >> 29;
    }
    h = (h ^ last_bytes(text, length)) * odd;
    return (uint32_t)(h >> 32);
}

static bool equal_ignoring_case(const char *a, size_t length, const char *lower)
{
    for (size_t i = 0; i < length; i++) {
        char c = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] + 'a' - 'A') : a[i];

        if (c != lower[i]) /* also if LOWER ends first: its 0 is not in A */
            return false;
    }
    return lower[length] == 0;
}

/* The four names in any case. */
static struct vs_name *decide_phase(struct vs_name *n)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(*phases); i++)
        if (equal_ignoring_case(n->text, n->length, phases[i]))
            return strcmp(n->text, phases[i]) ? vs_name_intern(phases[i], n->length) : n;
    return NULL;
}

struct vs_name *vs_name_phase(struct vs_name *name)
{
    static struct vs_name none;
    /* Relaxed: all threads that decide come to the same answer, and a name's fields are written before
     * its pointer is published. */
    struct vs_name *phase = __atomic_load_n(&name->phase, __ATOMIC_RELAXED);

    if (!phase) {
        phase = decide_phase(name);
        __atomic_store_n(&name->phase, phase ? phase : &none, __ATOMIC_RELAXED);
    }
    return phase == &none ? NULL : phase;
}

static struct vs_name *new_name(const char *text, size_t length)
{
    uint32_t at = vs_take(&text_used, (uint32_t)length + 1, TEXT_BYTES), index;

    if (at == TEXT_BYTES || (index = vs_take(&names_used, 1, MAX_NAMES)) == MAX_NAMES)
        return NULL;
    struct vs_name *n = &names[index];

    memcpy(text_bytes + at, text, length); /* the byte behind is 0 from the start */
    n->text = text_bytes + at;
    n->length = (uint32_t)length;
    n->index = index + 1;
    return n;
}

static bool same(const struct vs_name *n, const char *text, size_t length)
{
    return n->length == length && !memcmp(n->text, text, length);
}

struct vs_name *vs_name_intern(const char *text, size_t length)
{
    if (!text)
        return NULL;
    if (length > VS_NAME_MAX)
        length = VS_NAME_MAX;
    struct vs_name *own = NULL;
    uint32_t at = hash_text(text, length);

    for (uint32_t tries = 0; tries < SLOTS; tries++, at++) {
        struct vs_name **slot = &slots[at % SLOTS];
        /* Acquire pairs with the release below: a thread that sees the pointer sees the complete name. */
        struct vs_name *n = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

        if (!n) {
            if (!own && !(own = new_name(text, length)))
                return NULL;
            if (__atomic_compare_exchange_n(slot, &n, own, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
                return own;
        }
        if (same(n, text, length))
            return n;
    }
    return NULL;
}

uint32_t vs_name_id(struct vs_name *name)
{
    /* Relaxed: the word holds the id together with the process that it is of, and guards no other memory. */
    uint64_t known = __atomic_load_n(&name->journal, __ATOMIC_RELAXED);
    uint32_t now = vs_fork_number();
    struct vs_journal *j;
    uint32_t id;

    if (known >> 32 == now)
        return (uint32_t)known;
    j = vs_record_journal();
    id = j ? vs_journal_string(j, name->text, name->length) : 0;
    if (id)
        __atomic_store_n(&name->journal, (uint64_t)now << 32 | id, __ATOMIC_RELAXED);
    return id;
}

void vs_names_init(void)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(*phases); i++)
        vs_name_intern(phases[i], strlen(phases[i]));
}
