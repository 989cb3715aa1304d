/*
 * tables.c - the append-only tables beside the ring: rows, strings, and the index that interns them.
 *
 * A row is taken by adding to the table's counter, filled, and published by a release store of one word of it
 * that is never 0 in a full row (published_word; of a string its length + 1).  A reader that sees that word
 * sees the row.
 */
#include "format.h"

#include <stdio.h>

#include "core/hot.h"

#define STRING_MAX 4095u

struct string_row {
    _Atomic uint32_t published; /* length + 1 */
    char text[];
};

size_t vs_journal_row_bytes(enum vs_section section)
{
    static const size_t bytes[VS_SECTIONS] = {
        [VS_SEC_RING] = sizeof(struct vs_event),
        [VS_SEC_STRINGS] = 8,
        [VS_SEC_THREADS] = sizeof(struct vs_thread_row),
        [VS_SEC_CONTEXTS] = sizeof(struct vs_context_row),
        [VS_SEC_DEVICES] = sizeof(struct vs_device_row),
        [VS_SEC_MODULES] = sizeof(struct vs_module_row),
        [VS_SEC_FRAMES] = sizeof(struct vs_frame_row),
        [VS_SEC_STACKS] = sizeof(struct vs_stack_row),
        [VS_SEC_TENSORS] = 8,
        [VS_SEC_ACCESSES] = sizeof(struct vs_access_row),
        [VS_SEC_PAGES] = VS_PAGE,
    };
    return bytes[section];
}

/* ---- rows ---- */

/* Takes COUNT consecutive units of a table; 0 where it is full.  The counter never passes the capacity, so
 * it cannot wrap however often a full table is tried.  Relaxed: the counter only hands out numbers, and the
 * published word publishes the data. */
static uint64_t take(struct vs_journal *j, enum vs_section s, uint64_t count)
{
    _Atomic uint64_t *next = &j->header->rows[s];
    uint64_t id = atomic_load_explicit(next, memory_order_relaxed);
    do {
        if (id + count > j->capacity[s]) {
            atomic_fetch_add_explicit(&j->header->table_full, 1, memory_order_relaxed);
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(next, &id, id + count, memory_order_relaxed,
                                                    memory_order_relaxed));
    return id;
}

/* The published word of a fixed-size row. */
static _Atomic uint32_t *published_word(const struct vs_journal *j, enum vs_section s, uint64_t id)
{
    static const unsigned char at[VS_SECTIONS] = {
        [VS_SEC_THREADS] = offsetof(struct vs_thread_row, tid),
        [VS_SEC_CONTEXTS] = offsetof(struct vs_context_row, reserved),
        [VS_SEC_DEVICES] = offsetof(struct vs_device_row, reserved),
        [VS_SEC_MODULES] = offsetof(struct vs_module_row, reserved),
        [VS_SEC_FRAMES] = offsetof(struct vs_frame_row, kind),
        [VS_SEC_STACKS] = offsetof(struct vs_stack_row, frame),
    };
    return (_Atomic uint32_t *)(j->section[s] + id * vs_journal_row_bytes(s) + at[s]);
}

/* Not memcpy: in a program with ThreadSanitizer its writes are intercepted, but the release store after
 * them, in our uninstrumented code, is not.  Every reader would be reported as a race, which changes the
 * program's exit status. */
static void put_bytes(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}

/* Writes ROW as a new row, with PUBLISHED in its published word last; its id or 0. */
static uint32_t add_row(struct vs_journal *j, enum vs_section s, const void *row, uint32_t published)
{
    uint64_t id = take(j, s, 1);
    if (id == 0)
        return 0;
    size_t bytes = vs_journal_row_bytes(s);
    unsigned char *to = j->section[s] + id * bytes;
    _Atomic uint32_t *word = published_word(j, s, id);
    size_t at = (size_t)((unsigned char *)word - to);
    put_bytes(to, row, at);
    put_bytes(to + at + sizeof *word, (const unsigned char *)row + at + sizeof *word,
              bytes - at - sizeof *word);
    atomic_store_explicit(word, published, memory_order_release);
    return (uint32_t)id;
}

static const void *get_row(const struct vs_journal *j, enum vs_section s, uint32_t id)
{
    if (id == 0 || id >= j->capacity[s])
        return NULL;
    if (atomic_load_explicit(published_word(j, s, id), memory_order_acquire) == 0)
        return NULL;
    return j->section[s] + id * vs_journal_row_bytes(s);
}

/* ---- interning ---- */

struct key { /* what is looked for: its hash, and how to recognise and to make it */
    uint64_t hash;
    enum vs_section section;
    const void *row;
    size_t length;
    const int64_t *sizes; /* of a tensor: `length` */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 29) ^ b) * 0x94d049bb133111ebu;
    return h ^ (h >> 32);
}

