/*
 * calls.c - opens and closes the layer of a module's call without running Python code of ours.
 *
 * nn.Module.__call__ is wrapped by a Python function (framework/python/vramscope/_torch.py), which finds
 * phases and layers.  For nearly all calls, those inside of another module's, all that it does is to write
 * the module's number into the thread's cell (layers.h) and the old one back; but to run it makes a call one
 * to three microseconds longer in the midst of a training step.  So the wrapper stays where and what it is, a
 * function that torch.compile traces, that a profiler knows by its code and that torch.fx puts away and back;
 * only the pointer by which the interpreter calls it (the vectorcall of PEP 590, which each function object
 * has) is ours:
 *
 *      module(x) ─▶ the wrapper's vectorcall, ours
 *                   ├─▶ torch's function           within another module's call, of a module that is
 *                   │                              known, on a thread that nobody watches
 *                   └─▶ the wrapper's Python code, and from there torch's function: all other calls
 *
 * The wrapper does all by itself, so nothing is lost where the interpreter runs its code without asking the
 * pointer, as CPython 3.11 does for `super().__call__(x)`.  A thread with a profile or trace function always
 * gets the wrapper's code, because torch.profiler finds modules by frames of just that code; so does
 * everybody once the wrapper's `__code__` was exchanged.
 *
 * While such a call is under way its caller's frames stand still, which shortens the walks over them
 * (core/open_calls.h).
 *
 * Nothing of Python is linked: the hook (_calls.py) passes the addresses, which it has checked.  All of this
 * runs with the GIL held, which also guards the table of modules; a fork child goes on with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "layers.h"
#include "vramscope.h"
#include "core/hot.h"
#include "core/open_calls.h"

typedef void *object; /* PyObject * */
typedef object vectorcall_fn(object callable, object const *args, size_t count, object names);

#define ARGUMENTS_OFFSET       ((size_t)1 << (8 * sizeof(size_t) - 1)) /* a flag in an argument count */
#define AT(type, base, offset) (*(type *)((uintptr_t)(base) + (uintptr_t)(offset)))

/* What the hook passes. */
struct vramscope_python_calls {
    object wrapper, call;                          /* our function, and torch's, which it calls */
    object code;                                   /* the wrapper's */
    vectorcall_fn *plain;                          /* by which the interpreter calls its functions */
    void *(*thread_state)(void);                   /* PyThreadState_Get */
    void (*set)(object function, vectorcall_fn *); /* PyFunction_SetVectorcall; NULL: there is none */
    uint32_t vectorcall_at, code_at;               /* bytes into a function object */
    uint32_t watch_at; /* bytes into a thread's state: its profile and its trace function, two words */
    uint32_t unused;
};

VRAMSCOPE_API int vramscope_auto_calls(const struct vramscope_python_calls *calls);
VRAMSCOPE_API int vramscope_auto_call(uintptr_t module, uint32_t layer);

/* ---- modules that are called past the wrapper's code ---- */

enum { FEWEST = 256, MOST = 1 << 18, GONE = 1 };

struct module {
    uintptr_t module; /* 0: this place was never used; GONE */
    uint32_t layer;
};

/* What each call reads, on a line of its own. */
static VS_HOT struct {
    _Alignas(64) struct module *modules; /* NULL: none is known */
    uint64_t mask;                       /* places - 1 */
    object wrapper, call, code;
    vectorcall_fn *plain;
    void *(*thread_state)(void);
    uint16_t vectorcall_at, code_at, watch_at;
} now;

static uint32_t used, living; /* places that are not 0; those of them that are not GONE */

