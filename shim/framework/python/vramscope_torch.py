"""vramscope_torch - the phases of a PyTorch program that says nothing about them.

    forward     the outermost call of an nn.Module, on each thread
    logits      from the entry of the output head until backward begins; without gradients until the outermost
                call ends
    backward    Tensor.backward, autograd.backward and autograd.grad, from call to return: the gradient that they
                begin with is part of it
    optimizer   the step of a torch.optim.Optimizer
    a step      after an optimizer's step, when the next forward begins or the process ends

What cannot be told is left without a phase.  The output head is looked for once in every model (see
find_head); a compiled model runs no inner module, so it shows forward but no logits.  A module without
parameters (a loss) names no phase when it is called by itself, and leaves logits open.  Modules that run
inside backward (gradient checkpointing) stay backward.

How: nn.Module.__call__, the two entries of autograd and the function in front of its engine (for who calls that
directly) are wrapped, and the optimizer's global hooks are used.  Global *module* hooks would be simpler, but
torch.compile warns about them, traces through them, and every module call of the program becomes slower.  The
wrapper of __call__ is told to Dynamo as a frame to skip, as nn.Module's own is.

Ranges that open here have the lowest precedence: the program's own markers and NVTX ranges win.  If something
in here fails, it says so once and stops for good; the program goes on.
"""

import atexit
import functools
import os
import sys
import threading
import weakref

import vramscope

HEAD_NAMES = frozenset(
    "lm_head output_head head output output_layer output_projection out_proj_vocab embed_out unembed to_logits logits".split()
)
SMALLEST_VOCABULARY = 64

_push = vramscope._auto_push
_pop = vramscope._auto_pop
_torch = None
_graph_task = None  # -1 outside of the autograd engine
_off = False
_step_due = False
_heads = weakref.WeakKeyDictionary()  # outermost module -> weak reference to its head, or None


_OUTSIDE = object()


class _Thread(threading.local):
    """What is open on one thread: NAMES mirrors the automatic ranges that were pushed."""

    def __init__(self):
        self.head = _OUTSIDE  # inside of an outermost call: its output head or None
        self.base = 0  # length of `names` when the outermost call began
        self.linger = False  # logits stay open behind the outermost call
        self.in_backward = False
        self.names = []


_thread = _Thread()


# ---- opening and closing ----


def _open(t, name):
    t.names.append(name)
    _push(name.encode())


def _close_to(t, length):
    while len(t.names) > length:
        t.names.pop()
        _pop()


def _close_logits(t):
    if t.names and t.names[-1] == "logits":
        _close_to(t, len(t.names) - 1)


def _give_up(error):
    """Something in this file failed: close what is open here, say so once, never come back."""
    global _off
    if _off:
        return
    _off = True
    try:
        _close_to(_thread, 0)
        print(f"vramscope: automatic phases are off from here: {type(error).__name__}: {error}", file=sys.stderr)
    except Exception:
        pass


def _guarded(function, *args):
    """FUNCTION for this thread, unless something failed before; what fails in it is the last."""
    if _off:
        return None
    try:
        return function(_thread, *args)
    except Exception as error:
        return _give_up(error)


def _step_ends():
    global _step_due
    if _step_due:
        _step_due = False
        if not vramscope._own_steps and not _off:
            vramscope._library.get("step", vramscope._nothing)()


# ---- the output head ----


def _is_linear(module):
    return isinstance(getattr(module, "in_features", None), int) and isinstance(
        getattr(module, "out_features", None), int
    )


