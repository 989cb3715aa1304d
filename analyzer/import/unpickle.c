/* unpickle.c - see unpickle.h. */
#include "unpickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20)

struct chunk {
    struct chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

struct values { /* the stack, the memo */
    struct pickle_value *at;
    size_t n, room;
};

struct pickle {
    const unsigned char *bytes;
    size_t size, at;
    struct chunk *chunks;
    size_t taken, memory;
    struct values stack, memo;
    size_t *marks; /* heights of the stack */
    size_t mark_count, mark_room;
    char *why;
    size_t why_size;
};

static int fail(struct pickle *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct pickle *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(p->why, p->why_size, format, list);
    va_end(list);
    return -1;
}

static int truncated(struct pickle *p)
{
    return fail(p, "is truncated: its pickle goes on behind the last of %zu bytes; copy it again", p->size);
}

static int malformed(struct pickle *p, const char *what)
{
    return fail(p, "is no valid pickle: at byte %zu, %s", p->at, what);
}

/* ---- memory ---- */

static bool charge(struct pickle *p, size_t bytes)
{
    if (bytes > p->memory - p->taken) {
        fail(p, "takes more than %zu MiB to read: record fewer events, or stacks='python'", p->memory >> 20);
        return false;
    }
    p->taken += bytes;
    return true;
}

static void *take(struct pickle *p, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct chunk *c = p->chunks;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK / 4 ? bytes : CHUNK;
        if (!charge(p, size))
            return NULL;
        c = malloc(sizeof *c + size);
        if (!c) {
            fail(p, "can't be read: out of memory");
            return NULL;
        }
        *c = (struct chunk){.next = p->chunks, .size = size};
        p->chunks = c;
    }
    void *at = (char *)c->bytes + c->used;
    c->used += bytes;
    return at;
}

/* Makes room for one more in an array of SIZE-byte items that realloc moves. */
static bool widen(struct pickle *p, void *array, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t next = *room ? *room * 2 : 256;
    if (!charge(p, (next - *room) * size))
        return false;
    void *grown = realloc(*(void **)array, next * size);
    if (!grown) {
        fail(p, "can't be read: out of memory");
        return false;
    }
    *(void **)array = grown;
    *room = next;
    return true;
}

/* ---- the stack ---- */

static int push(struct pickle *p, struct pickle_value v)
{
    if (!widen(p, &p->stack.at, p->stack.n, &p->stack.room, sizeof v))
        return -1;
    p->stack.at[p->stack.n++] = v;
    return 0;
}

/* The height that opcodes may not go below: what the innermost mark stands on. */
static size_t floor_of(const struct pickle *p)
{
    return p->mark_count ? p->marks[p->mark_count - 1] : 0;
}

static bool has(const struct pickle *p, size_t n)
{
    return p->stack.n - floor_of(p) >= n;
}

static int mark(struct pickle *p)
{
    if (!widen(p, &p->marks, p->mark_count, &p->mark_room, sizeof *p->marks))
        return -1;
    p->marks[p->mark_count++] = p->stack.n;
    return 0;
}

/* The items above the innermost mark, which goes; they stay valid until the next push. */
static int to_mark(struct pickle *p, struct pickle_value **items, size_t *n)
{
    if (!p->mark_count)
        return malformed(p, "an opcode needs a mark and there is none");
    size_t height = p->marks[--p->mark_count];
    *items = p->stack.at + height;
    *n = p->stack.n - height;
    p->stack.n = height;
    return 0;
}

static struct pickle_value *top(struct pickle *p)
{
    return &p->stack.at[p->stack.n - 1];
}

/* ---- containers ---- */

static struct pickle_object *new_object(struct pickle *p)
{
    struct pickle_object *o = take(p, sizeof *o);
    if (o)
        *o = (struct pickle_object){0};
    return o;
}

static int push_container(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_object *o = new_object(p);
    return o ? push(p, (struct pickle_value){.kind = kind, .object = o}) : -1;
}