static uint64_t hash_bytes(const char *text, size_t length)
{
    uint64_t h = length, word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        h = mix(h, word);
    }
    word = 0;
    memcpy(&word, text, length);
    return mix(h, word);
}

static bool same_string(const struct vs_journal *j, uint32_t id, const struct key *k)
{
    size_t length;
    const char *text = vs_journal_get_string(j, id, &length);
    return text && length == k->length && memcmp(text, k->row, length) == 0;
}

static uint64_t tensor_units(uint32_t dims)
{
    return (sizeof(struct vs_tensor_row) + (dims == VS_TENSOR_NO_SHAPE ? 0 : dims * sizeof(int64_t))) / 8;
}

/* The index is the owner's, who made the row: what it says of its own length is true. */
static inline bool same_tensor(const struct vs_journal *j, uint32_t id, const struct key *k)
{
    const struct vs_tensor_row *row = vs_journal_row(j, VS_SEC_TENSORS, 8, id), *wanted = k->row;
    const int64_t *size = (const int64_t *)(row + 1);
    if (row->what != wanted->what || row->request != wanted->request)
        return false;
    uint64_t different = 0;
    for (uint64_t i = 0; i < k->length; i++)
        different |= (uint64_t)(size[i] ^ k->sizes[i]);
    return different == 0;
}

/* Whether row ID is what KEY describes.  An id in the index is always of a published row. */
static bool same(const struct vs_journal *j, uint32_t id, const struct key *k)
{
    if (k->section == VS_SEC_STRINGS)
        return same_string(j, id, k);
    if (k->section == VS_SEC_TENSORS)
        return same_tensor(j, id, k);
    const void *row = get_row(j, k->section, id);
    switch (k->section) {
    case VS_SEC_CONTEXTS:
        return ((const struct vs_context_row *)row)->handle ==
               ((const struct vs_context_row *)k->row)->handle;
    case VS_SEC_DEVICES:
        return ((const struct vs_device_row *)row)->ordinal ==
               ((const struct vs_device_row *)k->row)->ordinal;
    case VS_SEC_FRAMES:
        return memcmp(row, k->row, sizeof(struct vs_frame_row)) == 0;
    default:
        return memcmp(row, k->row, sizeof(struct vs_stack_row)) == 0;
    }
}

static uint32_t make_string(struct vs_journal *j, const struct key *k)
{
    uint64_t id = take(j, VS_SEC_STRINGS, (sizeof(struct string_row) + k->length + 1 + 7) / 8);
    if (id == 0)
        return 0;
    struct string_row *row = vs_journal_row(j, VS_SEC_STRINGS, 8, id);
    put_bytes(row->text, k->row, k->length); /* the file began as zeros: the text ends in one */
    atomic_store_explicit(&row->published, (uint32_t)k->length + 1, memory_order_release);
    return (uint32_t)id;
}

/* Takes COUNT units of the tensors' table; 0 where it is full.  The first row with a shape that does not fit
 * closes what is before the last eighth, so that the counter says it. */
