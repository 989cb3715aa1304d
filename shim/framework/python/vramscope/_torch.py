"""_torch - finds the phases of a PyTorch program that does not mark them.

    forward     the outermost call of an nn.Module, on each thread
    logits      from the entry of an output layer (_heads) until backward begins; without gradients until the
                outermost call ends.  An output layer that is called beside its model is logits by itself
    backward    Tensor.backward, autograd.backward and autograd.grad, from call to return: the gradient that they
                begin with is part of it
    optimizer   the step of a torch.optim.Optimizer, but nothing of the closure that it calls
    evaluation  the outermost call of a module in eval mode without gradients, and `generate`
    a step      see shim/framework/steps.c

Work that cannot be assigned has no phase.  A module without parameters (a loss) names no phase when it is called by itself, and leaves
logits open.  So does a model that runs without gradients between a training forward and its backward (a teacher, a reference): it is
forward, whatever its mode, and logits continue after it.  Modules that run inside backward (gradient checkpointing) stay backward.

How: nn.Module.__call__, the entries of autograd and of its engine, GradScaler.step, the constructor of Optimizer and `generate` are
wrapped; the optimizer's global hooks are used.  Global *module* hooks would be simpler, but torch.compile warns about them, traces through
them, and every module call becomes slower.  What is open on a thread the library knows (shim/framework/phases.c), and where the interpreter
can call it, it does itself what these hooks do in nearly every step (phase_calls.c).  The program's own markers and NVTX ranges win over
the ranges that open here.

A signal handler of the program's may raise an exception in the midst of this, at calls and where loops go back: it is the program's
(_signals), and what remains open after it is closed when the next phase begins.  If something in here fails it prints that once and stops
for good; the program goes on.
"""

import atexit
import ctypes
import functools
import inspect
import os
import sys
import threading

import vramscope
from . import _allocator as vramscope_allocator
from . import _calls as vramscope_calls
from . import _contracts as vramscope_contracts
from . import _dynamo as vramscope_dynamo
from . import _generate as vramscope_generate
from . import _heads as vramscope_heads
from . import _layers as vramscope_layers
from . import _roles as vramscope_roles
from . import _signals as vramscope_signals

NAMES = b"", b"forward", b"logits", b"backward", b"optimizer", b"evaluation"
FORWARD, LOGITS, BACKWARD, OPTIMIZER, EVALUATION = 1, 2, 3, 4, 5  # enum vs_phase
# words of struct vs_phases, and what vramscope_auto_phase is told (shim/framework/phases.h, phases.c)
COUNT, OPTIMIZERS, IN_CALL, IN_BACKWARD, OWING, LOGITS_SEEN, CLASSES, WORDS, DEEP = 0, 1, 2, 6, 8, 9, 10, 12, 64
SWITCH, CLOSE, BEGIN_CALL, END_CALL, BEGIN_HEAD, BEGIN_BACKWARD, END_BACKWARD, BEGIN_OPTIMIZER, END_OPTIMIZER, SUSPEND, RESUME = range(11)
KEEP_OPTIMIZERS, MADE, GONE, SKIPPED, STEPS, OWN_STEPS, ASK, LOOK, EXIT, CHILD = range(11, 21)
NOT_CALLED = "output_layer_not_called %d"  # the moment; analyzer/read/trace.c looks for it

_phase = vramscope._auto_phase
_torch = None
_graph_task = None  # -1 outside of the autograd engine
_off = False
_direct = False  # the library makes calls where a thread's cell allows it
_INSIDE = vramscope_layers.INSIDE
_heads = vramscope_heads.heads
_layers = vramscope_layers.indices
_steps_known = None  # whether hooks of steps are called as it is taken for granted; None: none was called yet
_fresh = {}  # id of an optimizer -> weak reference to it
_not_called_told = False
_LOSSES = "torch.nn.modules.loss"  # the classes in here never have parameters
_graphs_left = 32  # that are looked at for a cross-entropy