static int add(struct pickle *p, struct pickle_object *o, const struct pickle_value *items, size_t n)
{
    if (n > o->room - o->n) {
        size_t room = o->n + n > o->room * 2 ? o->n + n : o->room * 2;
        struct pickle_value *wider = take(p, room * sizeof *wider);
        if (!wider)
            return -1;
        if (o->n)
            memcpy(wider, o->at, o->n * sizeof *wider);
        o->at = wider;
        o->room = room;
    }
    if (n)
        memcpy(o->at + o->n, items, n * sizeof *items);
    o->n += n;
    return 0;
}

/* The items above the mark into the container below them. */
static int append_marked(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    if (to_mark(p, &items, &n))
        return -1;
    if (!has(p, 1) || top(p)->kind != kind || (kind == PICKLE_DICT && n % 2))
        return malformed(p, "items are put into what cannot hold them");
    return add(p, top(p)->object, items, n);
}

/* The N topmost items into the container below them. */
static int append_top(struct pickle *p, enum pickle_kind kind, size_t n)
{
    if (!has(p, n + 1) || p->stack.at[p->stack.n - n - 1].kind != kind)
        return malformed(p, "an item is put into what cannot hold it");
    p->stack.n -= n;
    return add(p, top(p)->object, top(p) + 1, n);
}

/* A container made of N items on the stack, in their place. */
static int collect(struct pickle *p, enum pickle_kind kind, const struct pickle_value *items, size_t n)
{
    struct pickle_object *o = new_object(p);
    if (!o || (kind == PICKLE_DICT && n % 2) || add(p, o, items, n))
        return o && kind == PICKLE_DICT && n % 2 ? malformed(p, "a dict has a key without a value") : -1;
    return push(p, (struct pickle_value){.kind = kind, .object = o});
}

static int collect_marked(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    return to_mark(p, &items, &n) ? -1 : collect(p, kind, items, n);
}

static int collect_top(struct pickle *p, size_t n)
{
    if (!has(p, n))
        return malformed(p, "a tuple has fewer items than its opcode says");
    p->stack.n -= n;
    return collect(p, PICKLE_LIST, p->stack.at + p->stack.n, n);
}

/* ---- operands ---- */

/* N bytes of the file, or NULL where it ends before. */
static const unsigned char *operand(struct pickle *p, uint64_t n)
{
    if (n > p->size - p->at) {
        truncated(p);
        return NULL;
    }
    const unsigned char *bytes = p->bytes + p->at;
    p->at += n;
    return bytes;
}

static bool read_number(struct pickle *p, unsigned bytes, uint64_t *out)
{
    const unsigned char *b = operand(p, bytes);
    *out = 0;
    for (unsigned i = 0; b && i < bytes; i++)
        *out |= (uint64_t)b[i] << 8 * i;
    return b != NULL;
}

static int push_int(struct pickle *p, int64_t n)
{
    return push(p, (struct pickle_value){.kind = PICKLE_INT, .number = n});
}

static int push_unsigned(struct pickle *p, unsigned bytes)
{
    uint64_t n;
    return read_number(p, bytes, &n) ? push_int(p, (int64_t)n) : -1;
}

/* A little-endian number in two's complement, whose length is in the LENGTH bytes before it. */
static int push_long(struct pickle *p, unsigned length)
{
    uint64_t n, value = 0;
    const unsigned char *b = read_number(p, length, &n) ? operand(p, n) : NULL;
    if (!b)
        return -1;
    if (n > 8)
        return push(p, (struct pickle_value){.kind = PICKLE_NONE});
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)b[i] << 8 * i;
    if (n && n < 8 && b[n - 1] & 0x80)
        value |= ~UINT64_C(0) << 8 * n;
    return push_int(p, (int64_t)value);
}

static int push_text(struct pickle *p, unsigned length)
{
    uint64_t n;
    const unsigned char *b = read_number(p, length, &n) ? operand(p, n) : NULL;
    if (!b)
        return -1;
    if (n > UINT32_MAX)
        return malformed(p, "a text is longer than 4 GiB");
    return push(p,
                (struct pickle_value){.kind = PICKLE_TEXT, .length = (uint32_t)n, .text = (const char *)b});
}

