/*
 * interpreter.h - functions of Python that the interpreter calls through a pointer of ours (the vectorcall of
 * PEP 590).
 *
 * Such a function stays what and where it is, and its Python code runs where we call the pointer that was
 * there before.  The hook (python/vramscope/_calls.py) passes addresses and offsets, which it has checked.
 * All of this runs with the GIL held.
 */
#ifndef VS_FRAMEWORK_INTERPRETER_H
#define VS_FRAMEWORK_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *object; /* PyObject * */
typedef object vectorcall_fn(object callable, object const *args, size_t count, object names);

#define ARGUMENTS_OFFSET       ((size_t)1 << (8 * sizeof(size_t) - 1)) /* a flag in an argument count */
#define AT(type, base, offset) (*(type *)((uintptr_t)(base) + (uintptr_t)(offset)))

/* What the hook passes for phases; the objects live as long as the process. */
struct vramscope_python_phases {
    object (*call)(object callable, object const *args, size_t count, object names); /* PyObject_Vectorcall */
    object (*attribute)(object, object name);                                        /* PyObject_GetAttr */
    ptrdiff_t (*tuple_size)(object), (*dict_size)(object);
    void (*clear)(void);                   /* PyErr_Clear */
    void (*keep)(object), (*drop)(object); /* Py_IncRef, Py_DecRef */
    object none, yes, minus_one;           /* None, True, -1 */
    object gradients;                      /* () -> bool: torch.is_grad_enabled */
    object graph_task;                     /* () -> int: -1 outside of the autograd engine */
    object compiling, context; /* while torch.compile traces, this object has this attribute, not None */
    object is_current;         /* (model) -> bool: it has the output layers that it had */
    object ask;                /* (tensors): looks for an output layer that was not called */
    object tool, tools;        /* sys.monitoring.get_tool, a tuple of the numbers; NULL: there is none */
    object before_optimizer, after_optimizer; /* (optimizer, args, kwargs) -> None or ... */
    object backward[3], backward_calls[3];    /* the wrappers, and what they call; NULL beyond the last */
    uint32_t backward_first[3];               /* the argument that backward begins with */
    uint32_t tools_at;                        /* bytes into a tuple: its first item */
};

/* What each call of a module reads, on one line (calls.c). */
extern struct vs_calls {
    _Alignas(64) struct vs_module *modules; /* NULL: none is known */
    uint64_t mask;                          /* places - 1 */
    object wrapper, call, code;
    /* how functions are called: */
    vectorcall_fn *plain;            /* the interpreter's own way; NULL: calls.c is not installed */
    void *(*thread_state)(void);     /* PyThreadState_Get */
    uint16_t vectorcall_at, code_at; /* bytes into a function object */
    uint16_t watch_at; /* bytes into a thread's state: its profile and its trace function, two words */
} vs_calls;
_Static_assert(sizeof(struct vs_calls) == 64, "one line");

/* Whether the frames of the thread with STATE are watched: a profile or trace function is to see the frames
 * of our functions. */
static inline bool vs_interpreter_watched(const void *state)
{
    const uintptr_t *functions = (const uintptr_t *)((uintptr_t)state + vs_calls.watch_at);
    return functions[0] || functions[1];
}

/* From now on FUNCTION is called by OURS. */
void vs_interpreter_take(object function, vectorcall_fn *ours);

/* ---- phase_calls.c, for calls.c ---- */

/* Why a call of a model from outside of any other goes on as it does. */
enum vs_model_call { VS_MODEL_BEGUN, VS_MODEL_PLAIN, VS_MODEL_RAISED };

/* Begins the call of MODEL, which has an output layer of so many CLASSES (0: none), if all is as in nearly
 * all steps.  PLAIN: nothing was done. */
enum vs_model_call vs_phase_model_begins(object model, uint32_t classes, bool ask_current);
void vs_phase_model_ends(bool failed);
/* An output layer is called within a model's call. */
void vs_phase_head_begins(void);

#endif