def find_head(model):
    """The module whose output is the logits over the vocabulary, or None where that is not plain to see.

    The vocabulary is the largest embedding of the model.  In this order: the only linear layer whose weight is
    that embedding's (tied weights); the only one with a name of HEAD_NAMES that is as wide as the vocabulary or
    a padded one (wider than its input); the only one as wide as the vocabulary.
    """
    tables = [m for m in model.modules() if isinstance(m, _torch.nn.Embedding)]
    linear = [(name.rpartition(".")[2], m) for name, m in model.named_modules() if _is_linear(m)]
    if not tables or not linear:
        return None
    table = max(tables, key=lambda m: m.num_embeddings)
    vocabulary = table.num_embeddings
    if vocabulary < SMALLEST_VOCABULARY:
        return None
    padded = range(vocabulary, vocabulary + vocabulary // 8 + 129)
    for found in (
        [m for _, m in linear if getattr(m, "weight", None) is table.weight],
        [m for n, m in linear if n in HEAD_NAMES and m.out_features in padded and m.out_features > m.in_features],
        [m for _, m in linear if m.out_features == vocabulary and m.out_features > m.in_features],
    ):
        if len(found) == 1:
            return found[0]
    return None


def _head_of(model):
    try:
        known = _heads[model]
    except KeyError:
        head = find_head(model)
        known = _heads[model] = weakref.ref(head) if head is not None and head is not model else None
    return known() if known is not None else None


def _has_parameters(module):
    return next(iter(module.parameters()), None) is not None


# ---- forward and logits ----


def _begin_outermost(t, module):
    """Opens forward; False where this call names no phase."""
    if _graph_task() != -1 or not _has_parameters(module):
        return False
    head = _head_of(module)
    _forget_failed_optimizer(t)
    if "optimizer" not in t.names:
        _step_ends()
    _close_logits(t)
    t.base = len(t.names)
    t.linger = False
    _open(t, "forward")
    t.head = head
    return True


def _begin_head(t):
    if len(t.names) > t.base and t.names[-1] == "forward":
        _close_to(t, len(t.names) - 1)
        t.linger = _torch.is_grad_enabled()
        _open(t, "logits")


def _end_outermost(t, failed):
    keep = t.base + (1 if t.linger and not failed and t.names[t.base : t.base + 1] == ["logits"] else 0)
    _close_to(t, keep)


def _wrap_call(call):
    @functools.wraps(call)
    def __call__(self, *args, **kwargs):
        if _is_compiling() or _off:
            return call(self, *args, **kwargs)
        head = _thread.head
        if head is not _OUTSIDE:  # the way of nearly every call: nothing but this
            if self is head:
                _guarded(_begin_head)
            return call(self, *args, **kwargs)
        if not _guarded(_begin_outermost, self):
            return call(self, *args, **kwargs)
        failed = True
        try:
            result = call(self, *args, **kwargs)
            failed = False
            return result
        finally:
            _thread.head = _OUTSIDE
            _guarded(_end_outermost, failed)

    return __call__


# ---- backward ----


def _tracing():
    """Whether torch.compile is at work: it calls autograd on tensors without memory."""
    guards = sys.modules.get("torch._guards")
    return guards is not None and guards.TracingContext.try_get() is not None


def _begin_backward(t):
    """The length of `names` to go back to afterwards; None: this is no beginning."""
    if t.in_backward or _graph_task() != -1 or _tracing():
        return None
    _close_logits(t)
    length = len(t.names)
    _open(t, "backward")
    t.in_backward = True
    return length


def _end_backward(t, length):
    t.in_backward = False
    _close_to(t, length)


def _wrap_backward(function):
    @functools.wraps(function)
    def backward(*args, **kwargs):
        if _is_compiling() or _off:
            return function(*args, **kwargs)
        length = _guarded(_begin_backward)
        try:
            return function(*args, **kwargs)
        finally:
            if length is not None:
                _guarded(_end_backward, length)

    return backward


# ---- optimizer ----


def _begin_optimizer(t):
    _forget_failed_optimizer(t)
    _close_logits(t)
    _open(t, "optimizer")


def _end_optimizer(t):
    global _step_due
    if "optimizer" in t.names:
        _close_to(t, _innermost_optimizer(t))
        _step_due = True


def _before_optimizer(optimizer, args, kwargs):
    if not _is_compiling():
        _guarded(_begin_optimizer)


def _after_optimizer(optimizer, args, kwargs):
    if not _is_compiling():
        _guarded(_end_optimizer)


def _innermost_optimizer(t):
    return len(t.names) - 1 - t.names[::-1].index("optimizer")


def _forget_failed_optimizer(t):
    """An optimizer whose step raised has no hook that says so: its range is closed at the next beginning.

    A range is alive while the function that calls the hooks is still running on this thread (a closure).
    """
    if "optimizer" not in t.names:
        return
    alive = 0
    frame = sys._getframe(1)
    while frame is not None:
        alive += frame.f_code is _optimizer_code
        frame = frame.f_back
    while t.names.count("optimizer") > alive:
        _close_to(t, _innermost_optimizer(t))


def _code_of_optimizer_wrapper(optimizer_class):
    return optimizer_class.profile_hook_step(lambda self: None).__code__


# ---- installing ----


def _skip_in_dynamo(function):
    """Dynamo passes over nn.Module's own __call__ and begins at the model's forward: let it pass over ours."""
    try:
        import torch._C._dynamo.eval_frame as frames

        if hasattr(frames, "set_code_exec_strategy"):
            action = frames._FrameAction
            frames.set_code_exec_strategy(
                function.__code__, frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
            )
        elif hasattr(frames, "skip_code"):  # torch before 2.7
            frames.skip_code(function.__code__)
    except Exception:
        pass  # compiled models then begin at the wrapper, which steps aside while it is compiled


def _put(owner, name, wrapper):
    setattr(owner, name, wrapper)
    _skip_in_dynamo(wrapper)


def install(torch):
    """Called once, when torch has been imported."""
    global _torch, _graph_task, _is_compiling, _optimizer_code
    if not vramscope._library:
        return
    from torch.optim import Optimizer
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    _torch = torch
    _graph_task = torch._C._current_graph_task_id
    # Dynamo takes either for a constant; the first costs an ordinary call next to nothing.
    _is_compiling = getattr(torch.compiler, "is_dynamo_compiling", None) or torch.compiler.is_compiling
    _optimizer_code = _code_of_optimizer_wrapper(Optimizer)
    engine = _wrap_backward(torch.autograd.graph._engine_run_backward)
    # From here on nothing can fail: either all is in place or nothing.
    register_optimizer_step_pre_hook(_before_optimizer)
    register_optimizer_step_post_hook(_after_optimizer)
    torch.autograd.graph._engine_run_backward = engine
    if hasattr(torch.autograd, "_engine_run_backward"):
        torch.autograd._engine_run_backward = engine
    _skip_in_dynamo(engine)
    _put(torch.autograd, "backward", _wrap_backward(torch.autograd.backward))
    _put(torch.autograd, "grad", _wrap_backward(torch.autograd.grad))
    _put(torch.nn.Module, "__call__", _wrap_call(torch.nn.Module.__call__))
    atexit.register(_step_ends)
    os.register_at_fork(after_in_child=_in_child)


def _in_child():
    """A fork child ends no step of its parent's."""
    global _step_due
    _step_due = False