static uint64_t take_tensor(struct vs_journal *j, uint64_t count, bool shape)
{
    _Atomic uint64_t *next = &j->header->rows[VS_SEC_TENSORS];
    uint64_t capacity = j->capacity[VS_SEC_TENSORS], shapes = vs_journal_shape_units(capacity);
    uint64_t id = atomic_load_explicit(next, memory_order_relaxed), to;
    do {
        to = id + count;
        if (to > (shape ? shapes : capacity)) {
            if (!shape || id >= shapes)
                return 0;
            to = shapes;
        }
    } while (
        !atomic_compare_exchange_weak_explicit(next, &id, to, memory_order_relaxed, memory_order_relaxed));
    return to == id + count ? id : 0;
}

static uint32_t make_tensor(struct vs_journal *j, const struct key *k)
{
    const struct vs_tensor_row *row = k->row;
    uint64_t units = tensor_units(vs_tensor_dims_of(row)), id = take_tensor(j, units, k->length != 0);
    if (id == 0)
        return 0;
    unsigned char *to = vs_journal_row(j, VS_SEC_TENSORS, 8, id);
    put_bytes(to + sizeof row->what, (const unsigned char *)row + sizeof row->what,
              sizeof *row - sizeof row->what);
    put_bytes(to + sizeof *row, k->sizes, k->length * sizeof *k->sizes);
    atomic_store_explicit((_Atomic uint32_t *)to, row->what, memory_order_release);
    return (uint32_t)id;
}

static uint32_t make(struct vs_journal *j, const struct key *k)
{
    if (k->section == VS_SEC_STRINGS)
        return make_string(j, k);
    if (k->section == VS_SEC_TENSORS)
        return make_tensor(j, k);
    uint32_t word = k->section == VS_SEC_STACKS   ? ((const struct vs_stack_row *)k->row)->frame
                    : k->section == VS_SEC_FRAMES ? ((const struct vs_frame_row *)k->row)->kind
                                                  : 1;
    return add_row(j, k->section, k->row, word);
}

/* Looks the key up in an open-addressing index of row ids, in private memory.  A thread that does not find it
 * makes a row and puts its id into the first empty place by compare-and-swap.  If another thread did so
 * before with the same key, its id is returned and the row is wasted: readers may see it, nothing refers to
 * it.  Nothing is ever removed, so a probe that ends at an empty place has seen all there is.
 *
 * Orders: the index holds ids of published rows; the release half of the swap, paired with the acquire
 * loads, makes the whole row visible to any thread that finds its id. */
static __attribute__((noinline)) uint32_t intern(struct vs_journal *j, const struct key *k)
{
    struct vs_index *index = &j->index[k->section];
    uint32_t mine = 0;
    if (index->id == NULL)
        return 0; /* opened for reading */
    for (uint32_t probe = 0; probe <= index->mask; probe++) {
        _Atomic uint32_t *place = &index->id[(k->hash + probe) & index->mask];
        uint32_t found = atomic_load_explicit(place, memory_order_acquire);
        if (found == 0) {
            if (mine == 0 && (mine = make(j, k)) == 0)
                return 0;
            if (atomic_compare_exchange_strong_explicit(place, &found, mine, memory_order_acq_rel,
                                                        memory_order_acquire))
                return mine;
        }
        if (same(j, found, k))
            return found;
    }
    return mine; /* not reached: an index has twice the places of its table */
}

uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    if (length > STRING_MAX)
        length = STRING_MAX;
    struct key k = {hash_bytes(text, length), VS_SEC_STRINGS, text, length, NULL};
    return intern(j, &k);
}

uint8_t vs_journal_context(struct vs_journal *j, uint64_t handle, int32_t device)
{
    struct vs_context_row row = {.handle = handle, .device = device};
    struct key k = {mix(handle, 0), VS_SEC_CONTEXTS, &row, 0, NULL};
    uint32_t id = intern(j, &k);
    return id ? (uint8_t)id : VS_CONTEXT_UNKNOWN;
}

void vs_journal_device(struct vs_journal *j, const struct vs_device_row *row)
{
    struct key k = {mix((uint64_t)row->ordinal, 0), VS_SEC_DEVICES, row, 0, NULL};
    intern(j, &k);
}

uint32_t vs_journal_frame(struct vs_journal *j, uint64_t address, uint32_t module)
{
    struct vs_frame_row row = {.address = address, .module = module, .kind = VS_FRAME_ADDRESS};
    struct key k = {mix(address, module), VS_SEC_FRAMES, &row, 0, NULL};
    return intern(j, &k);
}

uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line)
{
    struct vs_frame_row row = {.function = function, .file = file, .line = line, .kind = kind};
    struct key k = {mix((uint64_t)function << 32 | file, (uint64_t)kind << 32 | line), VS_SEC_FRAMES, &row, 0,
                    NULL};
    return function && (file || kind >= VS_FRAME_NODE) ? intern(j, &k) : 0;
}

uint32_t vs_journal_stack(struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    struct vs_stack_row row = {parent, frame};
    struct key k = {mix(parent, frame), VS_SEC_STACKS, &row, 0, NULL};
    return frame ? intern(j, &k) : 0;
}

/* Every block asks for one of these: a product of 128 bits folds each word in. */
static inline uint64_t fold_in(uint64_t hash, uint64_t word)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ word) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Nearly every tensor is there, at the first place. */
static inline uint32_t find_tensor(const struct vs_journal *j, uint64_t hash, uint32_t what, uint64_t request,
                                   const int64_t *sizes, uint32_t dims)
{
    const struct vs_index *index = &j->index[VS_SEC_TENSORS];
    /* Acquire: as in intern(). */
    uint32_t found =
        index->id ? atomic_load_explicit(&index->id[hash & index->mask], memory_order_acquire) : 0;
    const struct vs_tensor_row *row = vs_journal_row(j, VS_SEC_TENSORS, 8, found);
    if (unlikely(found == 0) || unlikely(row->what != what) || unlikely(row->request != request))
        return 0;
    for (uint32_t i = 0; i < dims; i++)
        if (unlikely(((const int64_t *)(row + 1))[i] != sizes[i]))
            return 0;
    return found;
}

static inline uint32_t intern_tensor(struct vs_journal *j, uint32_t what, uint64_t request,
                                     const int64_t *sizes)
{
    struct vs_tensor_row row = {.what = what, .request = request};
    uint32_t dims = vs_tensor_dims_of(&row);
    uint64_t hash = fold_in(what, request + 0x94d049bb133111ebu);
    if (dims == VS_TENSOR_NO_SHAPE)
        dims = 0;
    for (size_t i = 0; i < dims; i++)
        hash = fold_in(hash, (uint64_t)sizes[i] + 0xbf58476d1ce4e5b9u);
    uint32_t found = find_tensor(j, hash, what, request, sizes, dims);
    if (likely(found != 0))
        return found;
    struct key k = {hash, VS_SEC_TENSORS, &row, dims, sizes};
    return intern(j, &k);
}

/* The table is full: bytes and element type take less, and repeat more. */
static __attribute__((noinline, cold)) uint32_t without_shape(struct vs_journal *j, uint32_t what,
                                                              uint64_t request)
{
    struct vs_tensor_row row = {.what = what};
    uint32_t less =
        vs_tensor_what(vs_tensor_kind_of(&row), (uint8_t)vs_tensor_type_of(&row), VS_TENSOR_NO_SHAPE);
    return less == what ? 0 : intern_tensor(j, less, request, NULL);
}

VS_HOT_CODE uint32_t vs_journal_tensor(struct vs_journal *j, uint32_t what, uint64_t request,
                                       const int64_t *sizes)
{
    uint32_t id = intern_tensor(j, what, request, sizes);
    return __builtin_expect(id != 0, 1) ? id : without_shape(j, what, request);
}

/* ---- tables without a key ---- */

uint16_t vs_journal_thread(struct vs_journal *j, uint32_t tid, uint32_t flags, const char *name)
{
    struct vs_thread_row row = {.tid = tid, .flags = flags};
    snprintf(row.name, sizeof row.name, "%s", name ? name : "");
    uint32_t id = tid ? add_row(j, VS_SEC_THREADS, &row, tid) : 0;
    return id ? (uint16_t)id : VS_THREAD_UNKNOWN;
}

uint32_t vs_journal_module(struct vs_journal *j, const struct vs_module_row *row)
{
    return add_row(j, VS_SEC_MODULES, row, 1);
}

