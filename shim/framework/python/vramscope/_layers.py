"""_layers - records which module of the model is being called: "Llama.layers.7.mlp".

A module's name is its path from the outermost module, whose class stands in front, determined at the outermost module's first call.  A
module that was added later is searched for in its caller; one that is not found (made in a forward, kept in a plain list) is named after
its caller, with its own class in parentheses.  A module in two places has the path under which it was found first, unless the module it was
found in turns out to be a part of another.

The open module of a thread is a number in a cell of the library's (shim/framework/layers.h), which a call writes, and restores at the end.
"""

import ctypes
import sys

import vramscope
from . import _calls as vramscope_calls
from . import _signals as vramscope_signals

NONE = 0
UNNAMED = 1  # any number, where layers are not recorded and nobody reads it
MODULE, INSIDE, WORDS = 0, 4, 5  # of a cell (struct vs_layer_now)
indices = {}  # id of a module that was called -> number of its layer; the fast path of nearly every call

_known = {}  # id of a module -> (weak reference, path, id of the outermost module)
_numbers = {}  # (path, class) -> number
_lacking = set()  # (path of a caller, class): not found in the caller
_callers = set()  # code objects whose frames have the caller: the wrapper's, and torch's own, which the library calls without it
_heads = set()  # ids of output layers: a call of one does more than to open a layer


def new_cell():
    """The calling thread's cell, to be written as cell[MODULE] and cell[INSIDE]; a list where the library has none."""
    if not vramscope_calls.is_complete:
        return [NONE] * WORDS
    return memoryview((ctypes.c_uint32 * WORDS).from_address(vramscope._library["auto_cell"]())).cast("B").cast("I")


def are_recorded():
    return vramscope_calls.is_complete and bool(vramscope._library["auto_layer"](None, None))


_recorded = are_recorded()


def are_known():
    """Whether what the library knows of a module is taken back when the module is gone."""
    return _recorded


def calls_are_in(*functions):
    _callers.update(function.__code__ for function in functions if hasattr(function, "__code__"))


def is_head(module):
    """MODULE is an output layer."""
    _heads.add(id(module))
    _forget(id(module))


def head_is_gone(key):
    _heads.discard(key)
    _forget(key)


def _call_directly(key, number):
    """Calls of this module need not run the wrapper's code."""
    if key not in _heads:
        vramscope_calls.call(key, number)
    elif vramscope_calls.are_hooked():
        vramscope_calls.call(key, number | vramscope_calls.HEAD)


def _forget(key):
    indices.pop(key, None)
    vramscope_calls.call(key, NONE)


def _gone(key):
    _forget(key)
    _heads.discard(key)
    _known.pop(key, None)


def _note(module, path, root):
    key = id(module)
    _known[key] = (vramscope_calls.when_gone(module, _gone, key), path, root)
    _forget(key)


def _register(outermost):
    """Notes all modules in OUTERMOST by their paths."""
    name, root = type(outermost).__name__, id(outermost)
    inside = {id(module) for module in outermost.modules()}
    for path, module in outermost.named_modules():
        known = _known.get(id(module))
        if known is None or known[2] in inside:
            _note(module, f"{name}.{path}" if path else name, root)


def _caller(module):
    """The module whose call that of MODULE is in, and is nearest."""
    frame = sys._getframe(3)
    for _ in range(256):
        if frame is None:
            return None
        if frame.f_code in _callers and frame.f_locals.get("self") is not module:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _find_in(caller, module):
    """Notes MODULE and what lies beside it where CALLER holds it."""
    _, path, root = _known[id(caller)]
    kind = (path, type(module))
    if kind not in _lacking:
        for name, inner in caller.named_modules():
            if name and id(inner) not in _known:
                _note(inner, f"{path}.{name}", root)
    if id(module) not in _known:
        if len(_lacking) < 10000:
            _lacking.add(kind)
        _note(module, f"{path}.({type(module).__name__})", root)


def _path_of(module):
    if id(module) not in _known:
        caller = _caller(module)
        if caller is None or id(caller) not in _known:
            _register(module)
        else:
            _find_in(caller, module)
    return _known[id(module)][1]


def index(module):
    """The number of the layer of MODULE, which is being called, for the first time or since it was given another path."""
    if not _recorded:
        _call_directly(id(module), UNNAMED)
        indices[id(module)] = UNNAMED  # of whatever has this id later, too
        return UNNAMED
    try:
        key = (_path_of(module), type(module).__name__)
        number = _numbers.get(key)
        if number is None:
            texts = (text.encode("utf-8", "replace") for text in key)
            number = _numbers[key] = vramscope._library["auto_layer"](*texts)
        indices[id(module)] = number
        _call_directly(id(module), number)
        return number
    except Exception as error:
        if vramscope_signals.raised(error):
            raise
        return NONE  # a module whose attributes can't be read has no layer
