/*
 * python_find.c - which CPython is in the process, and where its structures have their fields.
 *
 * An interpreter is known by its variable _PyRuntime, which a static interpreter exports like libpython does.
 * Up to 3.12 the offsets come from a table, made from the headers of the default 64-bit build.  From 3.13 on
 * the interpreter says them itself: _PyRuntime begins with _Py_DebugOffsets, words written when it was built.
 * Where in these words a field's offset stands is the one thing that differs from version to version.
 *
 * What is not built by default has other offsets and is refused: debug builds, free-threaded builds,
 * pre-releases, whose fields still move.
 */
#define _GNU_SOURCE
#include "python.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/walk.h"
#include "modules.h"

/* ---- the versions ---- */

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
     .compact = 72,
     .sval = 32},
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
     .compact = 72,
     .sval = 32},
    {.minor = 12,
     .finalizing_at = 24,
     .head_at = 40,
     .key_at = 1544,
     .kind = VS_PYTHON_VERSIONS,
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
     .compact = 56,
     .sval = 32},
};

/* Of _Py_DebugOffsets: the numbers of the words where the sections begin, each with its structure's size, and
 * how far into a code object its instructions begin, which the offsets that it does not have hang on. */
struct sections {
    unsigned minor, thread, frame, code, bytes, unicode;
    uint64_t instructions;
    int16_t key_at; /* of _PyRuntime; -1: nobody looked */
};
static const struct sections by_debug_offsets[] = {
    {13, 19, 28, 34, 64, 67, 200, 2160},
    {14, 22, 31, 39, 74, 77, 208, 2336},
    {15, 22, 39, 47, 86, 89, 208, -1},
};

static int refuse(char *why, size_t size, const char *what, const char *release)
{
    snprintf(why, size, what, release);
    return -1;
}

/* A field's offset in a word that anything may stand in. */
static int16_t offset(uint64_t word, unsigned align, bool *good)
{
    *good = *good && word < 4096 && word % align == 0;
    return (int16_t)word;
}

static int from_debug_offsets(struct vs_python *p, const uint64_t *w, uint32_t hex, char *why, size_t size)
{
    const struct sections *s = NULL;
    for (size_t i = 0; i < sizeof by_debug_offsets / sizeof *by_debug_offsets; i++)
        if (by_debug_offsets[i].minor == p->minor)
            s = &by_debug_offsets[i];
    if (!s)
        return refuse(why, size, "CPython %s is newer than this vramscope knows", p->release);
    if (memcmp(w, "xdebugpy", 8) != 0 || w[1] != hex)
        return refuse(why, size, "CPython %s does not describe itself as that version does", p->release);
    if (w[2] != 0)
        return refuse(why, size, "CPython %s is free-threaded", p->release);
    const uint64_t *thread = w + s->thread, *frame = w + s->frame, *code = w + s->code;
    bool good = code[9] == s->instructions;
    p->kind = VS_PYTHON_VERSIONS;
    p->cframe = p->entry = -1;
    p->current = offset(thread[4], 8, &good);
    p->previous = offset(frame[1], 8, &good);
    p->code = offset(frame[2], 8, &good);
    p->instr = offset(frame[3], 8, &good);
    p->owner = offset(frame[5], 1, &good);
    p->filename = offset(code[1], 8, &good);
    p->name = offset(code[3], 8, &good);
    p->linetable = offset(code[4], 8, &good);
    p->firstlineno = offset(code[5], 4, &good);
    p->bytes = offset(code[9], 8, &good);
    p->firsttraceable = (int16_t)(p->bytes - 16);
    p->version = 92;
    p->sval = offset(w[s->bytes + 2], 8, &good);
    p->ascii = offset(w[s->unicode + 3], 8, &good);
    p->compact = (int16_t)(p->ascii + 16);
    p->tags = p->minor >= 14 ? 3 : 0;
    p->finalizing_at = offset(w[4], 8, &good);
    p->head_at = offset(w[5], 8, &good);
    p->key_at = s->key_at;
    return good ? 0 : refuse(why, size, "CPython %s has its fields where that version has not", p->release);
}

static int lay_out(struct vs_python *p, const void *runtime, uint32_t hex, char *why, size_t size)
{
    if (p->minor >= 13)
        return from_debug_offsets(p, runtime, hex, why, size);
    for (size_t i = 0; i < sizeof by_table / sizeof *by_table; i++) {
        if (by_table[i].minor != p->minor)
            continue;
        char release[sizeof p->release];
        memcpy(release, p->release, sizeof release);
        *p = by_table[i];
        memcpy(p->release, release, sizeof release);
        return 0;
    }
    return refuse(why, size, "CPython %s is older than 3.10", p->release);
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
        return refuse(why, size, "CPython %s is a pre-release", release), 0;
    }
    if (!text || sscanf(text(), "%u.%u.%u%c", &major, &minor, &micro, &after) != 4)
        return refuse(why, size, "an interpreter that does not say its version%s", ""), 0;
    snprintf(release, room, "%u.%u.%u", major, minor, micro);
    if (after != ' ' && after != '+')
        return refuse(why, size, "CPython %s is a pre-release", release), 0;
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
    if (!eval || !dladdr1((void *)eval, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
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

static enum vs_python_found find(struct vs_python *p, char *why, size_t why_size)
{
    struct search s = {NULL, NULL, false};
    uint32_t hex;
    search_objects(&s);
    *p = (struct vs_python){0};
    if (!s.runtime)
        return VS_PYTHON_NONE;
    if (s.second) {
        refuse(why, why_size, "two interpreters are in the process%s", "");
        return VS_PYTHON_REFUSED;
    }
    if (!(hex = version_of(s.handle, p->release, sizeof p->release, why, why_size)))
        return VS_PYTHON_REFUSED;
    p->minor = (uint16_t)(hex >> 16 & 255);
    if (hex >> 24 != 3 || is_debug_build(s.handle)) {
        refuse(why, why_size, hex >> 24 != 3 ? "Python %s is unknown" : "CPython %s is a debug build",
               p->release);
        return VS_PYTHON_REFUSED;
    }
    if (lay_out(p, s.runtime, hex, why, why_size) < 0)
        return VS_PYTHON_REFUSED;
    if (!bind_symbols(p, s.handle)) {
        refuse(why, why_size, "CPython %s does not export what is needed", p->release);
        return VS_PYTHON_REFUSED;
    }
    return VS_PYTHON_FOUND;
}

enum vs_python_found vs_python_find(struct vs_python *p, char *why, size_t why_size)
{
    enum vs_python_found found = find(p, why, why_size);
    dlerror(); /* the host must not see the error of our search */
    return found;
}
