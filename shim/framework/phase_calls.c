/*
 * phase_calls.c - opens and closes phases where the interpreter calls a hook, without running its Python
 * code.
 *
 * The hooks (python/vramscope/_torch.py) are functions of Python that do all by themselves; their pointers
 * are ours (interpreter.h).  Here is what nearly every step does.  Everything else runs the hook's code, and
 * so does every call on a thread with a profile or trace function and whatever is called by code that the
 * program has exchanged.
 *
 * An exception that is under way is left as it is: what closes phases calls nothing of Python's.
 */
#define _GNU_SOURCE
#include <time.h>

#include "interpreter.h"
#include "layers.h"
#include "phases.h"
#include "vramscope.h"
#include "core/contracts.h"
#include "core/hot.h"

enum { BACKWARDS = 3, TOOLS = 6 };

VRAMSCOPE_API int vramscope_auto_hooks(const struct vramscope_python_phases *said);

static VS_HOT struct vramscope_python_phases python; /* `call` NULL: not installed */
static object hook_codes[2 + BACKWARDS];             /* of the optimizers' hooks, and of the wrappers */

/* ---- asking Python ---- */

static object ask_python(object function)
{
    return python.call(function, NULL, 0, NULL);
}

/* Whether FUNCTION () answers ANSWER, one of the objects of which there is but one. */
static bool answers(object function, object answer)
{
    object said = ask_python(function);
    if (!said) {
        python.clear();
        return false;
    }
    python.drop(said);
    return said == answer;
}

/* Whether torch.compile is at work: it calls autograd on tensors without memory. */
static bool is_tracing(void)
{
    object context = python.attribute(python.compiling, python.context);
    if (!context) {
        python.clear(); /* the thread has never traced */
        return false;
    }
    python.drop(context);
    return context != python.none;
}

static bool is_monitored(void)
{
    for (size_t i = 0; python.tool && i < TOOLS; i++) {
        object number = ((object *)((uintptr_t)python.tools + python.tools_at))[i];
        object tool = python.call(python.tool, &number, 1, NULL);
        if (!tool)
            python.clear();
        else
            python.drop(tool);
        if (tool != python.none)
            return true;
    }
    return false;
}

/* Whether HOOK is to run its own code. */
static bool runs_its_code(object hook, object code)
{
    return AT(object, hook, vs_calls.code_at) != code || vs_interpreter_watched(vs_calls.thread_state());
}

/* ---- models ---- */

enum vs_model_call vs_phase_model_begins(object model, uint32_t classes, bool ask_current)
{
    struct vs_phases *p = &vs_phases;
    if (!python.call || !vs_phases_all.on || p->inside || p->optimizers || is_monitored() ||
        !answers(python.graph_task, python.minus_one) || !answers(python.gradients, python.yes))
        return VS_MODEL_PLAIN;
    if (ask_current) {
        object current = python.call(python.is_current, &model, 1, NULL);
        if (!current)
            return VS_MODEL_RAISED;
        python.drop(current);
        if (current != python.yes)
            return VS_MODEL_PLAIN;
    }
    vs_phases_begin_call(p, VS_FORWARD, true, classes);
    return VS_MODEL_BEGUN;
}

void vs_phase_model_ends(bool failed)
{
    if (vs_phases.inside)
        vs_phases_end_call(&vs_phases, failed);
}

void vs_phase_head_begins(void)
{
    if (vs_phases.inside && vs_phases_all.on)
        vs_phases_begin_head(&vs_phases, answers(python.gradients, python.yes));
}

/* ---- backward ---- */

/* Opens backward, where it is the thread's outermost.  False: Python has raised an exception. */
static bool begin_backward(struct vs_phases *p, object tensors)
{
    if (!answers(python.graph_task, python.minus_one) || is_tracing())
        return true;
    if (!p->logits_seen && !p->inside &&
        (vs_phases_all.ask == VS_ASK || (vs_phases_all.ask == VS_ASK_WITH_CLASSES && p->classes))) {
        object none = python.call(python.ask, &tensors, 1, NULL);
        if (!none)
            return false;
        python.drop(none);
    }
    vs_phases_begin_backward(p);
    return true;
}

