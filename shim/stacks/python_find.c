/* python_find.c - which CPython is in the process, and where its structures have their fields. */
#define _GNU_SOURCE
#include "python.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/contracts.h"
#include "core/walk.h"
#include "modules.h"

#pragma weak dladdr1 /* glibc alone has it */

#define AT(type, base, offset) VS_PYTHON_AT(type, base, offset)

/* ---- the versions ----
 *
 * An interpreter is known by its variable _PyRuntime, which a static interpreter exports like libpython does.
 * Up to 3.12 the offsets come from a table, made from the headers of the default 64-bit build.  From 3.13 on
 * _PyRuntime begins with _Py_DebugOffsets, words written when it was built; where in these a field's offset
 * stands differs from version to version.
 *
 * Debug builds have other offsets and are refused, and so are pre-releases, whose fields still move. */

#define FRAME_OBJECTS_10 .kind = VS_PYTHON_OBJECTS, .cframe = -1, .current = 24, .code = 32, .previous = 24

static const struct vs_python by_table[] = {
    {.minor = 10,
     .finalizing_at = 16,
     .head_at = 32,
     .key_at = 584,
     FRAME_OBJECTS_10,
     .instr = 96,
     .owner = -1,
     .entry = -1,
     .filename = 104,
     .name = 112,
     .linetable = 120,
     .firstlineno = 40,
     .bytes = 48,
     .firsttraceable = -1,
     .version = -1,
     .ascii = 48,
     .compact = 72},
    {.minor = 11,
     .finalizing_at = 24,
     .head_at = 40,
     .key_at = 592,
     .kind = VS_PYTHON_STRUCTS,
     .cframe = 56,
     .current = 8,
     .chunk = 296,
     .code = 32,
     .previous = 48,
     .instr = 56,
     .owner = 69,
     .entry = 68,
     .filename = 112,
     .name = 128,
     .linetable = 136,
     .firstlineno = 72,
     .bytes = 184,
     .firsttraceable = 168,
     .version = -1,
     .ascii = 48,
     .compact = 72},
    {.minor = 12,
     .finalizing_at = 24,
     .head_at = 40,
     .key_at = 1544,
     .kind = VS_PYTHON_UNPROVEN,
     .cframe = 56,
     .current = 0,
     .chunk = 232,
     .code = 0,
     .previous = 8,
     .instr = 56,
     .owner = 70,
     .entry = -1,
     .filename = 112,
     .name = 128,
     .linetable = 136,
     .firstlineno = 68,
     .bytes = 192,
     .firsttraceable = 176,
     .version = 92,
     .ascii = 40,
     .compact = 56},
};

/* Of _Py_DebugOffsets: the numbers of the words where the sections begin, each with its structure's size, and
 * how far into a code object of the default build its instructions begin, which the offsets that it does not
 * have hang on. */
struct sections {
    unsigned minor, thread, frame, code, object, bytes, unicode;
    uint64_t instructions;
    int16_t key_at; /* of _PyRuntime; -1: nobody looked */
};
static const struct sections by_debug_offsets[] = {
    {13, 19, 28, 34, 44, 64, 67, 200, 2160},
    {14, 22, 31, 39, 50, 74, 77, 208, 2336},
    {15, 22, 39, 47, 58, 86, 89, 208, -1},
};

/* An object begins with two words; in a free-threaded build with two more, because it counts references by
 * its thread and by others, and has a lock. */
enum { HEAD = 16, HEAD_FREE_THREADED = 32 };

static int refuse(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s", what);
    return -1;
}

/* A field's offset in a word that anything may stand in. */
static int16_t offset(uint64_t word, unsigned align, bool *good)
{
    *good = *good && word < 4096 && word % align == 0;
    return (int16_t)word;
}

/* From 3.14 on each thread of a free-threaded build has bytecode of its own, found by the code object's
 * array. */
static void take_copies(struct vs_python *p, const uint64_t *w, const struct sections *s, bool *good)
{
    p->copy = offset(w[s->frame + 7], 4, good);
    p->copies = offset(w[s->code + 10], 8, good);
    p->interpreter = offset(w[s->thread + 3], 8, good);
    p->copies_changed = (int32_t)w[21];
    *good = *good && p->copies == p->bytes - 8 && w[21] < 1u << 20 && w[21] % 4 == 0;
}

/* Objects of the kinds that names and lines are made of. */
static void take_objects(struct vs_python *p, const uint64_t *w, const struct sections *s, bool *good)
{
    const uint64_t *object = w + s->object, *bytes = w + s->bytes, *text = w + s->unicode;
    uint64_t head = (uint64_t)p->head;
    *good = *good && object[1] == head - 8 && bytes[1] == head && bytes[2] == head + 16 && text[2] == head &&
            text[1] == head + 16;
    p->ascii = offset(text[3], 8, good);
    p->compact = (int16_t)(p->ascii + 16);
    p->state_bits = p->head == HEAD_FREE_THREADED && p->minor >= 14 ? 8 : 2;
}

