/*
 * fake_python.c - an interpreter that is none: it exports what is looked for, and has one frame of code, at
 * line 42 of /fake.py, with the layout of CPython 3.13.  SPOIL says what is wrong with it.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT         __attribute__((visibility("default")))
#define NO_PAGE        ((void *)0x10000000)
#define SPOIL_IS(what) (SPOIL == what)

enum {
    GOOD,
    PRE_RELEASE,
    NEWER,
    OLDER,
    FREE_THREADED,
    NO_COOKIE,
    OTHER_HEX,
    MOVED,
    DEBUG_BUILD,
    NO_SYMBOL,
    NO_TYPE,
    NO_STRING,
    NO_TABLE,
    OUTSIDE,
    NOWHERE,
    ENDLESS
};

#ifndef VERSION
#define VERSION                                                                                              \
    (SPOIL_IS(PRE_RELEASE) ? 0x030d00c2                                                                      \
     : SPOIL_IS(NEWER)     ? 0x031000f0                                                                      \
     : SPOIL_IS(OLDER)     ? 0x030900f0                                                                      \
                           : 0x030d05f0)
#endif

EXPORT const unsigned long Py_Version = VERSION;

/* By their places in _Py_DebugOffsets of 3.13. */
EXPORT uint64_t _PyRuntime[73] = {
    [1] = SPOIL_IS(OTHER_HEX) ? 0x030d04f0 : VERSION,
    [2] = SPOIL_IS(FREE_THREADED),
    [23] = 72, /* state: current_frame */
    [29] = 8,
    [30] = 0,
    [31] = 56,
    [33] = 70, /* frame: previous, executable, instr_ptr, owner */
    [35] = 112,
    [36] = 120,
    [37] = 128,
    [38] = 136,
    [39] = 68,                          /* code: filename, name, qualname, linetable, firstlineno */
    [43] = SPOIL_IS(MOVED) ? 208 : 200, /* code_adaptive */
    [66] = 32,
    [70] = 40, /* bytes: ob_sval; str: size of an ASCII one */
};

EXPORT int PyCode_Type, PyUnicode_Type, PyBytes_Type, _Py_NoneStruct, _PyEval_EvalFrameDefault;
#if SPOIL == 8
EXPORT int _Py_RefTotal;
#endif

struct str {
    uint64_t references;
    void *type;
    uint64_t length, hash, state;
    char text[16];
};
#define ASCII(s)                                                                                             \
    {                                                                                                        \
        1, &PyUnicode_Type, sizeof(s) - 1, 0, 1u << 6 | 1u << 5 | 1u << 2, s                                 \
    }
static struct str file = ASCII("/fake.py"), name = ASCII("Fake.f");
static struct {
    uint64_t references;
    void *type;
    uint64_t length, hash;
    unsigned char bytes[8];
} table = {1, &PyBytes_Type, 2, 0, {0x80 | 13 << 3 | 3, 2}}; /* 4 units, one line further */

static union {
    char bytes[256];
    struct {
        uint64_t references;
        void *type;
        uint64_t units;
        char to_line[68 - 24];
        int line;
        char to_version[92 - 72];
        uint32_t version;
        char to_file[112 - 96];
        void *file, *name, *qualified, *table;
        char to_first[184 - 144];
        int first_traceable;
        char to_code[200 - 188];
        uint16_t code[4];
    } is;
} code = {.is = {1, &PyCode_Type, 4, "", 41, "", 77, "", &file, &name, &name, &table, "", 0, "", {0}}};

static union {
    char bytes[96];
    struct {
        void *code, *previous;
        char to_instr[56 - 16];
        void *instr;
        char to_owner[70 - 64];
        char owner;
    } is;
} frame = {.is = {&code, NULL, "", &code.is.code[1], "", 0}};

static void *state[16] = {[9] = &frame};

static __attribute__((constructor)) void make(void)
{
    if (!SPOIL_IS(NO_COOKIE))
        memcpy(_PyRuntime, "xdebugpy", 8);
    if (SPOIL_IS(NO_TYPE))
        code.is.type = &PyBytes_Type;
    if (SPOIL_IS(NO_STRING))
        code.is.file = &table;
    if (SPOIL_IS(NO_TABLE))
        code.is.table = &name;
    if (SPOIL_IS(OUTSIDE))
        frame.is.instr = (char *)code.is.code + 80;
    if (SPOIL_IS(NOWHERE))
        frame.is.code = NO_PAGE;
    if (SPOIL_IS(ENDLESS))
        frame.is.previous = &frame;
}

EXPORT int fake_finalizing;

#if SPOIL != 9
EXPORT int Py_IsFinalizing(void);
int Py_IsFinalizing(void)
{
    return fake_finalizing;
}
#endif

EXPORT void *PyGILState_GetThisThreadState(void);
void *PyGILState_GetThisThreadState(void)
{
    return state;
}

static int interpreter;

EXPORT void *PyInterpreterState_Head(void);
void *PyInterpreterState_Head(void)
{
    return &interpreter;
}

EXPORT void *PyInterpreterState_Main(void);
void *PyInterpreterState_Main(void)
{
    return &interpreter;
}