class _Thread:
    """What is open on one thread: in the library's words STATE."""

    __slots__ = "state cell is_new".split()

    def __init__(self):
        words, at = ctypes.c_uint32 * (WORDS + DEEP // 4), vramscope._library.get("auto_phases")
        # without the library nothing is put into torch (install), and nobody reads them
        self.state = memoryview(words.from_address(at()) if at else words()).cast("B").cast("I")
        self.cell = vramscope_layers.new_cell()
        self.is_new = False  # the model whose outermost call is open was never called before

    @property
    def names(self):
        """The automatic ranges that are open."""
        return [NAMES[number] for number in self.state.cast("B")[4 * WORDS :][: self.state[COUNT]]]


class _Threads(threading.local):
    """An attribute of this takes some ten times as long as one of a plain object, so it has but one."""

    def __init__(self):
        self.own = _Thread()


_threads = _Threads()


# ---- guarding ----


def _give_up(error):
    """Called when something in this file failed: closes the open ranges, prints that once, and stops for good."""
    global _off
    if _off:
        return
    _off = True
    try:
        _phase(SWITCH, 0)
        _phase(CLOSE, 0)
        print(f"vramscope: automatic phases are off from here: {type(error).__name__}: {error}", file=sys.stderr)
    except Exception as another:
        if vramscope_signals.raised(another):
            raise


def _guarded(function, *args):
    """Calls FUNCTION for this thread, unless something failed before; a failure in it is the last one."""
    if _off:
        return None
    try:
        return function(_threads.own, *args)
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return _give_up(error)


def switch(on):
    """For benchmarks: until it is on again no phase is opened or closed."""
    global _off
    _off = not on
    _phase(SWITCH, int(on))


def _process_ends():
    _phase(EXIT, 0)


# ---- forward, logits, evaluation ----


def _begin_call(t, name, gradients=False, classes=0):
    """Opens NAME for an outermost call, or for the whole of `generate`."""
    _forget_failed_optimizer(t)
    _phase(BEGIN_CALL, name | gradients << 8 | classes << 32)
    _allow_direct_calls(t)


def _allow_direct_calls(t):
    t.cell[_INSIDE] = _direct and not vramscope_calls.watched()


def _begin_outermost(t, module):
    """Opens forward or evaluation; False where this call names no phase."""
    if _graph_task() != -1:
        return False
    try:
        model = vramscope_heads.model_of(module, _torch)
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return False  # it is no module, or one that was not made by Module.__init__: the call fails by itself
    if model is None:
        if type(module).__module__ == _LOSSES and vramscope_calls.are_hooked() and vramscope_layers.are_known():
            vramscope_calls.loss(id(module))
        return False
    t.is_new = vramscope_roles.called(module)
    gradients = _torch.is_grad_enabled()
    evaluation = not (gradients or t.state[OWING] or getattr(module, "training", True))
    is_head = id(module) in _heads and not evaluation
    if vramscope_calls.are_hooked():
        vramscope_heads.call_directly(module)
    _begin_call(t, LOGITS if is_head else EVALUATION if evaluation else FORWARD, gradients, model.classes)
    return True


def _is_current(model):
    try:
        return vramscope_heads.is_current(model)
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return False


def _begin_head(t):
    _phase(BEGIN_HEAD, _torch.is_grad_enabled())


def _end_outermost(t, failed):
    t.cell[_INSIDE] = False
    try:
        if t.is_new:
            t.is_new = False
            vramscope_roles.look(_torch)
            vramscope_allocator.confirm(_torch)
    finally:
        _phase(END_CALL, failed)


def _wrap_call(call):
    """A wrapper of CALL that closes over nothing else, because Dynamo guards everything that a function closes over, used or not."""

    @functools.wraps(call)
    def __call__(self, *args, **kwargs):
        if _is_compiling():
            return call(self, *args, **kwargs)
        t = _threads.own
        key = id(self)
        cell, state = t.cell, t.state
        outer, direct, inside = cell[0], cell[_INSIDE], state[IN_CALL]
        failed = True
        try:
            if inside:  # the way of nearly every call
                if key in _heads:
                    _guarded(_begin_head)
            else:
                outermost = not _off and _guarded(_begin_outermost, self)
                if not outermost and not direct and _graph_task() != -1:
                    _allow_direct_calls(t)
            number = _layers.get(key)
            cell[0] = vramscope_layers.index(self) if number is None else number
            result = call(self, *args, **kwargs)
            failed = False
            return result
        finally:
            cell[0], cell[_INSIDE] = outer, direct
            if state[IN_CALL] and not inside:
                state[IN_CALL] = 0
                _guarded(_end_outermost, failed)

    return __call__


# ---- generate ----


def _begin_evaluation(t):
    if t.state[IN_CALL] or _graph_task() != -1:
        return False
    _begin_call(t, EVALUATION)
    return True


def _begin_generate():
    if _is_compiling():
        return False
    outside = not _threads.own.state[IN_CALL]
    try:
        return _guarded(_begin_evaluation)
    except BaseException:  # a signal handler's
        if outside:
            _end_generate()
        raise


def _end_generate():
    t = _threads.own
    if t.state[IN_CALL]:
        t.state[IN_CALL] = t.cell[_INSIDE] = False
        _guarded(_end_outermost, False)


# ---- backward ----


def _tracing():
    """Whether torch.compile is at work: it calls autograd on tensors without memory."""
    guards = sys.modules.get("torch._guards")
    return guards is not None and getattr(guards._TLS, "tracing_context", None) is not None  # what TracingContext.try_get() returns


def _tell_not_called(t, tensors):
    """Records, once per process, that an output layer ran without being called, as in a compiled model: so no report takes the logits to be 0."""
    global _not_called_told, _graphs_left
    if _not_called_told:
        return
    classes = t.state[CLASSES]
    if not classes and _graphs_left > 0:
        _graphs_left -= 1
        classes = vramscope_heads.classes_without_call(tensors, _torch)
    if classes:
        _not_called_told = vramscope._auto_mark((NOT_CALLED % classes).encode()) == 0
    _phase(ASK, 0 if _not_called_told else 2 if _graphs_left else 1)


def _ask(tensors):
    _guarded(_tell_not_called, tensors)


def _begin_backward(t, tensors):
    if _graph_task() != -1 or _tracing():
        return
    if not t.state[LOGITS_SEEN] and not t.state[IN_CALL]:
        _tell_not_called(t, tensors)
    _phase(BEGIN_BACKWARD, 0)


def _end_backward(t):
    _phase(END_BACKWARD, 0)


def _wrap_backward(function, first=0):
    """FIRST: the position of the tensors that backward begins with."""

    @functools.wraps(function)
    def backward(*args, **kwargs):
        if _is_compiling() or _off:
            return function(*args, **kwargs)
        t = _threads.own
        cell, state, within = t.cell, t.state, t.state[IN_BACKWARD]  # three of these wrappers are in each other as a rule
        outer = cell[0]
        try:
            if not within:
                _guarded(_begin_backward, args[first] if len(args) > first else None)
            cell[0] = vramscope_layers.NONE
            return function(*args, **kwargs)
        finally:
            cell[0] = outer
            if state[IN_BACKWARD] and not within:
                state[IN_BACKWARD] = 0
                _guarded(_end_backward)

    return backward


def _engine_of_our_own(torch):
    """An engine whose run_backward is wrapped, for programs that call it directly; None where there can't be one."""
    variable = getattr(torch.autograd, "Variable", None)
    try:
        there = type(variable._execution_engine)
        return type(there.__name__, (there,), {"run_backward": _wrap_backward(there.run_backward, 1)})()
    except (AttributeError, TypeError):
        return None


# ---- optimizer ----


def _begin_optimizer(t, optimizer):
    _forget_failed_optimizer(t)
    _phase(BEGIN_OPTIMIZER, id(optimizer))


def _end_optimizer(t, optimizer):
    if _phase(END_OPTIMIZER, id(optimizer)):
        vramscope_roles.look(_torch, optimizer)


def _suspend_optimizer(t):
    """What to restore after the closure; None: nothing to suspend."""
    length = _phase(SUSPEND, 0)
    return None if length < 0 else length


def _resume_optimizer(t, length):
    _phase(RESUME, length)


def _wrap_closure(closure):
    """Wraps CLOSURE for the optimizer: its work gets the phase that it would have elsewhere."""

    def outside(*args, **kwargs):
        length = _guarded(_suspend_optimizer)
        result = closure(*args, **kwargs)  # where it raises, so does the step: optimizer stays closed
        if length is not None:
            _guarded(_resume_optimizer, length)
        return result

    try:
        return functools.wraps(closure, updated=())(outside)
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return outside  # an object whose attributes can't be read


def _takes_closure_first(step):
    """Whether the first argument of STEP is its closure: an optimizer of the program's own may want another."""
    code = getattr(inspect.unwrap(step), "__code__", None)
    return code is not None and code.co_varnames[1:2] == ("closure",)


def _with_closure(_, optimizer, args, kwargs):
    """(args, kwargs) of a step with its closure wrapped, or None where it has none."""
    if callable(kwargs.get("closure")):
        return args, dict(kwargs, closure=_wrap_closure(kwargs["closure"]))
    if len(args) > 1 and callable(args[1]) and _takes_closure_first(type(optimizer).step):
        return (args[0], _wrap_closure(args[1])) + tuple(args[2:]), kwargs
    return None


def _are_steps_known(optimizer, args, kwargs):
    global _steps_known
    if _steps_known is None:
        _steps_known = vramscope_contracts.holds("optimizer_hooks", vramscope_contracts.optimizer_step, optimizer, args, kwargs)
    return _steps_known


def _before_optimizer(optimizer, args, kwargs):
    if _is_compiling() or _off or not _are_steps_known(optimizer, args, kwargs):
        return None
    _guarded(_begin_optimizer, optimizer)
    return _guarded(_with_closure, optimizer, args, kwargs)


def _after_optimizer(optimizer, args, kwargs):
    if _steps_known and not _is_compiling():
        _guarded(_end_optimizer, optimizer)


def _forget_failed_optimizer(t):
    """An optimizer whose step raised has no hook that says so: its range is closed at the next beginning.

    A range is alive while the function that calls the hooks is still running on this thread (a closure).
    """
    if not t.state[OPTIMIZERS]:
        return
    alive = 0
    frame = sys._getframe(1)
    while frame is not None:
        alive += frame.f_code is _optimizer_code
        frame = frame.f_back
    _phase(KEEP_OPTIMIZERS, alive)


def _code_of_optimizer_wrapper(optimizer_class):
    return optimizer_class.profile_hook_step(lambda self: None).__code__


def _made(t, optimizer):
    key = id(optimizer)
    _fresh[key] = vramscope_calls.when_gone(optimizer, _gone, key)
    _phase(MADE, key)


def _gone(key):
    _fresh.pop(key, None)
    _phase(GONE, key)


def _wrap_constructor(constructor):
    @functools.wraps(constructor)
    def __init__(self, *args, **kwargs):
        constructor(self, *args, **kwargs)
        if not _is_compiling():
            _guarded(_made, self)

    return __init__


def _count_skipped(t, optimizer):
    _phase(SKIPPED, id(optimizer))


def _wrap_scaler_step(step):
    @functools.wraps(step)
    def scaler_step(self, optimizer, *args, **kwargs):
        before = _phase(STEPS, 0)
        result = step(self, optimizer, *args, **kwargs)
        if _phase(STEPS, 0) == before and not _is_compiling():
            _guarded(_count_skipped, optimizer)
        return result

    return scaler_step


# ---- installing ----


def _put(owner, name, wrapper, kind=lambda function: function):
    setattr(owner, name, kind(wrapper))
    vramscope_dynamo.skip(wrapper)


def _call_toy(torch):
    """A call without memory or parameters, which names no phase, and whose layer is nobody's."""
    toy, seen, t = torch.nn.Identity(), [], _threads.own
    toy.forward = lambda _: seen.append(t.cell[0])
    _layers[id(toy)] = vramscope_layers.UNNAMED
    try:
        toy(None)
    finally:
        del _layers[id(toy)]
    if _off or seen != [vramscope_layers.UNNAMED] or t.cell[0] != vramscope_layers.NONE:
        raise vramscope_contracts.Otherwise("a call of nn.Identity does not pass the hook" if not _off else "a call of nn.Identity fails")
    return "a call of nn.Identity passes the hook"


def _install_modules(torch):
    """Whether calls run the wrapper; where they do not they are as they were."""
    global _direct
    module, call = torch.nn.Module, torch.nn.Module.__call__
    wrapper = _wrap_call(call)
    vramscope_layers.calls_are_in(wrapper, call)
    _put(module, "__call__", wrapper)
    if not vramscope_contracts.holds("module_call", _call_toy, torch):
        module.__call__ = call
        return
    _direct = vramscope_calls.install(wrapper, call)


def _install_backward(torch):
    """(wrapper, what it calls, the argument that backward begins with) of each."""
    if not vramscope_contracts.holds("backward_calls", vramscope_contracts.backward, torch):
        return []
    vramscope_contracts.holds("engine_frame", vramscope_contracts.engine_frame, torch)
    engine_run_backward = torch.autograd.graph._engine_run_backward
    run_backward, engine = _wrap_backward(engine_run_backward), _engine_of_our_own(torch)
    backward, grad = torch.autograd.backward, torch.autograd.grad
    wrapped_backward, wrapped_grad = _wrap_backward(backward), _wrap_backward(grad)
    wrappers = [(wrapped_backward, backward, 0), (run_backward, engine_run_backward, 0)]
    torch.autograd.graph._engine_run_backward = run_backward
    if hasattr(torch.autograd, "_engine_run_backward"):
        torch.autograd._engine_run_backward = run_backward
    vramscope_dynamo.skip(run_backward)
    if engine is not None:
        own = type(engine).run_backward
        wrappers.append((own, own.__wrapped__, 1))
        torch.autograd.Variable._execution_engine = engine
    _put(torch.autograd, "backward", wrapped_backward)
    _put(torch.autograd, "grad", wrapped_grad)
    return wrappers


def _install_optimizers(torch):
    global _optimizer_code
    if not vramscope_contracts.may_hold("optimizer_hooks", vramscope_contracts.optimizers, torch):
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    optimizer, scaler = torch.optim.Optimizer, getattr(torch.amp, "GradScaler", None)
    _optimizer_code = _code_of_optimizer_wrapper(optimizer)
    register_optimizer_step_pre_hook(_before_optimizer)
    register_optimizer_step_post_hook(_after_optimizer)
    _put(optimizer, "__init__", _wrap_constructor(optimizer.__init__))
    if "step" in vars(scaler or object):
        _put(scaler, "step", _wrap_scaler_step(scaler.step))


def _install_direct(torch, backward):
    """Has the library do what the hooks do in nearly every step."""
    guards = sys.modules.get("torch._guards")
    if _direct and hasattr(guards, "_TLS"):
        vramscope_calls.install_hooks(
            backward,
            gradients=torch._C.is_grad_enabled,
            graph_task=_graph_task,
            compiling=guards._TLS,
            is_current=_is_current,
            ask=_ask,
            before_optimizer=_before_optimizer,
            after_optimizer=_after_optimizer,
        )


def _skip_all():
    """Keeps Dynamo from all functions that run in the program's calls."""
    vramscope_contracts.holds("dynamo_skip", vramscope_dynamo.look)
    parts = vramscope_calls, vramscope_contracts, vramscope_generate, vramscope_heads, vramscope_layers, vramscope_roles, vramscope_signals
    for module in (sys.modules[__name__], *parts):
        vramscope_dynamo.skip_all(vars(module))
    vramscope_dynamo.skip(_wrap_closure(_process_ends))
    for function in (_guarded, _allow_direct_calls, vramscope_allocator.confirm, vramscope_layers.index, vramscope_layers.new_cell, vramscope_roles.look, _Thread.__init__, _Threads.__init__):
        vramscope_dynamo.skip(function, all_within=True)  # all else that the wrappers call


def install(torch):
    """Called once, when torch has been imported.  What of it is otherwise than it is taken for granted gets no hooks (_contracts)."""
    global _torch, _graph_task, _is_compiling, _graphs_left
    if not {"auto_phase", "auto_phases"} <= set(vramscope._library) or not vramscope_contracts.holds("torch_state", vramscope_contracts.state, torch):
        return
    _torch = torch
    _graph_task, _is_compiling = vramscope_contracts.asked_of(torch)
    backward = _install_backward(torch)
    if not vramscope_heads.look(torch, bool(backward)):
        _graphs_left = 0
    _install_optimizers(torch)
    _install_modules(torch)
    _phase(SWITCH, 1)
    _install_direct(torch, backward)
    vramscope_generate.install(torch, _begin_generate, _end_generate, _guarded, _put)
    _skip_all()
    atexit.register(_process_ends)
    os.register_at_fork(after_in_child=_in_child)


def _in_child():
    """A fork child ends no step of its parent's, and its file has none of the parent's moments."""
    global _not_called_told
    _not_called_told = False
    _phase(CHILD, 0)
    _phase(ASK, 2)
