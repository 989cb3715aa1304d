/*
 * calls.c - opens and closes the layer of a module's call without running Python code of ours.
 *
 * A Python function wraps nn.Module.__call__ (framework/python/vramscope/_torch.py), and running it makes a
 * call one to three microseconds longer.  For nearly all calls, those inside of another module's, it only
 * writes the module's number into the thread's cell (layers.h) and the old one back.  So the wrapper stays
 * where and what it is, and only the pointer by which the interpreter calls it (the vectorcall of PEP 590)
 * is ours:
 *
 *      module(x) ─▶ the wrapper's vectorcall, ours
 *                   ├─▶ torch's function           of a module that is known, on a thread that nobody
 *                   │                              watches, within another module's call; a model's own call
 *                   │                              finds its phase opened (phase_calls.c)
 *                   └─▶ the wrapper's Python code, and from there torch's function: all other calls
 *
 * The wrapper does all by itself, so nothing is lost where the interpreter does not ask the pointer, as
 * CPython 3.11 for `super().__call__(x)`.  Nothing of Python is linked: the hook (_calls.py) passes
 * addresses.  All of this runs with the GIL held, which also guards the table of modules; a fork child goes
 * on with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "interpreter.h"
#include "layers.h"
#include "phases.h"
#include "vramscope.h"
#include "core/contracts.h"
#include "core/hot.h"
#include "core/open_calls.h"
#include "core/readable.h"

/* What the hook passes. */
struct vramscope_python_calls {
    object wrapper, call;                          /* our function, and torch's, which it calls */
    object code;                                   /* the wrapper's */
    vectorcall_fn *plain;                          /* by which the interpreter calls its functions */
    void *(*thread_state)(void);                   /* PyThreadState_Get */
    void (*set)(object function, vectorcall_fn *); /* PyFunction_SetVectorcall; NULL: there is none */
    uint32_t vectorcall_at, code_at;               /* bytes into a function object */
    uint32_t watch_at; /* bytes into a thread's state: its profile and its trace function, two words */
    uint32_t frame_at; /* and the word that leads to its frame */
    object running;    /* the code that runs while we are passed this */
};

VRAMSCOPE_API int vramscope_auto_calls(const struct vramscope_python_calls *calls);
VRAMSCOPE_API int vramscope_auto_call(uintptr_t module, uint32_t layer);
VRAMSCOPE_API int vramscope_auto_model(uintptr_t module, uint32_t classes, unsigned is_model);

/* ---- modules that are called past the wrapper's code ---- */

enum { FEWEST = 256, MOST = 1 << 18, GONE = 1, FRAME_HEAD = 5 };

#define IS_HEAD UINT32_C(0x80000000) /* in the layer that the hook passes: it is an output layer */

enum model { NO_MODEL, MODEL, MODEL_WITH_HEADS, LOSS };

struct vs_module {
    uintptr_t module; /* 0: this place was never used; GONE */
    uint32_t layer;   /* 0: not known yet */
    bool is_head;
    uint8_t model;    /* enum model: it was called from outside of any other, and was looked at; LOSS: such a
                         call names no phase */
    uint32_t classes; /* of the model's output layer; 0: it has none */
};

VS_HOT struct vs_calls vs_calls;
static void (*set_function)(object function, vectorcall_fn *); /* NULL: there is none */

static uint32_t used, living; /* places that are not 0; those of them that are not GONE */

