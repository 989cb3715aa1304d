"""_contracts - looks whether PyTorch's Python is as these files take it for granted (shim/core/contracts.def), and says so to the
recording.

What is looked at are names, code, and answers where nothing is at work; toys make no memory and draw no random number.  What is otherwise
is said once, what needs it stays off, and nothing is raised in the program.
"""

import importlib
import inspect

import vramscope
from . import _signals as vramscope_signals


class Otherwise(Exception):
    """What is not as it is taken for granted, in a few words."""


def _say(name, is_proven, detail):
    vramscope._library.get("auto_contract", vramscope._nothing)(name.encode(), is_proven, str(detail).encode("utf-8", "replace"))


def proven(name, detail):
    _say(name, 1, detail)
    return True


def broken(name, why):
    _say(name, 0, why)
    return False


def why(error):
    return str(error) if isinstance(error, Otherwise) else f"{type(error).__name__}: {error}"


def may_hold(name, look, *args):
    """Whether LOOK(*args), which says what it found or raises, finds nothing otherwise; what it found proves nothing yet."""
    try:
        return look(*args) or True
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return broken(name, why(error))


def holds(name, look, *args):
    """The same where what LOOK finds is the proof."""
    found = may_hold(name, look, *args)
    return bool(found) and proven(name, found)


# ---- what is looked at ----


def asked_of(torch):
    """(its engine's task, whether Dynamo compiles), functions that are asked at each call."""
    # Dynamo treats both as constants; the first costs an ordinary call next to nothing.
    return torch._C._current_graph_task_id, torch.compiler.is_dynamo_compiling


def state(torch):
    task, compiling = asked_of(torch)
    said = task(), compiling(), type(torch.is_grad_enabled()).__name__
    if said != (-1, False, "bool"):
        raise Otherwise("the engine's task is %r, that Dynamo compiles %r, and whether gradients are on a %s" % said)
    return "no task is -1, nothing compiles"


def _code(function):
    return inspect.unwrap(function).__code__


def backward(torch):
    if not {"autograd", "backward"} <= set(_code(torch.Tensor.backward).co_names):
        raise Otherwise("Tensor.backward does not name autograd.backward")
    if not callable(torch.autograd.graph._engine_run_backward):
        raise Otherwise("_engine_run_backward can't be called")
    for entry in torch.autograd.backward, torch.autograd.grad:
        if "_engine_run_backward" not in _code(entry).co_names:
            raise Otherwise(f"autograd.{entry.__name__} does not name _engine_run_backward")
    return "all ways name _engine_run_backward"


def engine_frame(torch):
    """shim/stacks/graft.c cuts stacks at this function's frame."""
    code = _code(torch.autograd.graph._engine_run_backward)
    place = "/".join(code.co_filename.split("/")[-3:])
    if (place, code.co_name) != ("torch/autograd/graph.py", "_engine_run_backward"):
        raise Otherwise(f"the engine is entered by {code.co_name} of {place}")
    return f"{code.co_name} of {place}"


def optimizers(torch):
    """Whether a step's wrapper names what the hooks are put into; how it calls them says the first step."""
    inner = importlib.import_module("torch.optim.optimizer")
    if not (callable(inner.register_optimizer_step_pre_hook) and callable(inner.register_optimizer_step_post_hook)):
        raise Otherwise("hooks can't be registered")
    names = torch.optim.Optimizer.profile_hook_step(lambda self: None).__code__.co_names
    missing = {"_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"}.difference(names)
    if missing:
        raise Otherwise("a step's wrapper does not name " + ", ".join(sorted(missing)))


def optimizer_step(optimizer, args, kwargs):
    """How a hook is called."""
    if type(args) is not tuple or not args or args[0] is not optimizer or type(kwargs) is not dict:
        raise Otherwise(f"a step's hook gets a {type(args).__name__} and a {type(kwargs).__name__}")
    return "a step's hook gets the optimizer, and its arguments as a tuple and a dict"