static object backward(object wrapper, object const *args, size_t count, object names)
{
    struct vs_phases *p = &vs_phases;
    size_t which = 0, given = count & ~ARGUMENTS_OFFSET;
    while (which < BACKWARDS && python.backward[which] != wrapper)
        which++;
    /* a program that calls the engine itself: frames of the wrapper's code are the boundary (stacks/graft.c)
     */
    bool engine = which < BACKWARDS && python.backward_first[which] != 0 && !p->in_backward;
    if (which == BACKWARDS || engine || runs_its_code(wrapper, hook_codes[2 + which]))
        return vs_calls.plain(wrapper, args, count, names);
    object inner = python.backward_calls[which];
    if (!vs_phases_all.on)
        return python.call(inner, args, count, names);
    uint32_t outer = vs_layer_now.module, within = p->in_backward, first = python.backward_first[which];
    object result = NULL;
    if (within || begin_backward(p, first < given ? args[first] : python.none)) {
        // Memory of a node has the layer of the node's birth, and recomputed modules are called again.
        vs_layer_now.module = 0;
        result = python.call(inner, args, count, names);
        vs_layer_now.module = outer;
    }
    if (p->in_backward && !within)
        vs_phases_end_backward(p);
    return result;
}

/* ---- optimizers ---- */

static object nothing(void)
{
    python.keep(python.none);
    return python.none;
}

static bool is_hook_call(object hook, object code, size_t count, object names)
{
    return (count & ~ARGUMENTS_OFFSET) == 3 && !names && !runs_its_code(hook, code);
}

/* Whether a step has nothing but its optimizer.  What is no tuple or no dict has no size. */
static bool is_plain_step(object args, object named)
{
    ptrdiff_t size = python.tuple_size(args), more = size == 1 ? python.dict_size(named) : 0;
    if (size < 0 || more < 0)
        python.clear();
    return size == 1 && more == 0;
}

/* The first one of all runs the hook's code, which looks whether it is called as it is taken for granted. */
static object before_optimizer(object hook, object const *args, size_t count, object names)
{
    if (vs_phases.optimizers || vs_contract_state(VS_CONTRACT_PY_OPTIMIZER) != VS_CONTRACT_PROVEN ||
        !is_hook_call(hook, hook_codes[0], count, names) || !is_plain_step(args[1], args[2]))
        return vs_calls.plain(hook, args, count, names);
    if (vs_phases_all.on)
        vs_phases_begin_optimizer(&vs_phases, (uintptr_t)args[0]);
    return nothing();
}

static bool look_is_due(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec >= vs_phases_all.look;
}

static object after_optimizer(object hook, object const *args, size_t count, object names)
{
    if (!is_hook_call(hook, hook_codes[1], count, names) || (vs_phases_all.on && look_is_due()))
        return vs_calls.plain(hook, args, count, names);
    if (vs_phases_all.on)
        vs_phases_end_optimizer(&vs_phases, (uintptr_t)args[0]);
    return nothing();
}

/* ---- installing ---- */

static bool is_plain(object function)
{
    return function && AT(vectorcall_fn *, function, vs_calls.vectorcall_at) == vs_calls.plain;
}

static void take(object function, vectorcall_fn *ours, object *code)
{
    *code = AT(object, function, vs_calls.code_at);
    vs_interpreter_take(function, ours);
}

static bool are_plain(const struct vramscope_python_phases *said)
{
    bool all = is_plain(said->before_optimizer) && is_plain(said->after_optimizer);
    for (size_t i = 0; i < BACKWARDS; i++)
        all = all && (!said->backward[i] || (is_plain(said->backward[i]) && said->backward_calls[i]));
    return all;
}

/* Has the hooks called as above, from now on.  -1: calls.c is not installed, something lacks, or there are
 * hooks already, and nothing has changed. */
int vramscope_auto_hooks(const struct vramscope_python_phases *said)
{
    bool complete = said->call && said->attribute && said->tuple_size && said->dict_size && said->clear &&
                    said->keep && said->drop && said->none && said->yes && said->minus_one &&
                    said->gradients && said->graph_task && said->compiling && said->context &&
                    said->is_current && said->ask && (!said->tool || (said->tools && said->tools_at));
    if (!vs_calls.plain || python.call || !complete || !are_plain(said))
        return -1;
    python = *said;
    take(said->before_optimizer, before_optimizer, &hook_codes[0]);
    take(said->after_optimizer, after_optimizer, &hook_codes[1]);
    for (size_t i = 0; i < BACKWARDS && said->backward[i]; i++)
        take(said->backward[i], backward, &hook_codes[2 + i]);
    return 0;
}