static int push_real(struct pickle *p)
{
    const unsigned char *b = operand(p, 8);
    uint64_t bits = 0;
    struct pickle_value v = {.kind = PICKLE_FLOAT};
    for (unsigned i = 0; b && i < 8; i++)
        bits = bits << 8 | b[i];
    memcpy(&v.real, &bits, sizeof v.real);
    return b ? push(p, v) : -1;
}

/* ---- the memo ---- */

/* Python numbers what it keeps from 0 (the oldest from 1), so no number is beyond the bytes read so far. */
static int remember(struct pickle *p, uint64_t index)
{
    if (!has(p, 1))
        return malformed(p, "nothing is there to be kept in the memo");
    if (index > p->at)
        return malformed(p, "a memo number is beyond what a pickle of this size can have");
    while (p->memo.n <= index) {
        if (!widen(p, &p->memo.at, p->memo.n, &p->memo.room, sizeof *p->memo.at))
            return -1;
        p->memo.at[p->memo.n++] = (struct pickle_value){.kind = PICKLE_NONE};
    }
    p->memo.at[index] = *top(p);
    return 0;
}

static int put(struct pickle *p, unsigned bytes)
{
    uint64_t index;
    return read_number(p, bytes, &index) ? remember(p, index) : -1;
}

static int get(struct pickle *p, unsigned bytes)
{
    uint64_t index;
    if (!read_number(p, bytes, &index))
        return -1;
    if (index >= p->memo.n)
        return malformed(p, "it refers to a memo number that was never set");
    return push(p, p->memo.at[index]);
}

/* ---- opcodes ---- */

/* What would look a name up or call it: the reason why this is not Python's own reader. */
static const char *forbidden(unsigned char op)
{
    switch (op) {
    case 'c':
    case 0x93:
        return "GLOBAL";
    case 'R':
        return "REDUCE";
    case 'b':
        return "BUILD";
    case 'i':
    case 'o':
        return "INST";
    case 0x81:
    case 0x92:
        return "NEWOBJ";
    case 'P':
    case 'Q':
        return "PERSID";
    case 0x82:
    case 0x83:
    case 0x84:
        return "EXT";
    case 0x97:
    case 0x98:
        return "NEXT_BUFFER";
    default:
        return NULL;
    }
}

static int refuse(struct pickle *p, unsigned char op)
{
    const char *name = forbidden(op);
    if (name)
        return fail(p,
                    "asks for code to be run (%s at byte %zu): a snapshot is data alone, and nothing else is "
                    "read",
                    name, p->at - 1);
    if (op && strchr("ILFSVgpld", op))
        return fail(p, "is a pickle of protocol 0 or 1: write it again with protocol 2 to 5");
    return malformed(p, "there is no such opcode");
}

static int drop(struct pickle *p)
{
    if (has(p, 1))
        p->stack.n--;
    else if (p->mark_count)
        p->mark_count--;
    else
        return malformed(p, "an item is taken from an empty stack");
    return 0;
}

static int drop_marked(struct pickle *p)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    return to_mark(p, &items, &n);
}

static int again(struct pickle *p)
{
    return has(p, 1) ? push(p, *top(p)) : malformed(p, "an item of an empty stack is repeated");
}

static int push_bool(struct pickle *p, int64_t which)
{
    return push(p, (struct pickle_value){.kind = PICKLE_BOOL, .number = which});
}

static int signed_32(struct pickle *p)
{
    uint64_t n;
    return read_number(p, 4, &n) ? push_int(p, (int32_t)n) : -1;
}

static int skip(struct pickle *p, unsigned bytes)
{
    return operand(p, bytes) ? 0 : -1;
}