/* Objects begin at multiples of 16. */
static inline uint64_t place_of(uintptr_t module)
{
    return (module >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* The place of MODULE, or the free one at which the search for it ends: there is always one. */
static inline struct vs_module *find(struct vs_module *modules, uint64_t mask, uintptr_t module)
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
    struct vs_module *made = places > MOST ? MAP_FAILED
                                           : mmap(NULL, places * sizeof *made, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (made == MAP_FAILED)
        return false;
    for (uint64_t i = 0; vs_calls.modules && i <= vs_calls.mask; i++)
        if (vs_calls.modules[i].module > GONE)
            *find(made, places - 1, vs_calls.modules[i].module) = vs_calls.modules[i];
    if (vs_calls.modules)
        munmap(vs_calls.modules, (vs_calls.mask + 1) * sizeof *made);
    errno = saved;
    vs_calls.modules = made;
    vs_calls.mask = places - 1;
    used = living;
    return true;
}

/* The place of MODULE, which is made if there is none.  NULL: there is no room. */
static struct vs_module *place_for(uintptr_t module)
{
    struct vs_module *m = vs_calls.modules ? find(vs_calls.modules, vs_calls.mask, module) : NULL;
    if (m && m->module)
        return m;
    if (!m || 2 * (uint64_t)(used + 1) > vs_calls.mask) {
        if (!renew())
            return NULL;
        m = find(vs_calls.modules, vs_calls.mask, module);
    }
    *m = (struct vs_module){.module = module};
    used++;
    living++;
    return m;
}

static int forget(uintptr_t module)
{
    struct vs_module *m = vs_calls.modules ? find(vs_calls.modules, vs_calls.mask, module) : NULL;
    if (m && m->module) {
        *m = (struct vs_module){.module = GONE};
        living--;
    }
    return 0;
}

/* From now on calls of MODULE inside of other modules' have LAYER, which may be an output layer's (IS_HEAD);
 * 0: they run the wrapper's code, as those of a module that is gone.  -1: there is no room, and they run it,
 * or all do.  Then the table stays empty: in a free-threaded build nothing guards it. */
int vramscope_auto_call(uintptr_t module, uint32_t layer)
{
    if (module <= GONE || !vs_calls.wrapper)
        return -1;
    if (layer == 0)
        return forget(module);
    struct vs_module *m = place_for(module);
    if (!m)
        return -1;
    m->layer = layer & ~IS_HEAD;
    m->is_head = layer & IS_HEAD;
    return 0;
}

/* MODULE was called from outside of any other, and is as enum model says; CLASSES: as in struct vs_module. */
int vramscope_auto_model(uintptr_t module, uint32_t classes, unsigned is_model)
{
    bool known = vs_calls.modules && find(vs_calls.modules, vs_calls.mask, module)->module;
    struct vs_module *m = module > GONE && (is_model || known) ? place_for(module) : NULL;
    if (!m)
        return is_model ? -1 : 0;
    m->model = (uint8_t)is_model;
    m->classes = classes;
    return 0;
}

/* ---- calls ---- */

/* Torch's function for a module with LAYER.  Meanwhile its caller's frames stand still, which shortens the
 * walks over them (core/open_calls.h). */
static inline object call_with_layer(uint32_t layer, const void *state, object const *args, size_t count,
                                     object names)
{
    struct vs_layer_now *here = &vs_layer_now;
    uint32_t outer = here->module, level = vs_open_call_begin_in(state);
    here->module = layer;
    object result =
        AT(vectorcall_fn *, vs_calls.call, vs_calls.vectorcall_at)(vs_calls.call, args, count, names);
    here->module = outer;
    vs_open_call_end(level);
    return result;
}

/* A call of M that is in no other module's.  The wrapper's code runs also where we have opened the phase, and
 * finds nothing to do: one frame of it a step, by which a profiler that begins within names the model. */
static __attribute__((noinline)) object call_model(const struct vs_module *m, const void *state,
                                                   object function, object const *args, size_t count,
                                                   object names)
{
    if (m->model == LOSS && !vs_phases.inside)
        return call_with_layer(m->layer, state, args, count, names);
    switch (m->model == NO_MODEL || m->is_head
                ? VS_MODEL_PLAIN
                : vs_phase_model_begins(args[0], m->classes, m->model == MODEL_WITH_HEADS)) {
    case VS_MODEL_PLAIN:
        return vs_calls.plain(function, args, count, names);
    case VS_MODEL_RAISED:
        return NULL;
    case VS_MODEL_BEGUN:
        break;
    }
    vs_layer_now.inside = 1;
    uint32_t level = vs_open_call_begin_in(state);
    object result = vs_calls.plain(function, args, count, names);
    vs_open_call_end(level);
    vs_layer_now.inside = 0;
    vs_phase_model_ends(!result);
    return result;
}

/* A thread with a profile or trace function gets the wrapper's code, because torch.profiler finds modules by
 * frames of just that code; so does everybody once the wrapper's `__code__` was exchanged. */
static VS_HOT_CODE object call_module(object function, object const *args, size_t count, object names)
{
    const void *state;
    if (!(count & ~ARGUMENTS_OFFSET) || !vs_calls.modules || function != vs_calls.wrapper ||
        AT(object, function, vs_calls.code_at) != vs_calls.code ||
        vs_interpreter_watched(state = vs_calls.thread_state()))
        return vs_calls.plain(function, args, count, names);
    const struct vs_module *m = find(vs_calls.modules, vs_calls.mask, (uintptr_t)args[0]);
    if (m->layer == 0)
        return vs_calls.plain(function, args, count, names);
    if (__builtin_expect(!vs_layer_now.inside, 0))
        return call_model(m, state, function, args, count, names);
    uint32_t layer = m->layer;
    if (__builtin_expect(m->is_head, 0))
        vs_phase_head_begins();
    return call_with_layer(layer, state, args, count, names);
}

/* ---- installing ---- */

void vs_interpreter_take(object function, vectorcall_fn *ours)
{
    if (set_function)
        set_function(function, ours);
    else
        AT(vectorcall_fn *, function, vs_calls.vectorcall_at) = ours;
}

static bool is_as_said(const struct vramscope_python_calls *calls)
{
    return calls->wrapper && calls->call && calls->plain && calls->thread_state &&
           calls->vectorcall_at <= UINT16_MAX && calls->code_at <= UINT16_MAX &&
           calls->watch_at <= UINT16_MAX &&
           AT(vectorcall_fn *, calls->wrapper, calls->vectorcall_at) == calls->plain &&
           AT(vectorcall_fn *, calls->call, calls->vectorcall_at) == calls->plain &&
           AT(object, calls->wrapper, calls->code_at) == calls->code;
}

/* Whether the first words of a frame at ADDRESS, if there is one, have CODE among them; from CPython 3.14 on
 * a reference may have marks in its two lowest bits.  The address sanitizer does not know that what is there
 * may be anything. */
static __attribute__((no_sanitize("address"))) bool is_frame_of(uintptr_t address, object code)
{
    const uintptr_t *words = (const uintptr_t *)address;
    size_t i = 0;
    if (address == 0 || address % sizeof(object) || !vs_readable_bytes(address, FRAME_HEAD * sizeof *words))
        return false;
    while (i < FRAME_HEAD && (words[i] & ~(uintptr_t)3) != (uintptr_t)code)
        i++;
    return i < FRAME_HEAD;
}

/* Whether the thread's state is laid out as CALLS says: that nobody watches is two words of 0, as many are,
 * but only one word leads to the frame that runs: it is the frame (3.10, from 3.13 on), or has it in one of
 * its first two words (3.11, 3.12). */
static bool is_state_known(const struct vramscope_python_calls *calls)
{
    uintptr_t state = (uintptr_t)calls->thread_state(), at = state + calls->frame_at;
    if (calls->frame_at == 0 || calls->frame_at > UINT16_MAX || calls->frame_at % sizeof(object) ||
        !vs_readable_bytes(at, sizeof at))
        return vs_contract_broken(VS_CONTRACT_PY_THREAD_STATE, "a thread's state ends before its frame");
    uintptr_t word = AT(uintptr_t, at, 0);
    bool known = is_frame_of(word, calls->running);
    for (size_t i = 0; i < 2 && !known; i++) {
        uintptr_t inner = word + i * sizeof inner;
        known = word != 0 && word % sizeof inner == 0 && vs_readable_bytes(inner, sizeof inner) &&
                is_frame_of(AT(uintptr_t, inner, 0), calls->running);
    }
    if (!known)
        return vs_contract_broken(VS_CONTRACT_PY_THREAD_STATE,
                                  "byte %u of a thread's state does not lead to the "
                                  "code that runs",
                                  calls->frame_at);
    vs_contract_proven(VS_CONTRACT_PY_THREAD_STATE, "byte %u of it leads to the code that runs",
                       calls->frame_at);
    return true;
}

/* Has the wrapper called as above, from now on.  -1: things are not as CALLS says, or there is a wrapper
 * already (another interpreter's), and nothing has changed. */
int vramscope_auto_calls(const struct vramscope_python_calls *calls)
{
    if (vs_calls.wrapper || !is_as_said(calls) || !is_state_known(calls))
        return -1;
    vs_calls.wrapper = calls->wrapper;
    vs_calls.call = calls->call;
    vs_calls.code = calls->code;
    vs_calls.plain = calls->plain;
    vs_calls.thread_state = calls->thread_state;
    vs_calls.vectorcall_at = (uint16_t)calls->vectorcall_at;
    vs_calls.code_at = (uint16_t)calls->code_at;
    vs_calls.watch_at = (uint16_t)calls->watch_at;
    set_function = calls->set;
    vs_interpreter_take(calls->wrapper, call_module);
    return 0;
}
