/* pickle.c - writes pickles (pickle.h). */
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

enum { PROTOCOL = 4 };
enum {
    OP_PROTO = 0x80,
    OP_STOP = '.',
    OP_MARK = '(',
    OP_EMPTY_DICT = '}',
    OP_SETITEMS = 'u',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_TUPLE2 = 0x86,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_BININT = 'J',
    OP_BINFLOAT = 'G',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_LONG1 = 0x8a,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE = 'X',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j'
};

static void put_byte(struct pickle *p, int byte)
{
    unsigned char c = (unsigned char)byte;
    sink_put(p->out, &c, 1);
}

/* OPCODE and the lowest N bytes of VALUE, the lowest first. */
static void put(struct pickle *p, int opcode, uint64_t value, size_t n)
{
    unsigned char bytes[9] = {(unsigned char)opcode};
    for (size_t i = 0; i < n; i++)
        bytes[i + 1] = (unsigned char)(value >> 8 * i);
    sink_put(p->out, bytes, n + 1);
}

void pickle_begin(struct pickle *p, struct sink *out)
{
    *p = (struct pickle){.out = out};
    put(p, OP_PROTO, PROTOCOL, 1);
}

void pickle_end(struct pickle *p)
{
    put_byte(p, OP_STOP);
    texts_free(&p->texts);
    free(p->memo_of);
}

void pickle_int(struct pickle *p, int64_t value)
{
    if (value >= 0 && value <= UINT8_MAX) {
        put(p, OP_BININT1, (uint64_t)value, 1);
    } else if (value >= 0 && value <= UINT16_MAX) {
        put(p, OP_BININT2, (uint64_t)value, 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        put(p, OP_BININT, (uint64_t)value, 4);
    } else {
        put(p, OP_LONG1, sizeof value, 1);
        for (size_t i = 0; i < sizeof value; i++)
            put_byte(p, (int)((uint64_t)value >> 8 * i & 0xff));
    }
}

void pickle_float(struct pickle *p, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(p, OP_BINFLOAT, __builtin_bswap64(bits), sizeof bits); /* the only opcode with its high byte first */
}

void pickle_bool(struct pickle *p, bool value)
{
    put_byte(p, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void pickle_text(struct pickle *p, const char *text)
{
    bool is_new;
    size_t index = texts_index(&p->texts, text, &is_new), n = strlen(text);
    if (!is_new) {
        pickle_again(p, p->memo_of[index]);
        return;
    }
    put(p, n <= UINT8_MAX ? OP_SHORT_BINUNICODE : OP_BINUNICODE, n, n <= UINT8_MAX ? 1 : 4);
    sink_put(p->out, text, n);
    size_t known = index;
    *PUSH(p->memo_of, known) = pickle_keep(p);
}

void pickle_dict(struct pickle *p)
{
    put_byte(p, OP_EMPTY_DICT);
    put_byte(p, OP_MARK);
}

void pickle_set(struct pickle *p)
{
    put_byte(p, OP_SETITEMS);
}

void pickle_list(struct pickle *p)
{
    put_byte(p, OP_EMPTY_LIST);
    put_byte(p, OP_MARK);
}

void pickle_mark(struct pickle *p)
{
    put_byte(p, OP_MARK);
}

void pickle_append(struct pickle *p)
{
    put_byte(p, OP_APPENDS);
}

void pickle_pair(struct pickle *p)
{
    put_byte(p, OP_TUPLE2);
}

int64_t pickle_keep(struct pickle *p)
{
    int64_t kept = p->memo++;
    bool small = kept <= UINT8_MAX;
    put(p, small ? OP_BINPUT : OP_LONG_BINPUT, (uint64_t)kept, small ? 1 : 4);
    return kept;
}

void pickle_again(struct pickle *p, int64_t kept)
{
    bool small = kept <= UINT8_MAX;
    put(p, small ? OP_BINGET : OP_LONG_BINGET, (uint64_t)kept, small ? 1 : 4);
}
