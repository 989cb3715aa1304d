/* python_text.c - what a code object says of itself, for people: names as UTF-8, and lines. */
#include "python.h"

#include <limits.h>

#include "core/contracts.h"
#include "core/readable.h"

#define AT(type, base, offset) VS_PYTHON_AT(type, base, offset)

/* ---- lines ----
 *
 * A line table covers a function's instructions from the first to the last.  The entry that contains the
 * instruction counts.
 *
 *      3.10    pairs of bytes: how many bytes of code, and by how much the line differs from the line before
 *              (-128: no line)
 *      3.11    entries that begin with a byte whose bit 7 is set, and only that one's is: bits 0 to 2 say how
 *              many units of code less one, bits 3 to 6 what follows.  0 to 9: nothing of the line; 10 to 12:
 *              the line is 0 to 2 further; 13, 14: a signed number of lines follows; 15: no line
 *
 * Numbers are little-endian groups of 6 bits, bit 6 says that another group follows, and of a signed number
 * bit 0 is the sign. */

uint32_t vs_python_line_310(const unsigned char *table, size_t length, int first, long unit)
{
    long line = first, at = 0, byte = unit < 0 ? 0 : 2 * unit;
    for (size_t i = 0; i + 1 < length; i += 2) {
        int delta = (signed char)table[i + 1];
        if (delta != -128)
            line += delta;
        at += table[i];
        if (byte < at)
            return delta == -128 || line < 0 ? 0 : (uint32_t)line;
    }
    return 0;
}

static unsigned read_number(const unsigned char **p, const unsigned char *end)
{
    unsigned value = 0;
    for (unsigned shift = 0; *p < end && shift < 30; shift += 6) {
        unsigned byte = *(*p)++;
        value |= (byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static long line_delta(unsigned kind, const unsigned char **p, const unsigned char *end)
{
    if (kind >= 10 && kind <= 12)
        return (long)kind - 10;
    if (kind != 13 && kind != 14)
        return 0;
    unsigned number = read_number(p, end);
    return number & 1 ? -(long)(number >> 1) : (long)(number >> 1);
}

uint32_t vs_python_line_311(const unsigned char *table, size_t length, int first, long unit)
{
    const unsigned char *p = table, *end = table + length;
    long line = first, at = 0;
    if (unit < 0) /* before the first instruction */
        unit = 0;
    while (p < end) {
        unsigned kind = (*p >> 3) & 15, units = (*p & 7) + 1u;
        p++;
        line += line_delta(kind, &p, end);
        at += units;
        if (at > unit)
            return kind == 15 || line < 0 ? 0 : (uint32_t)line;
        while (p < end && !(*p & 128))
            p++;
    }
    return 0;
}

static uintptr_t copy_at(uintptr_t copies, int32_t index)
{
    uintptr_t entry = copies + 8 + 8 * (uintptr_t)index;
    if (copies % 8 || !vs_readable(copies) || index < 0 || (uint64_t)index >= AT(uint64_t, copies, 0))
        return 0;
    return vs_readable(entry) ? AT(uintptr_t, entry, 0) : 0;
}

/* The array of copies grows: another thread puts a larger one in its place and frees this one, soon if our
 * thread does not run Python now.  So what was read counts where the array was still there behind that, and
 * the kernel is asked first. */
uintptr_t vs_python_bytecode(const struct vs_python *p, uintptr_t code, uintptr_t frame)
{
    int32_t index = p->copy >= 0 ? AT(int32_t, frame, p->copy) : 0;
    if (index == 0)
        return code + (uintptr_t)p->bytes;
    const uintptr_t *place = &AT(uintptr_t, code, p->copies);
    for (;;) {
        uintptr_t copies = __atomic_load_n(place, __ATOMIC_ACQUIRE), begin = copy_at(copies, index);
        if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == copies)
            return begin;
    }
}

/* Where the instruction is outside the code object (code made at run time, a field that moved) the line is
 * unknown rather than wrong. */
long vs_python_unit(const struct vs_python *p, const struct vs_python_frame *f)
{
    if (p->kind == VS_PYTHON_OBJECTS)
        return (int)f->instr;
    uintptr_t begin = vs_python_bytecode(p, f->code, f->frame);
    return begin ? (long)(f->instr - begin) / 2 : LONG_MIN;
}

static long units_in(const struct vs_python *p, uintptr_t code)
{
    if (p->kind == VS_PYTHON_OBJECTS)
        return AT(int64_t, AT(uintptr_t, code, p->bytes), p->head) / 2;
    return AT(int64_t, code, p->head); /* ob_size */
}

uint32_t vs_python_line_at(const struct vs_python *p, uintptr_t code, long unit)
{
    uintptr_t table = AT(uintptr_t, code, p->linetable);
    if (!table || AT(uintptr_t, table, p->head - 8) != p->bytes_type)
        return 0;
    const unsigned char *bytes = (const unsigned char *)table + p->head + 16;
    size_t length = AT(size_t, table, p->head);
    int first = AT(int, code, p->firstlineno);
    if (unit < -1 || unit >= units_in(p, code))
        return 0;
    return p->kind == VS_PYTHON_OBJECTS ? vs_python_line_310(bytes, length, first, unit)
                                        : vs_python_line_311(bytes, length, first, unit);
}

uint32_t vs_python_line(const struct vs_python *p, const struct vs_python_frame *f)
{
    bool wrong = vs_contract_state(VS_CONTRACT_PY_LINES) == VS_CONTRACT_BROKEN;
    return wrong ? 0 : vs_python_line_at(p, f->code, vs_python_unit(p, f));
}

/* ---- names ---- */

static size_t put_utf8(char *to, uint32_t c)
{
    if (c >= 0xdc80 && c <= 0xdcff) { /* a byte of a file's name that was no UTF-8 */
        to[0] = (char)(c - 0xdc00);
        return 1;
    }
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)(c | (n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0));
    return n;
}

static uint32_t character(const void *text, unsigned kind, size_t i)
{
    return kind == 1   ? ((const uint8_t *)text)[i]
           : kind == 2 ? ((const uint16_t *)text)[i]
                       : ((const uint32_t *)text)[i];
}

/* The word behind length and hash: 2 bits interned (8 in free-threaded builds from 3.14 on), 3 kind (bytes a
 * character), 1 compact, 1 ascii. */
bool vs_python_is_compact(const struct vs_python *p, uint32_t state)
{
    return state >> p->state_bits & 1u << 3;
}

size_t vs_python_text(const struct vs_python *p, uintptr_t string, char *to, size_t room)
{
    if (!string || AT(uintptr_t, string, p->head - 8) != p->unicode_type)
        return 0;
    uint32_t state = AT(uint32_t, string, p->head + 16), kind = state >> p->state_bits & 7;
    bool ascii = state >> p->state_bits & 1u << 4;
    if (!vs_python_is_compact(p, state) || (kind != 1 && kind != 2 && kind != 4))
        return 0;
    const void *text = (const void *)(string + (uintptr_t)(ascii ? p->ascii : p->compact));
    size_t length = AT(size_t, string, p->head), n = 0;
    for (size_t i = 0; i < length && n + 4 <= room; i++)
        n += put_utf8(to + n, character(text, kind, i));
    return n;
}