uint32_t vs_journal_next_range(struct vs_journal *j)
{
    return atomic_fetch_add_explicit(&j->header->next_range, 1, memory_order_relaxed) + 1;
}

void vs_journal_untracked(struct vs_journal *j, uint64_t n)
{
    atomic_fetch_add_explicit(&j->header->untracked, n, memory_order_relaxed); /* a counter alone */
}

void vs_journal_lost_range(struct vs_journal *j)
{
    atomic_fetch_add_explicit(&j->header->lost_ranges, 1, memory_order_relaxed); /* a counter alone */
}

void vs_journal_lost_birth(struct vs_journal *j)
{
    atomic_fetch_add_explicit(&j->header->lost_births, 1, memory_order_relaxed); /* a counter alone */
}

/* ---- facts ---- */

void vs_journal_set_fact(struct vs_journal *j, const char *key, const char *value)
{
    uint32_t key_id = vs_journal_string(j, key, strlen(key));
    uint32_t value_id = vs_journal_string(j, value, strlen(value));
    if (key_id == 0 || value_id == 0)
        return;
    for (unsigned i = 0; i < VS_FACTS; i++) {
        struct vs_fact *f = &j->header->fact[i];
        uint32_t there = 0;
        /* Release: the strings behind the ids come first. */
        if (atomic_compare_exchange_strong_explicit(&f->key, &there, key_id, memory_order_acq_rel,
                                                    memory_order_acquire) ||
            there == key_id) {
            atomic_store_explicit(&f->value, value_id, memory_order_release);
            return;
        }
    }
}

const char *vs_journal_fact(const struct vs_journal *j, const char *key)
{
    for (unsigned i = 0; i < VS_FACTS; i++) {
        struct vs_fact *f = &j->header->fact[i];
        const char *name =
            vs_journal_get_string(j, atomic_load_explicit(&f->key, memory_order_acquire), NULL);
        if (name && strcmp(name, key) == 0)
            return vs_journal_get_string(j, atomic_load_explicit(&f->value, memory_order_acquire), NULL);
    }
    return NULL;
}

/* ---- reading ---- */

const char *vs_journal_get_string(const struct vs_journal *j, uint32_t id, size_t *length)
{
    if (id == 0 || id >= j->capacity[VS_SEC_STRINGS])
        return NULL;
    struct string_row *row = vs_journal_row(j, VS_SEC_STRINGS, 8, id);
    uint32_t published = atomic_load_explicit(&row->published, memory_order_acquire);
    uint64_t room = (j->capacity[VS_SEC_STRINGS] - id) * 8 - sizeof *row;
    if (published == 0 || published > STRING_MAX + 1 || published > room || row->text[published - 1] != 0)
        return NULL;
    if (length)
        *length = published - 1;
    return row->text;
}

#define GET(name, SECTION)                                                                                   \
    const struct vs_##name##_row *vs_journal_get_##name(const struct vs_journal *j, uint32_t id)             \
    {                                                                                                        \
        return get_row(j, VS_SEC_##SECTION, id);                                                             \
    }
GET(thread, THREADS)
GET(context, CONTEXTS)
GET(device, DEVICES)
GET(module, MODULES)
GET(frame, FRAMES)
GET(stack, STACKS)

bool vs_journal_get_tensor(const struct vs_journal *j, uint32_t id, struct vs_tensor *out)
{
    uint64_t capacity = j->capacity[VS_SEC_TENSORS];
    if (id == 0 || id >= capacity || capacity - id < sizeof out->row / 8)
        return false;
    const unsigned char *at = vs_journal_row(j, VS_SEC_TENSORS, 8, id);
    uint32_t what = atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire);
    uint32_t dims = what >> 16 & 255;
    if (what == 0 || (dims != VS_TENSOR_NO_SHAPE && dims > VS_TENSOR_DIMS_MAX) ||
        capacity - id < tensor_units(dims))
        return false;
    memcpy(out, at, tensor_units(dims) * 8);
    out->row.what = what;
    return true;
}
