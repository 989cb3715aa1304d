/*
 * python_check.c - tries the offsets on the first frames that are seen, before anything is believed.
 *
 * Offsets can be wrong: a patched interpreter, a build with options of its own.  That shows at once, because
 * all that is read is of a known kind: a frame's code is a code object, its file and name are strings, its
 * line table is bytes, the instruction lies inside the code, and the chain ends.  Every word is read only
 * after its page was found readable, by a system call each.
 */
#include "python.h"

#include "core/readable.h"

#define AT(type, base, offset) VS_PYTHON_AT(type, base, offset)

enum { FRAMES_MAX = 2000 };

/* Reads the word at BASE + OFFSET, where there is one. */
static bool read_word(uintptr_t base, int offset, uintptr_t *word)
{
    uintptr_t at = base + (uintptr_t)offset;
    if (base < 4096 || at % 8 || !vs_readable(at))
        return false;
    *word = *(const uintptr_t *)at;
    return true;
}

static bool is_a(const struct vs_python *p, uintptr_t object, uintptr_t type)
{
    uintptr_t of;
    return object % 8 == 0 && read_word(object, p->head - 8, &of) && of == type;
}

static bool good_string(const struct vs_python *p, uintptr_t string)
{
    uintptr_t length, state;
    return is_a(p, string, p->unicode_type) && read_word(string, p->head, &length) &&
           read_word(string, p->head + 16, &state) && length > 0 && length < 1u << 20 &&
           vs_python_is_compact(p, (uint32_t)state);
}

static bool good_bytes(const struct vs_python *p, uintptr_t bytes)
{
    uintptr_t length;
    return is_a(p, bytes, p->bytes_type) && read_word(bytes, p->head, &length) && length < 1u << 28;
}

static bool good_code(const struct vs_python *p, uintptr_t code)
{
    uintptr_t file, name, table, units, unused;
    if (!read_word(code, p->filename, &file) || !read_word(code, p->name, &name) ||
        !read_word(code, p->linetable, &table) || !read_word(code, p->firstlineno & ~7, &unused))
        return false;
    if (p->kind == VS_PYTHON_OBJECTS) {
        if (!read_word(code, p->bytes, &units) || !good_bytes(p, units))
            return false;
    } else if (!read_word(code, p->head, &units) || units == 0 || units > 1u << 28) {
        return false;
    }
    int line = AT(int, code, p->firstlineno);
    return good_string(p, file) && good_string(p, name) && good_bytes(p, table) && line >= 0 &&
           line < 1 << 28;
}

bool vs_python_is_code(const struct vs_python *p, uintptr_t code)
{
    return is_a(p, code, p->code_type) && good_code(p, code);
}

/* Whether the frame's instruction lies in its code, or in its thread's copy of it. */
static bool good_instruction(const struct vs_python *p, uintptr_t frame, uintptr_t code, uintptr_t instr)
{
    uintptr_t unused;
    if (p->kind == VS_PYTHON_OBJECTS)
        return (int)instr >= -1 && (int)instr < 1 << 28;
    if (p->copy >= 0 && (!read_word(frame, p->copy & ~7, &unused) || !read_word(code, p->copies, &unused)))
        return false;
    uintptr_t begin = vs_python_bytecode(p, code, frame), units = AT(uintptr_t, code, p->head);
    return begin && instr + 2 >= begin && instr <= begin + 2 * units;
}

/* -1 wrong, 0 something that is skipped, 1 a frame of Python code, *CODE. */
static int check_frame(const struct vs_python *p, uintptr_t frame, uintptr_t *code)
{
    uintptr_t instr, unused;
    if (!read_word(frame, p->code, code) || !read_word(frame, p->instr, &instr))
        return -1;
    if (p->owner >= 0) {
        if (!read_word(frame, p->owner & ~7, &unused) || AT(unsigned char, frame, p->owner) > 4)
            return -1;
        if (AT(unsigned char, frame, p->owner) >= VS_PYTHON_OWNER_SHIM)
            return 0;
    }
    *code &= ~(uintptr_t)p->tags;
    if (!is_a(p, *code, p->code_type)) /* from 3.13 on what is no code, None above all, may have frames too */
        return p->minor >= 13 && read_word(*code, p->head - 8, &unused) ? 0 : -1;
    return good_code(p, *code) && good_instruction(p, frame, *code, instr) ? 1 : -1;
}

/* The numbers of code objects; those that were built into the interpreter (3.12) may have anybody's, and
 * never go. */
struct versions {
    uintptr_t code[32];
    uint32_t version[32];
};

static void see_version(const struct vs_python *p, uintptr_t code, struct versions *v,
                        struct vs_python_seen *seen)
{
    bool built_in = code - p->object < p->object_end - p->object;
    if (p->version < 0 || built_in || seen->codes == sizeof v->code / sizeof *v->code)
        return;
    uint32_t version = AT(uint32_t, code, p->version);
    bool same = version == 0;
    for (int i = 0; i < seen->codes; i++) {
        if (v->code[i] == code)
            return;
        same = same || v->version[i] == version;
    }
    v->code[seen->codes] = code;
    v->version[seen->codes++] = version;
    seen->same_version = seen->same_version || same;
}

/* The stack of frames: where its newest piece begins, its top, its end. */
static bool good_stack(const struct vs_python *p, uintptr_t state)
{
    uintptr_t begin, top, end;
    return read_word(state, p->chunk, &begin) && read_word(state, p->chunk + 8, &top) &&
           read_word(state, p->chunk + 16, &end) && begin <= top && top <= end && end - begin < 1u << 30;
}

bool vs_python_check(const struct vs_python *p, uintptr_t state, struct vs_python_seen *seen)
{
    uintptr_t frame = 0, holder = state, code;
    struct versions versions;
    *seen = (struct vs_python_seen){0};
    bool good = p->cframe < 0 || (read_word(state, p->cframe, &holder) && good_stack(p, state));
    if (good && holder)
        good = read_word(holder, p->current, &frame);
    for (int i = 0; good && frame && i < FRAMES_MAX; i++) {
        int kind = check_frame(p, frame, &code);
        seen->frames += kind > 0;
        if (kind > 0)
            see_version(p, code, &versions, seen);
        good = kind >= 0 && read_word(frame, p->previous, &frame);
    }
    return good;
}
