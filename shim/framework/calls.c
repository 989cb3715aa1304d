/*
 * calls.c - opens and closes the layer of a module's call without running Python code.
 *
 * nn.Module.__call__ is wrapped by a Python function (framework/python/vramscope/_torch.py), which finds
 * phases and layers.  For nearly all calls, those inside of another module's, all it does is to write the
 * module's number into the thread's cell (layers.h) and the old one back; but running it makes a call two
 * microseconds longer in the midst of a training step.  So an object stands in front of it:
 *
 *      nn.Module.__call__ ─▶ [object] ─┬─▶ torch's own function       the call is inside of another, the
 * module known └─▶ the wrapper, then torch's  all others: the first of each module, outermost calls, output
 * layers
 *
 * The interpreter calls it with the module in front, as it does a function.  Whoever asks for the attribute,
 * of the class or of a module, gets the wrapper, and so do Dynamo, torch.fx and inspect.
 *
 * Nothing of Python is linked: the hook passes the addresses of the functions needed.  The layouts of the
 * structures are those of the stable ABI, but for the object's head, which is two words in all builds that
 * the hook lets through.  All of this runs with the GIL held, which also guards the table.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "layers.h"
#include "vramscope.h"

typedef void *object; /* PyObject * */
typedef object vectorcall_fn(object callable, object const *args, size_t count, object names);

struct type_slot {
    int slot;
    void *function;
};
struct type_spec {
    const char *name;
    int size, item_size;
    unsigned flags;
    struct type_slot *slots;
};
struct type_member {
    const char *name;
    int type;
    ssize_t offset;
    int flags;
    const char *doc;
};
struct caller {
    uintptr_t head[2];
    vectorcall_fn *call;
};

enum { TP_CALL = 50, TP_DESCR_GET = 54, TP_MEMBERS = 72, PYSSIZET = 19, READONLY = 1 };
enum { HAVE_VECTORCALL = 1 << 11, METHOD_DESCRIPTOR = 1 << 17, DEFAULT_FLAGS = 1 << 18 };
#define ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1)) /* a flag in an argument count */

/* What the hook passes; functions of the interpreter's by their names there. */
struct vramscope_python_calls {
    vectorcall_fn *vectorcall;                          /* PyObject_Vectorcall */
    object (*tuple_call)(object, object, object);       /* PyVectorcall_Call */
    object (*method_new)(object function, object self); /* PyMethod_New */
    void (*inc_ref)(object);                            /* Py_IncRef */
    object (*type_from_spec)(struct type_spec *);       /* PyType_FromSpec */
    object (*call_object)(object callable, object);     /* PyObject_CallObject */
    object call, wrapper;                               /* torch's function, and ours around it */
};
static struct vramscope_python_calls python;

VRAMSCOPE_API object vramscope_auto_caller(const struct vramscope_python_calls *calls);
VRAMSCOPE_API int vramscope_auto_call(object module, uint32_t layer);

/* ---- modules that are called without the wrapper ---- */

enum { MODULES = 1 << 16, GONE = 1 };

static struct {
    uintptr_t module; /* 0: never used; GONE */
    uint32_t layer;
} * modules;
static uint32_t used; /* places that were ever taken */

static uint32_t place_of(uintptr_t module)
{
    return (uint32_t)(module * UINT64_C(0x9e3779b97f4a7c15) >> 48) % MODULES;
}

static inline uint32_t layer_of(object module)
{
    if (__builtin_expect(!modules, 0))
        return 0;
    for (uint32_t at = place_of((uintptr_t)module);; at = (at + 1) % MODULES) {
        if (modules[at].module == (uintptr_t)module)
            return modules[at].layer;
        if (modules[at].module == 0) /* there is always one: see vramscope_auto_call() */
            return 0;
    }
}

static bool make_table(void)
{
    int saved = errno;
    void *made =
        mmap(NULL, MODULES * sizeof *modules, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    modules = made == MAP_FAILED ? NULL : made;
    return modules;
}

/* From now on calls of MODULE inside of other modules' have LAYER; 0: they go through the wrapper, as those
 * of a module that is gone.  -1: there is no room, and they go through the wrapper. */
int vramscope_auto_call(object module, uint32_t layer)
{
    if (!modules && (layer == 0 || !make_table()))
        return layer == 0 ? 0 : -1;
    uint32_t at = place_of((uintptr_t)module);
    while (modules[at].module != 0 && modules[at].module != (uintptr_t)module)
        at = (at + 1) % MODULES;
    if (modules[at].module == 0) {
        if (layer == 0)
            return 0;
        if (used == MODULES / 2)
            return -1;
        used++;
    }
    modules[at].module = layer ? (uintptr_t)module : GONE;
    modules[at].layer = layer;
    return 0;
}

/* ---- calls ---- */

static object call_module(object caller, object const *args, size_t count, object names)
{
    struct vs_layer_now *now = &vs_layer_now;
    uint32_t layer = now->inside && (count & ~ARGUMENTS_OFFSET) ? layer_of(args[0]) : 0;
    if (layer == 0)
        return python.vectorcall(python.wrapper, args, count, names);
    uint32_t outer = now->module;
    now->module = layer;
    object result = python.vectorcall(python.call, args, count, names);
    now->module = outer;
    return result;
}

static object get(object caller, object module, object type)
{
    if (module)
        return python.method_new(python.wrapper, module);
    python.inc_ref(python.wrapper);
    return python.wrapper;
}

/* A new reference to the object that stands in front; NULL with Python's error set.  CALLS' two objects stay
 * referenced. */
object vramscope_auto_caller(const struct vramscope_python_calls *calls)
{
    static struct type_member members[] = {
        {"__vectorcalloffset__", PYSSIZET, offsetof(struct caller, call), READONLY, NULL},
        {NULL, 0, 0, 0, NULL}};
    struct type_slot slots[] = {
        {TP_MEMBERS, members}, {TP_DESCR_GET, (void *)get}, {TP_CALL, (void *)calls->tuple_call}, {0, NULL}};
    struct type_spec spec = {"vramscope.caller", sizeof(struct caller), 0,
                             DEFAULT_FLAGS | HAVE_VECTORCALL | METHOD_DESCRIPTOR, slots};
    object type = calls->type_from_spec(&spec), made = type ? calls->call_object(type, NULL) : NULL;
    if (!made)
        return NULL;
    python = *calls;
    python.inc_ref(python.call);
    python.inc_ref(python.wrapper);
    ((struct caller *)made)->call = call_module;
    return made;
}
