/*
 * fake_python.c - an interpreter that is none: it exports what is looked for, and has frames of code at lines
 * 42 of /fake.py, with the layout of CPython 3.13, or of MINOR, free-threaded if FREE.  SPOIL says what is
 * wrong with it.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT         __attribute__((visibility("default")))
#define NO_PAGE        ((void *)0x10000000)
#define SPOIL_IS(what) (SPOIL == what)

/* In the order of tests.cmake. */
enum {
    GOOD,
    PRE_RELEASE,
    NEWER,
    OLDER,
    HALF_FREE, /* it says that it is free-threaded, and has its fields where the default build has */
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
    ENDLESS,
    SECOND,
    NO_NUMBERS,
    SAME_NUMBERS,
    ALONE,          /* one frame */
    OTHER_STRINGS,  /* their state has its bits where another build has */
    COPIES_NOWHERE, /* the array of the threads' bytecode */
    NO_COPY,        /* it is too short for the frame's thread */
    OTHER_COPY      /* the frame's instruction is in none */
};

#ifndef MINOR
#define MINOR 13
#endif
#ifndef FREE
#define FREE 0
#endif
#define COPIES (FREE && MINOR >= 14)
#define HEAD   (FREE ? 32 : 16)

#define VERSION                                                                                              \
    (SPOIL_IS(PRE_RELEASE) ? 0x030d00c2                                                                      \
     : SPOIL_IS(NEWER)     ? 0x031000f0                                                                      \
     : SPOIL_IS(OLDER)     ? 0x030900f0                                                                      \
                           : 0x030005f0 | MINOR << 16)

EXPORT const unsigned long Py_Version = VERSION;

/* The words of _Py_DebugOffsets where its sections begin. */
#if MINOR == 13
enum { THREAD = 19, FRAME = 28, CODE = 34, OBJECT = 44, BYTES = 64, STR = 67, WORDS = 73 };
#else
enum { THREAD = 22, FRAME = 31, CODE = 39, OBJECT = 50, BYTES = 74, STR = 77, WORDS = 95 };
#endif
enum {
    TO_FILE = 96 + HEAD,
    TO_FIRST = (MINOR == 13 ? 168 : 176) + HEAD,
    TO_CODE = TO_FIRST + 16 + 8 * COPIES,
    TO_OWNER = MINOR == 13 ? 70
               : FREE      ? 78
                           : 74
};

EXPORT uint64_t _PyRuntime[WORDS] = {
    [1] = SPOIL_IS(OTHER_HEX) ? 0x030d04f0 : VERSION,
    [2] = FREE || SPOIL_IS(HALF_FREE),
#if MINOR >= 14
    [21] = 1024, /* interpreter: tlbc_generation */
#endif
    [THREAD + 3] = 16,
    72, /* state: interp, current_frame */
    [FRAME + 1] = 8,
    0,
    56,
    80,
    TO_OWNER,
#if MINOR >= 14
    64,
    COPIES ? 72 : 0, /* frame: previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index */
#endif
    [CODE + 1] = TO_FILE,
    TO_FILE + 8,
    TO_FILE + 16,
    TO_FILE + 24,
    52 + HEAD, /* code: filename, name, qualname, linetable, firstlineno */
    [CODE + 9] = TO_CODE + 8 * SPOIL_IS(MOVED),
#if MINOR >= 14
    COPIES ? TO_CODE - 8 : 0, /* co_code_adaptive, co_tlbc */
#endif
    [OBJECT + 1] = HEAD - 8,
    [BYTES + 1] = HEAD,
    HEAD + 16,
    [STR + 1] = HEAD + 16,
    HEAD,
    HEAD + 24, /* state, length, size of an ASCII one */
};

EXPORT int PyCode_Type, PyUnicode_Type, PyBytes_Type, _Py_NoneStruct, _PyEval_EvalFrameDefault;
#if SPOIL == 8
EXPORT int _Py_RefTotal;
#endif

struct head {
    uint64_t counts[HEAD / 8 - 1];
    void *type;
};

#define STATE_BITS (COPIES != SPOIL_IS(OTHER_STRINGS) ? 8 : 2)
struct str {
    struct head head;
    uint64_t length, hash, state;
    char text[16];
};
#define ASCII(s)                                                                                             \
    {                                                                                                        \
        {{1}, &PyUnicode_Type}, sizeof(s) - 1, 0, (uint64_t)(1u << 4 | 1u << 3 | 1u) << STATE_BITS, s        \
    }
