/*
 * python.h - the Python frames of the calling thread, read out of CPython's own structures.
 *
 *      python_find.c     which interpreter is in the process, and where its structures have their fields
 *      python_check.c    whether the fields are where we believe, tried on the first frames that are seen
 *      python_text.c     names and lines: strings to UTF-8, an instruction's line from the line table
 *      python_answers.c  whether these are the ones that Python itself says, of code of ours
 *      python_walk.h     thread state -> innermost frame -> walk, inline; python_walk.c: what is rare in it
 *      python.c          capturing: walk -> hash -> this thread's table of stacks -> id
 *
 * Nothing of Python is linked.  Four of its functions, each of which only reads a word, are called until our
 * own reads have agreed with theirs.  A thread's own frames stand still while it is inside our hook: only the
 * thread itself pushes and pops them.  So they are read without the GIL, and a code object on the chain is
 * alive, because its frame holds a reference.
 */
#ifndef VS_STACKS_PYTHON_H
#define VS_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"

/* How code objects of a version are distinguished (see vs_python_frame.identity). */
enum vs_python_kind {
    VS_PYTHON_OBJECTS,  /* 3.10: frames are objects; by what the code object points to */
    VS_PYTHON_STRUCTS,  /* 3.11: likewise, frames are plain structures */
    VS_PYTHON_UNPROVEN, /* 3.12 and later: likewise, until the next has been seen to hold */
    VS_PYTHON_VERSIONS, /* 3.12 and later: by co_version, a number that no two code objects have */
    VS_PYTHON_COPIES    /* likewise, where each thread has bytecode of its own, which may go */
};

/* One interpreter: where its structures have their fields (offsets in bytes; -1 where there is none).  What
 * every capture reads comes first, on a line of its own. */
struct vs_python {
    _Alignas(64) uintptr_t runtime; /* the variable _PyRuntime */
    _Atomic uintptr_t none; /* what stands in a frame that is an entry of the interpreter's loop: the object
                       None, or in 3.12 a code object, known when the first frames are checked */
    uintptr_t code_type;
    _Atomic uint16_t kind; /* enum vs_python_kind */
    uint16_t minor, depth;
    uint16_t tags;           /* bits of a frame's code word that are no address */
    int16_t cframe, current; /* thread state -> frame, by the structure at `cframe` where that is >= 0 */
    int16_t chunk;           /* thread state, with a cframe: the newest piece of the stack of frames, its top
                                and its end, three words */
    int16_t code, previous, instr;                           /* of a frame */
    int16_t version, firstlineno, filename, name, linetable; /* of a code object */
    int16_t finalizing_at, head_at, key_at; /* of _PyRuntime: who ends it, the newest interpreter with the
                                               main one behind it, the key of the threads' states */
    _Atomic bool checked, direct;           /* the offsets are right; those of _PyRuntime are, too */
    _Atomic bool whole;                     /* walks go to the outermost frame (vs_python_walk_whole) */
    _Atomic uint8_t as; /* the minor version whose captures, made for its offsets, may be used; 0: none's */

    _Alignas(64) void *(*thread_state)(void);
    int (*finalizing)(void);
    void *(*first_interpreter)(void);
    void *(*main_interpreter)(void);
    uintptr_t unicode_type, bytes_type;
    int16_t owner, entry;          /* of a frame */
    int16_t bytes, firsttraceable; /* of a code object */
    int16_t ascii, compact;        /* of a str: its characters, by its kind */
    int16_t head;                  /* bytes of each object's beginning, whose last word is its type */
    int16_t state_bits;            /* of a str: where its state has the width of its characters */
    int16_t copy, copies;          /* of a frame: which copy of the bytecode it runs; of a code object: where
                                      they are; -1: there is one */
    int16_t interpreter;           /* of a thread state */
    int32_t copies_changed;        /* of an interpreter: a number that changes when copies come or go */
    uintptr_t eval, eval_end;      /* the code of the interpreter's loop */
    uintptr_t object, object_end;  /* and the object file that it lies in */
    char release[32];              /* "3.11.7", "3.14.0 free-threaded" */
};

/* What may stand in a frame's `owner`; above are structures that are no frames of Python code. */
enum { VS_PYTHON_OWNER_GENERATOR = 1, VS_PYTHON_OWNER_SHIM = 3 };

#define VS_PYTHON_AT(type, base, offset) (*(type const *)((uintptr_t)(base) + (uintptr_t)(offset)))

/* ---- python_find.c ---- */

enum vs_python_found { VS_PYTHON_NONE, VS_PYTHON_FOUND, VS_PYTHON_REFUSED };
/* Whether an interpreter's library is loaded: by its name, without the lock that dlopen holds while
 * constructors run. */