static int step(struct pickle *p, unsigned char op)
{
    switch (op) {
    case 0x80: /* PROTO */
        return skip(p, 1);
    case 0x95: /* FRAME: a hint for readers of streams */
        return skip(p, 8);
    case '(':
        return mark(p);
    case '0':
        return drop(p);
    case '1':
        return drop_marked(p);
    case '2':
        return again(p);
    case 'N':
        return push(p, (struct pickle_value){.kind = PICKLE_NONE});
    case 0x88:
    case 0x89:
        return push_bool(p, op == 0x88);
    case 'J':
        return signed_32(p);
    case 'K':
        return push_unsigned(p, 1);
    case 'M':
        return push_unsigned(p, 2);
    case 0x8a:
    case 0x8b:
        return push_long(p, op == 0x8a ? 1 : 4);
    case 'G':
        return push_real(p);
    case 'U':
    case 'C':
    case 0x8c:
        return push_text(p, 1);
    case 'T':
    case 'B':
    case 'X':
        return push_text(p, 4);
    case 0x8d:
    case 0x8e:
    case 0x96:
        return push_text(p, 8);
    case ']':
    case ')':
    case 0x8f:
        return push_container(p, PICKLE_LIST);
    case '}':
        return push_container(p, PICKLE_DICT);
    case 'a':
        return append_top(p, PICKLE_LIST, 1);
    case 'e':
    case 0x90:
        return append_marked(p, PICKLE_LIST);
    case 's':
        return append_top(p, PICKLE_DICT, 2);
    case 'u':
        return append_marked(p, PICKLE_DICT);
    case 't':
    case 0x91:
        return collect_marked(p, PICKLE_LIST);
    case 0x85:
    case 0x86:
    case 0x87:
        return collect_top(p, op - 0x84u);
    case 'h':
        return get(p, 1);
    case 'j':
        return get(p, 4);
    case 'q':
        return put(p, 1);
    case 'r':
        return put(p, 4);
    case 0x94: /* MEMOIZE */
        return remember(p, p->memo.n);
    default:
        return refuse(p, op);
    }
}

/* ---- the whole ---- */

static int run(struct pickle *p, struct pickle_value *root)
{
    if (p->size < 2 || p->bytes[0] != 0x80)
        return fail(p,
                    "is not a pickle of protocol 2 to 5: give what torch.cuda.memory._dump_snapshot wrote");
    if (p->bytes[1] < 2 || p->bytes[1] > 5)
        return fail(p, "is a pickle of protocol %d: 2 to 5 are read", p->bytes[1]);
    if (!widen(p, &p->stack.at, 0, &p->stack.room, sizeof *p->stack.at)) /* it is there from the beginning */
        return -1;
    while (p->at < p->size) {
        unsigned char op = p->bytes[p->at++];
        if (op == '.') {
            if (p->stack.n != 1 || p->mark_count)
                return malformed(p, "it ends with other than one value");
            *root = p->stack.at[0];
            return 0;
        }
        if (step(p, op))
            return -1;
    }
    return truncated(p);
}

int unpickle_read(struct pickle **out, const void *bytes, size_t size, size_t memory,
                  struct pickle_value *root, char *why, size_t why_size)
{
    struct pickle *p = calloc(1, sizeof *p);
    if (!p) {
        snprintf(why, why_size, "can't be read: out of memory");
        return -1;
    }
    *p = (struct pickle){.bytes = bytes, .size = size, .memory = memory, .why = why, .why_size = why_size};
    if (run(p, root)) {
        unpickle_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void unpickle_free(struct pickle *p)
{
    if (!p)
        return;
    for (struct chunk *c = p->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(p->stack.at);
    free(p->memo.at);
    free(p->marks);
    free(p);
}

bool unpickle_is(const struct pickle_value *text, const char *word)
{
    return text && text->kind == PICKLE_TEXT && text->length == strlen(word) &&
           memcmp(text->text, word, text->length) == 0;
}

const struct pickle_value *unpickle_get(const struct pickle_value *value, const char *key)
{
    if (!value || value->kind != PICKLE_DICT)
        return NULL;
    const struct pickle_object *o = value->object;
    for (size_t i = 0; i + 1 < o->n && i < 2 * PICKLE_KEYS; i += 2)
        if (unpickle_is(&o->at[i], key))
            return &o->at[i + 1];
    return NULL;
}

size_t unpickle_items(const struct pickle_value *value)
{
    return value && value->kind == PICKLE_LIST ? value->object->n : 0;
}

int64_t unpickle_int(const struct pickle_value *value, int64_t otherwise)
{
    return value && (value->kind == PICKLE_INT || value->kind == PICKLE_BOOL) ? value->number : otherwise;
}