static struct str file = ASCII("/fake.py"), name = ASCII("Fake.f");
static struct {
    struct head head;
    uint64_t length, hash;
    unsigned char bytes[8];
} table = {
    {{1}, &PyBytes_Type}, 4, 0, {0x80 | 13 << 3 | 1, 2, 0x80 | 13 << 3 | 1, 4}}; /* two units one line
                                                                              further, two three lines */

static struct {
    uint64_t size;
    uint16_t *entries[2];
} copies;

struct code {
    struct head head;
    uint64_t units;
    char to_line[52 - 8];
    int line;
    char to_version[76 - 56];
    uint32_t version;
    void *locals[2];
    void *file, *name, *qualified, *table;
    char to_first[TO_FIRST - TO_FILE - 32];
    int first_traceable;
    char to_copies[12];
#if COPIES
    void *copies;
#endif
    uint16_t code[4];
};
_Static_assert(offsetof(struct code, line) == 52 + HEAD && offsetof(struct code, version) == 76 + HEAD &&
                   offsetof(struct code, file) == TO_FILE && offsetof(struct code, code) == TO_CODE,
               "as the words above say");
static struct code *inner, *outer; /* not in the interpreter's file, as what it was built with */

struct frame {
    void *code, *previous;
    char to_instr[56 - 16];
    void *instr, *stack;
    int32_t copy;
    char to_owner[4];
    char owner[8];
};
static struct frame frame, caller;
static uint16_t copy[8];

static uint64_t interpreter[256];
static void *state[16] = {[2] = interpreter, [9] = &frame};

/* A function that runs, at its second unit. */
static struct code *make_frame(struct frame *f, uint32_t version, struct frame *previous)
{
    struct code *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *code = (struct code){.head = {{1}, &PyCode_Type},
                          .units = 4,
                          .line = 41,
                          .version = SPOIL_IS(NO_NUMBERS) ? 0 : version,
                          .file = &file,
                          .name = &name,
                          .qualified = &name,
                          .table = &table};
    *f = (struct frame){.code = code, .previous = previous, .instr = &code->code[1]};
    return code;
}

/* The inner frame is of a thread that runs bytecode of its own. */
static void use_copy(void)
{
#if COPIES
    copies.size = SPOIL_IS(NO_COPY) ? 1 : 2;
    copies.entries[0] = inner->code;
    copies.entries[1] = &copy[4];
    inner->copies = outer->copies = SPOIL_IS(COPIES_NOWHERE) ? NO_PAGE : &copies;
    frame.copy = 1;
    frame.instr = SPOIL_IS(OTHER_COPY) ? &inner->code[1] : &copy[5];
    frame.code = (char *)inner + 1; /* references that are not counted have a mark */
#endif
}

static __attribute__((constructor)) void make(void)
{
    if (!SPOIL_IS(NO_COOKIE))
        memcpy(_PyRuntime, "xdebugpy", 8);
    outer = make_frame(&caller, SPOIL_IS(SAME_NUMBERS) ? 77 : 78, NULL);
    inner = make_frame(&frame, 77, SPOIL_IS(ALONE) ? NULL : &caller);
    use_copy();
    if (SPOIL_IS(NO_TYPE))
        inner->head.type = outer->head.type = &PyBytes_Type;
    if (SPOIL_IS(NO_STRING))
        inner->file = &table;
    if (SPOIL_IS(NO_TABLE))
        inner->table = &name;
    if (SPOIL_IS(OUTSIDE))
        frame.instr = (char *)inner->code + 80;
    if (SPOIL_IS(NOWHERE))
        frame.code = NO_PAGE;
    if (SPOIL_IS(ENDLESS))
        caller.previous = &frame;
}

/* What is at the instruction's address becomes another instruction, two further on: the thread's bytecode was
 * given up and made again, as may be once threads have come and gone. */
EXPORT void fake_other_copy(void);
void fake_other_copy(void)
{
    copies.entries[1] = &copy[2];
    interpreter[128]++;
}

/* The outer of the two frames, and the inner one or both go on to another line. */
EXPORT void *fake_caller(void);
void *fake_caller(void)
{
    return &caller;
}

EXPORT void fake_goes_on(int both);
void fake_goes_on(int both)
{
    frame.instr = &inner->code[3];
    if (both)
        caller.instr = &outer->code[3];
}

EXPORT void *fake_code(void);
void *fake_code(void)
{
    return inner;
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

EXPORT void *PyInterpreterState_Head(void);
void *PyInterpreterState_Head(void)
{
    return interpreter;
}

EXPORT void *PyInterpreterState_Main(void);
void *PyInterpreterState_Main(void)
{
    return interpreter;
}
