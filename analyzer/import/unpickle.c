/* unpickle.c - reads a pickle's opcodes, refuses those that are no data, and looks values up (unpickle.h). */
#include "unpickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unpickle_stack.h"

/* ---- operands ---- */

/* N bytes of the file, or NULL where it ends before. */
static const unsigned char *operand(struct pickle *p, uint64_t n)
{
    if (n > p->size - p->at) {
        unpickle_truncated(p);
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
    return unpickle_push(p, (struct pickle_value){.kind = PICKLE_INT, .number = n});
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
    bool large = n == 9 && b[8] == 0 && b[7] & 0x80;
    if (n > 8 && !large)
        return unpickle_push(p, (struct pickle_value){.kind = PICKLE_NONE});
    for (unsigned i = 0; i < n && i < 8; i++)
        value |= (uint64_t)b[i] << 8 * i;
    if (large)
        return unpickle_push(p, (struct pickle_value){.kind = PICKLE_LARGE, .number = (int64_t)value});
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
        return unpickle_malformed(p, "a text is longer than 4 GiB");
    return unpickle_push(
        p, (struct pickle_value){.kind = PICKLE_TEXT, .length = (uint32_t)n, .text = (const char *)b});
}

static int push_real(struct pickle *p)
{
    const unsigned char *b = operand(p, 8);
    uint64_t bits = 0;
    struct pickle_value v = {.kind = PICKLE_FLOAT};
    for (unsigned i = 0; b && i < 8; i++)
        bits = bits << 8 | b[i];
    memcpy(&v.real, &bits, sizeof v.real);
    return b ? unpickle_push(p, v) : -1;
}

/* ---- the memo ---- */

/* Python numbers what it keeps from 0 (the oldest from 1), so no number is beyond the bytes read so far. */
static int remember(struct pickle *p, uint64_t index)
{
    if (!unpickle_has(p, 1))
        return unpickle_malformed(p, "nothing is there to be kept in the memo");
    if (index > p->at)
        return unpickle_malformed(p, "a memo number is beyond what a pickle of this size can have");
    while (p->memo.n <= index) {
        if (!unpickle_widen(p, &p->memo.at, p->memo.n, &p->memo.room, sizeof *p->memo.at))
            return -1;
        p->memo.at[p->memo.n++] = (struct pickle_value){.kind = PICKLE_NONE};
    }
    p->memo.at[index] = *unpickle_top(p);
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
        return unpickle_malformed(p, "it refers to a memo number that was never set");
    return unpickle_push(p, p->memo.at[index]);
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
        return unpickle_fail(
            p,
            "asks for code to be run (%s at byte %zu): a snapshot is data alone, and nothing else is "
            "read",
            name, p->at - 1);
    if (op && strchr("ILFSVgpld", op))
        return unpickle_fail(p, "is a pickle of protocol 0 or 1: write it again with protocol 2 to 5");
    return unpickle_malformed(p, "there is no such opcode");
}

static int drop(struct pickle *p)
{
    if (unpickle_has(p, 1))
        p->stack.n--;
    else if (p->mark_count)
        p->mark_count--;
    else
        return unpickle_malformed(p, "an item is taken from an empty stack");
    return 0;
}

static int drop_marked(struct pickle *p)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    return unpickle_to_mark(p, &items, &n);
}

static int again(struct pickle *p)
{
    return unpickle_has(p, 1) ? unpickle_push(p, *unpickle_top(p))
                              : unpickle_malformed(p, "an item of an empty stack is repeated");
}

static int push_bool(struct pickle *p, int64_t which)
{
    return unpickle_push(p, (struct pickle_value){.kind = PICKLE_BOOL, .number = which});
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
        return unpickle_mark(p);
    case '0':
        return drop(p);
    case '1':
        return drop_marked(p);
    case '2':
        return again(p);
    case 'N':
        return unpickle_push(p, (struct pickle_value){.kind = PICKLE_NONE});
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
        return unpickle_push_container(p, PICKLE_LIST);
    case '}':
        return unpickle_push_container(p, PICKLE_DICT);
    case 'a':
        return unpickle_append_top(p, PICKLE_LIST, 1);
    case 'e':
    case 0x90:
        return unpickle_append_marked(p, PICKLE_LIST);
    case 's':
        return unpickle_append_top(p, PICKLE_DICT, 2);
    case 'u':
        return unpickle_append_marked(p, PICKLE_DICT);
    case 't':
    case 0x91:
        return unpickle_collect_marked(p, PICKLE_LIST);
    case 0x85:
    case 0x86:
    case 0x87:
        return unpickle_collect_top(p, op - 0x84u);
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
    if (p->size >= 16 && !memcmp(p->bytes, "SQLite format 3", 16))
        return unpickle_fail(p,
                             "is a database and no snapshot: vramscope report shows what vramscope recorded");
    if (p->size < 2 || p->bytes[0] != 0x80)
        return unpickle_fail(
            p, "is not a pickle of protocol 2 to 5: give what torch.cuda.memory._dump_snapshot wrote");
    if (p->bytes[1] < 2 || p->bytes[1] > 5)
        return unpickle_fail(p, "is a pickle of protocol %d: 2 to 5 are read", p->bytes[1]);
    /* it is there from the beginning */
    if (!unpickle_widen(p, &p->stack.at, 0, &p->stack.room, sizeof *p->stack.at))
        return -1;
    while (p->at < p->size) {
        unsigned char op = p->bytes[p->at++];
        if (op == '.') {
            if (p->stack.n != 1 || p->mark_count)
                return unpickle_malformed(p, "it ends with other than one value");
            *root = p->stack.at[0];
            return 0;
        }
        if (step(p, op))
            return -1;
    }
    return unpickle_truncated(p);
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

/* ---- what a caller asks of the values ---- */

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

uint64_t unpickle_address(const struct pickle_value *value, uint64_t otherwise)
{
    bool number = value && (value->kind == PICKLE_INT || value->kind == PICKLE_LARGE);
    return number ? (uint64_t)value->number : otherwise;
}