bool vs_python_library_loaded(void);
/* Looks for an interpreter among the loaded objects.  REFUSED: there is one (or two), with one line in WHY.
 */
enum vs_python_found vs_python_find(struct vs_python *p, char *why, size_t why_size);

/* ---- python_check.c ---- */

/* What a check has seen. */
struct vs_python_seen {
    int frames, codes; /* of Python code; different code objects that were made at run time */
    bool same_version; /* of these, two have one number, or one has none */
};

/* Whether the calling thread's frames look as P says, from STATE on; no read can fault. */
bool vs_python_check(const struct vs_python *p, uintptr_t state, struct vs_python_seen *seen);
/* Whether CODE is a code object, as P has them; no read can fault. */
bool vs_python_is_code(const struct vs_python *p, uintptr_t code);

/* ---- python_text.c ---- */

/* The line of the instruction UNIT (in units of two bytes) by a line table of 3.10, or of 3.11 and later; 0
 * where it has none. */
uint32_t vs_python_line_310(const unsigned char *table, size_t length, int first, long unit);
uint32_t vs_python_line_311(const unsigned char *table, size_t length, int first, long unit);

/* Where the bytecode begins that FRAME with CODE runs; 0 where that cannot be known.  */
uintptr_t vs_python_bytecode(const struct vs_python *p, uintptr_t code, uintptr_t frame);
/* The instruction that frame F is at, in units of two bytes (-1: none yet); LONG_MIN where that is unknown.
 */
long vs_python_unit(const struct vs_python *p, const struct vs_python_frame *f);
/* The line of the instruction UNIT of CODE, and the line that frame F is at; 0 where that is unknown. */
uint32_t vs_python_line_at(const struct vs_python *p, uintptr_t code, long unit);
uint32_t vs_python_line(const struct vs_python *p, const struct vs_python_frame *f);

/* Whether the characters of a str with STATE stand right behind its fields. */
bool vs_python_is_compact(const struct vs_python *p, uint32_t state);
/* A str in UTF-8, cut at ROOM; bytes that Python smuggles as lone surrogates become themselves again.  0
 * where it is no plain string. */
size_t vs_python_text(const struct vs_python *p, uintptr_t string, char *to, size_t room);

/* ---- python.c ---- */

/* Looks for an interpreter now: from a place where the loader's lock may be taken. */
void vs_python_prepare(void);

/* Walks the calling thread's frames into BLOCK->python->walked, innermost first, MAX at most, with a hash of
 * them in HASH.  0 where there are none, or where they must not be looked at now.  J is the journal that ids
 * are wanted of. */
int vs_python_walk(struct vs_block *block, struct vs_journal *j, int max, uint64_t hash[2]);

/* The journal's id of a frame that was walked over; 0 where the journal is full, VS_PYTHON_SKIP for what no
 * traceback would show. */
#define VS_PYTHON_SKIP UINT32_MAX
uint32_t vs_python_frame_id(struct vs_block *block, struct vs_journal *j, const struct vs_python_frame *f);

/* The interpreter whose frames are read; NULL: there are no Python frames. */
const struct vs_python *vs_python_now(void);

/* There are no Python frames any more: WHY.
 *
 * Where anything is not as expected (an unknown version, a pre-release, a debug build, two interpreters in
 * one process, fields that hold other things than they should) there are no Python frames at all, and the
 * contract py_frame says why. */
void vs_python_refuse(const char *why);
/* Why there are none although an interpreter is there, one line; "" else. */
const char *vs_python_why_off(void);

/* ---- merge.c: a native stack and the Python frames of the same thread as one stack ----
 *
 *      native                                  Python             merged
 *      cuMemAlloc's caller in libtorch                            cuMemAlloc's caller in libtorch
 *      at::empty                                                  at::empty
 *      _PyEval_EvalFrameDefault            ┌── f                  f
 *                                          └── g                  g
 *      PyObject_Call                                              PyObject_Call
 *      _PyEval_EvalFrameDefault            ─── <module>           <module>
 *      main                                                       main
 *
 * Each call of the interpreter's loop runs one Python frame or several, and says where it was entered:
 * in 3.10 every frame is a call of its own, in 3.11 the entry frame is marked, later a frame of no code
 * stands between.  Where calls and runs do not pair off (parts of the loop that lie elsewhere, an interpreter
 * without that function), all Python frames take the place of what lies in the interpreter. */

/* The frames of both, innermost first, into OUT, MAX at most; the number of them, 0 where the journal is
 * full.  The PYTHON frames are block->python->walked's.  CUT: the native stack may go on. */
int vs_merge(struct vs_block *block, struct vs_journal *j, const struct vs_native_frame *native, int count,
             bool cut, int python, uint32_t *out, int max);

#endif