static void take_code(struct vs_python *p, const uint64_t *w, const struct sections *s, bool *good)
{
    const uint64_t *code = w + s->code;
    int more = p->head - HEAD, copies = more && p->minor >= 14 ? 8 : 0;
    p->filename = offset(code[1], 8, good);
    p->name = offset(code[3], 8, good);
    p->linetable = offset(code[4], 8, good);
    p->firstlineno = offset(code[5], 4, good);
    p->bytes = offset(code[9], 8, good);
    p->firsttraceable = (int16_t)(p->bytes - 16 - copies);
    p->version = (int16_t)(92 + more);
    *good = *good && code[9] == s->instructions + (uint64_t)more + (uint64_t)copies;
    if (copies)
        take_copies(p, w, s, good);
}

static void take_frames(struct vs_python *p, const uint64_t *w, const struct sections *s, bool *good)
{
    const uint64_t *thread = w + s->thread, *frame = w + s->frame;
    p->current = offset(thread[4], 8, good);
    p->previous = offset(frame[1], 8, good);
    p->code = offset(frame[2], 8, good);
    p->instr = offset(frame[3], 8, good);
    p->owner = offset(frame[5], 1, good);
    p->tags = p->minor >= 14 ? 3 : 0;
    p->finalizing_at = offset(w[4], 8, good);
    p->head_at = offset(w[5], 8, good);
    p->key_at = s->key_at;
}

static int from_debug_offsets(struct vs_python *p, const uint64_t *w, uint32_t hex, char *why, size_t size)
{
    const struct sections *s = NULL;
    for (size_t i = 0; i < sizeof by_debug_offsets / sizeof *by_debug_offsets; i++)
        if (by_debug_offsets[i].minor == p->minor)
            s = &by_debug_offsets[i];
    if (!s)
        return refuse(why, size, "it is newer than this vramscope knows");
    if (memcmp(w, "xdebugpy", 8) != 0 || w[1] != hex || w[2] > 1)
        return refuse(why, size, "it does not describe itself as that version does");
    bool good = true;
    p->kind = VS_PYTHON_UNPROVEN;
    p->cframe = p->entry = p->copy = -1;
    p->head = w[2] ? HEAD_FREE_THREADED : HEAD;
    take_frames(p, w, s, &good);
    take_code(p, w, s, &good);
    take_objects(p, w, s, &good);
    return good ? 0 : refuse(why, size, "it has its fields where that version has not");
}

static int from_table(struct vs_python *p, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof by_table / sizeof *by_table; i++) {
        if (by_table[i].minor != p->minor)
            continue;
        char release[sizeof p->release];
        memcpy(release, p->release, sizeof release);
        *p = by_table[i];
        memcpy(p->release, release, sizeof release);
        p->head = HEAD;
        p->state_bits = 2;
        p->copy = -1;
        return 0;
    }
    return refuse(why, size, "it is older than 3.10");
}

/* ---- the loaded objects ---- */

struct search {
    void *handle; /* to ask for symbols: RTLD_DEFAULT where the whole process sees them */
    void *runtime;
    bool second;
};

static void take(struct search *s, void *handle)
{
    void *runtime = dlsym(handle, "_PyRuntime");
    if (!runtime || runtime == s->runtime)
        return;
    s->second = s->runtime != NULL;
    s->handle = handle;
    s->runtime = runtime;
}

struct names {
    char path[8][512];
    unsigned count;
};

/* libpython3.12.so.1.0, but not libpython3.so, which has nothing of its own. */
static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    struct names *names = data;
    const char *slash = strrchr(info->dlpi_name, '/'), *base = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(base, "libpython3.", 11) != 0 || strncmp(base, "libpython3.so", 13) == 0 ||
        strlen(info->dlpi_name) >= sizeof names->path[0])
        return 0;
    strcpy(names->path[names->count++], info->dlpi_name);
    return names->count == sizeof names->path / sizeof *names->path;
}

bool vs_python_library_loaded(void)
{
    struct names names = {.count = 0};
    vs_walk_objects(note_library, &names);
    return names.count > 0;
}

/* An embedded interpreter may be loaded RTLD_LOCAL, where nobody but its handle leads to it. */
static void search_objects(struct search *s)
{
    struct names names = {.count = 0};
    take(s, RTLD_DEFAULT);
    vs_walk_objects(note_library, &names);
    for (unsigned i = 0; i < names.count; i++) {
        void *handle = dlopen(names.path[i], RTLD_NOLOAD | RTLD_LAZY); /* never closed: its code is called */
        if (handle)
            take(s, handle);
    }
}

/* ---- the version ---- */

