"""_generate - methods `generate` of PyTorch models, which are evaluation from call to return.

A subclass of nn.Module is checked when it is defined: a `generate` that turns gradients off by a decorator, its own or inherited
(transformers' GenerationMixin), is wrapped, by a plain function, so that Dynamo and pickle take it as they took the method.  Others are
not: torch.jit compiles them from their source, and would not find it in a wrapper.
"""

import functools
import inspect
import types

from ._contracts import Otherwise, holds

_begin = _end = bool  # of evaluation; install() has the real ones


class _Generating:
    """What a wrapped `generate` refers to: cloudpickle copies the functions of a program's own classes with all of
    that, to where there may be no vramscope.  The copy does nothing.
    """

    def begin(self):
        return _begin()

    def end(self):
        _end()

    def __reduce__(self):
        return types.SimpleNamespace, (), {"begin": bool}


def _wrap(function, generating):
    @functools.wraps(function)
    def generate(*args, **kwargs):
        if not generating.begin():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            try:
                generating.end()
            except BaseException:  # a signal handler's, perhaps before anything was done
                generating.end()
                raise

    return generate


def _contents(function):
    """What FUNCTION closes over, but for what has no value yet."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass


def _turns_gradients_off(function, contexts):
    """Whether FUNCTION is decorated by one of CONTEXTS: then it closes over that one's method that makes another."""
    if not isinstance(function, types.FunctionType) or inspect.isgeneratorfunction(function):  # whose call has done nothing yet
        return False
    return any(isinstance(value, types.MethodType) and isinstance(value.__self__, contexts) for value in _contents(function))


def _look_at(module_class, contexts, put):
    for owner in module_class.__mro__:
        function = owner.__dict__.get("generate")
        if function is not None:
            if _turns_gradients_off(function, contexts):
                put(owner, "generate", _wrap(function, _Generating()))
            return


def _look(torch, contexts):
    def plain():
        return torch

    for context in contexts:
        if not _turns_gradients_off(context()(plain), contexts):
            raise Otherwise(f"a function that {context.__name__} decorates is not known by what it closes over")
    if _turns_gradients_off(plain, contexts):
        raise Otherwise("a function that nothing decorates is taken for one that is")
    return "what no_grad and inference_mode decorate closes over their method"


def install(torch, begin, end, guarded, put):
    """BEGIN returns whether evaluation began, and then END ends it; GUARDED(f, *args) calls f; PUT sets an attribute."""
    global _begin, _end
    module, contexts = torch.nn.Module, (torch.no_grad, torch.inference_mode)
    if not holds("generate", _look, torch, contexts):
        return
    _begin, _end = begin, end
    before = module.__dict__.get("__init_subclass__")

    def __init_subclass__(cls, **kwargs):
        if before is not None:
            before.__func__(cls, **kwargs)
        else:
            super(module, cls).__init_subclass__(**kwargs)
        guarded(lambda _: _look_at(cls, contexts, put))

    put(module, "__init_subclass__", __init_subclass__, classmethod)