/* Objects begin at multiples of 16. */
static inline uint64_t place_of(uintptr_t module)
{
    return (module >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* The place of MODULE, or the free one at which the search for it ends: there is always one. */
static inline struct module *find(struct module *modules, uint64_t mask, uintptr_t module)
{
    uint64_t at = place_of(module) & mask;
    while (modules[at].module != module && modules[at].module != 0)
        at = (at + 1) & mask;
    return &modules[at];
}

/* Makes the table anew, without what is gone and at most a quarter full.  False: there is no room. */
static bool renew(void)
{
    uint64_t places = FEWEST;
    while (places < 4 * (uint64_t)living)
        places *= 2;
    int saved = errno;
    struct module *made = places > MOST ? MAP_FAILED
                                        : mmap(NULL, places * sizeof *made, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (made == MAP_FAILED)
        return false;
    for (uint64_t i = 0; now.modules && i <= now.mask; i++)
        if (now.modules[i].module > GONE)
            *find(made, places - 1, now.modules[i].module) = now.modules[i];
    if (now.modules)
        munmap(now.modules, (now.mask + 1) * sizeof *made);
    errno = saved;
    now.modules = made;
    now.mask = places - 1;
    used = living;
    return true;
}

/* From now on calls of MODULE inside of other modules' have LAYER; 0: they run the wrapper's code, as those
 * of a module that is gone.  -1: there is no room, and they run it. */
int vramscope_auto_call(uintptr_t module, uint32_t layer)
{
    if (module <= GONE)
        return -1;
    struct module *m = now.modules ? find(now.modules, now.mask, module) : NULL;
    if (m && m->module) {
        m->layer = layer;
        if (layer == 0) {
            m->module = GONE;
            living--;
        }
        return 0;
    }
    if (layer == 0)
        return 0;
    if (!m || 2 * (uint64_t)(used + 1) > now.mask) {
        if (!renew())
            return -1;
        m = find(now.modules, now.mask, module);
    }
    *m = (struct module){module, layer};
    used++;
    living++;
    return 0;
}

/* ---- calls ---- */

/* Whether the thread's frames are watched: a profile or trace function is to see the wrapper's frame. */
static inline bool watched(const void *state)
{
    const uintptr_t *functions = (const uintptr_t *)((uintptr_t)state + now.watch_at);
    return functions[0] || functions[1];
}

static VS_HOT_CODE object call_module(object function, object const *args, size_t count, object names)
{
    struct vs_layer_now *here = &vs_layer_now;
    const void *state;
    if (!here->inside || !(count & ~ARGUMENTS_OFFSET) || !now.modules || function != now.wrapper ||
        AT(object, function, now.code_at) != now.code || watched(state = now.thread_state()))
        return now.plain(function, args, count, names);
    const struct module *m = find(now.modules, now.mask, (uintptr_t)args[0]);
    if (m->module == 0)
        return now.plain(function, args, count, names);
    uint32_t outer = here->module, level = vs_open_call_begin(vs_open_calls_frame(state));
    here->module = m->layer;
    object result = AT(vectorcall_fn *, now.call, now.vectorcall_at)(now.call, args, count, names);
    here->module = outer;
    vs_open_call_end(level);
    return result;
}

/* ---- installing ---- */

static bool is_as_said(const struct vramscope_python_calls *calls)
{
    return calls->wrapper && calls->call && calls->plain && calls->thread_state &&
           calls->vectorcall_at <= UINT16_MAX && calls->code_at <= UINT16_MAX &&
           calls->watch_at <= UINT16_MAX &&
           AT(vectorcall_fn *, calls->wrapper, calls->vectorcall_at) == calls->plain &&
           AT(vectorcall_fn *, calls->call, calls->vectorcall_at) == calls->plain &&
           AT(object, calls->wrapper, calls->code_at) == calls->code;
}

/* Has the wrapper called as above, from now on.  -1: things are not as CALLS says, or there is a wrapper
 * already (another interpreter's), and nothing has changed. */
int vramscope_auto_calls(const struct vramscope_python_calls *calls)
{
    if (now.wrapper || !is_as_said(calls))
        return -1;
    now.wrapper = calls->wrapper;
    now.call = calls->call;
    now.code = calls->code;
    now.plain = calls->plain;
    now.thread_state = calls->thread_state;
    now.vectorcall_at = (uint16_t)calls->vectorcall_at;
    now.code_at = (uint16_t)calls->code_at;
    now.watch_at = (uint16_t)calls->watch_at;
    if (calls->set)
        calls->set(calls->wrapper, call_module);
    else
        AT(vectorcall_fn *, calls->wrapper, calls->vectorcall_at) = call_module;
    return 0;
}