/* The version as PY_VERSION_HEX has it; 0 where it is none that could be read, with the reason in WHY. */
static uint32_t version_of(void *handle, char *release, size_t room, char *why, size_t size)
{
    const unsigned long *number = dlsym(handle, "Py_Version"); /* since 3.11 */
    const char *(*text)(void) = (const char *(*)(void))(uintptr_t)dlsym(handle, "Py_GetVersion");
    unsigned major, minor, micro;
    char after;
    if (number) {
        uint32_t hex = (uint32_t)*number;
        snprintf(release, room, "%u.%u.%u", hex >> 24, hex >> 16 & 255, hex >> 8 & 255);
        if ((hex & 255) >= 0xf0)
            return hex;
        return refuse(why, size, "it is a pre-release"), 0;
    }
    if (!text || sscanf(text(), "%u.%u.%u%c", &major, &minor, &micro, &after) != 4)
        return refuse(why, size, "it does not say its version"), 0;
    snprintf(release, room, "%u.%u.%u", major, minor, micro);
    if (after != ' ' && after != '+')
        return refuse(why, size, "it is a pre-release"), 0;
    return major << 24 | minor << 16 | micro << 8 | 0xf0;
}

static bool is_debug_build(void *handle)
{
    return dlsym(handle, "_Py_RefTotal") || dlsym(handle, "_Py_NegativeRefcount") ||
           dlsym(handle, "_Py_INCREF_IncRefTotal");
}

/* ---- what is asked of it ---- */

static uintptr_t address_of(void *handle, const char *name)
{
    return (uintptr_t)dlsym(handle, name);
}

static void find_eval(struct vs_python *p, void *handle)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    struct vs_object object;
    uintptr_t eval = address_of(handle, "_PyEval_EvalFrameDefault");
    if (!eval || !dladdr1 || !dladdr1((void *)eval, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    p->eval = eval;
    p->eval_end = eval + symbol->st_size;
    if (vs_object_find(eval, &object)) {
        p->object = object.start;
        p->object_end = object.end;
    }
}

static bool bind_symbols(struct vs_python *p, void *handle)
{
    uintptr_t finalizing = address_of(handle, "Py_IsFinalizing"); /* since 3.13 */
    if (!finalizing)
        finalizing = address_of(handle, "_Py_IsFinalizing");
    p->finalizing = (int (*)(void))finalizing;
    p->thread_state = (void *(*)(void))address_of(handle, "PyGILState_GetThisThreadState");
    p->none = address_of(handle, "_Py_NoneStruct");
    p->code_type = address_of(handle, "PyCode_Type");
    p->unicode_type = address_of(handle, "PyUnicode_Type");
    p->bytes_type = address_of(handle, "PyBytes_Type");
    p->runtime = address_of(handle, "_PyRuntime");
    p->first_interpreter = (void *(*)(void))address_of(handle, "PyInterpreterState_Head");
    p->main_interpreter = (void *(*)(void))address_of(handle, "PyInterpreterState_Main");
    find_eval(p, handle);
    return p->finalizing && p->thread_state && p->first_interpreter && p->main_interpreter && p->none &&
           p->code_type && p->unicode_type && p->bytes_type;
}

/* 0, or -1 with the reason in WHY. */
static int describe(struct vs_python *p, const struct search *s, char *why, size_t why_size)
{
    uint32_t hex;
    if (s->second)
        return refuse(why, why_size, "two interpreters are in the process");
    hex = version_of(s->handle, p->release, sizeof p->release, why, why_size);
    p->minor = (uint16_t)(hex >> 16 & 255);
    if (p->minor >= 13 && AT(uint64_t, s->runtime, 16) == 1)
        strncat(p->release, " free-threaded", sizeof p->release - strlen(p->release) - 1);
    if (p->release[0])
        vs_party_version(VS_PARTY_PYTHON, p->release);
    if (!hex)
        return -1;
    if (hex >> 24 != 3)
        return refuse(why, why_size, "it is newer than this vramscope knows");
    if (is_debug_build(s->handle))
        return refuse(why, why_size, "it is a debug build");
    if ((p->minor >= 13 ? from_debug_offsets(p, s->runtime, hex, why, why_size)
                        : from_table(p, why, why_size)) < 0)
        return -1;
    return bind_symbols(p, s->handle) ? 0 : refuse(why, why_size, "it does not export what is needed");
}

static enum vs_python_found find(struct vs_python *p, char *why, size_t why_size)
{
    struct search s = {NULL, NULL, false};
    search_objects(&s);
    *p = (struct vs_python){0};
    if (!s.runtime)
        return VS_PYTHON_NONE;
    return describe(p, &s, why, why_size) < 0 ? VS_PYTHON_REFUSED : VS_PYTHON_FOUND;
}

enum vs_python_found vs_python_find(struct vs_python *p, char *why, size_t why_size)
{
    enum vs_python_found found = find(p, why, why_size);
    dlerror(); /* the host must not see the error of our search */
    return found;
}
