"""otherwise.py - one thing of this torch that is otherwise than vramscope takes it for granted: FAKE_OTHERWISE names it."""

import functools
import os

from . import _C, Tensor, autograd, frames, no_grad, nn, optim


def state():
    _C.task = 0  # where no engine runs


def call():
    nn.Identity.__call__ = nn.Module._wrapped_call_impl


def entry():
    Tensor.backward = lambda self: autograd.graph.something_else(self)


def gone():
    del autograd.graph._engine_run_backward


def frame():
    function = autograd.graph._engine_run_backward
    function.__code__ = function.__code__.replace(co_name="run_engine")


def step():
    optim.Optimizer.profile_hook_step = staticmethod(lambda func: func)


def arguments():
    """A step's hooks get a list."""
    before = optim.Optimizer.profile_hook_step

    def profile_hook_step(func):
        tables = before(func).__globals__
        names = "_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            _global_optimizer_pre_hooks, _global_optimizer_post_hooks = (tables[name] for name in names)
            for hook in _global_optimizer_pre_hooks:
                assert hook(args[0], list(args), kwargs) is None
            result = func(*args, **kwargs)
            for hook in _global_optimizer_post_hooks:
                hook(args[0], list(args), kwargs)
            return result

        code = wrapper.__code__
        wrapper.__code__ = code.replace(co_names=(*code.co_names, *names))
        return wrapper

    optim.Optimizer.profile_hook_step = staticmethod(profile_hook_step)


def decorator():
    """The decorator's function closes over a plain function."""
    no_grad.clone = staticmethod(lambda: no_grad())


def widths():
    nn.Linear.__constants__ = ["inputs", "outputs"]


def node():
    del _C._functions.LogSoftmaxBackward0._input_metadata


def dynamo():
    del frames.skip_code


globals().get(os.environ.get("FAKE_OTHERWISE"), bool)()
