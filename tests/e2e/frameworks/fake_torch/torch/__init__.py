"""A torch with the places alone that vramscope._torch takes hold of, for what the real one cannot show (fake_torch_phases.sh)."""

import functools

import os
import sys
import types

from . import amp, autograd, nn, optim

if os.environ.get("FAKE_TORCH") == "hooks":  # with what the library needs to do the hooks' work
    from . import _guards


class _C:
    task = -1
    gradients = True

    @staticmethod
    def _current_graph_task_id():
        return _C.task

    @staticmethod
    def is_grad_enabled():
        return _C.gradients

    class _functions:
        class LogSoftmaxBackward0:
            name = next_functions = _saved_dim = _input_metadata = None


frames = types.SimpleNamespace(skip_code=lambda code: None)
sys.modules["torch._C._dynamo"] = types.SimpleNamespace(eval_frame=frames)


class compiler:
    @staticmethod
    def is_dynamo_compiling():
        return False


def is_grad_enabled():
    return _C.gradients


class Tensor:
    def backward(self):
        autograd.backward(self)


class no_grad:
    def __enter__(self):
        self.before = _C.gradients
        _C.gradients = False

    def __exit__(self, *_):
        _C.gradients = self.before

    def clone(self):
        return no_grad()

    def __call__(self, function):
        ctx_factory = self.clone

        @functools.wraps(function)
        def decorate_context(*args, **kwargs):
            with ctx_factory():
                return function(*args, **kwargs)

        if os.environ.get("FAKE_TORCH") == "hooks":  # as from 2.15 on
            decorate_context.__code__ = decorate_context.__code__.replace(co_name="no_grad")
        return decorate_context


class inference_mode(no_grad):
    pass


from . import otherwise  # noqa: E402
