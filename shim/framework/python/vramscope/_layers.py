"""_layers - records which module of the model is being called: "Llama.layers.7.mlp".

A module's name is its path from the outermost module, whose class stands in front.  The paths of all modules in an outermost
module are determined at its first call.  A module that was added later is searched for in its caller; one that is not found
(made in a forward, kept in a plain list) is named after its caller, with its own class in parentheses.  A module that is in
two places has the path under which it was found first, unless the module it was found in turns out to be a part of another.

The open module of a thread is one number in a cell of the library's, which the library reads when memory is allocated.  A call
writes its module's number and restores the old one at the end.  For modules whose number is known the library does that itself
(in_front), without running Python code, while the thread is inside of an outermost call, which another word of the cell says.
"""

import ctypes
import functools
import sys
import sysconfig
import types
import weakref

import vramscope

NONE = 0
MODULE, INSIDE, WORDS = 0, 4, 5  # of a cell (struct vs_layer_now)
indices = {}  # id of a module that was called -> number of its layer; the fast path of nearly every call

_known = {}  # id of a module -> (weak reference, path, id of the outermost module)
_numbers = {}  # (path, class) -> number
_lacking = set()  # (path of a caller, class): not found in the caller
_calls = set()  # code objects whose frames have the caller: the wrapper's, and torch's own, which is called without it
_through_python = set()  # ids of modules whose calls all go through the wrapper
_direct = vramscope._library.get("auto_call", lambda *_: 0)
_is_complete = {"auto_layer", "auto_cell", "auto_call", "auto_caller"} <= set(vramscope._library)  # an older library's cell is one word


def new_cell():
    """The calling thread's cell, to be written as cell[MODULE] and cell[INSIDE]; a list where nothing is recorded."""
    address = vramscope._library["auto_cell"]() if _is_complete else None
    if not address:
        return [NONE] * WORDS
    return memoryview((ctypes.c_uint32 * WORDS).from_address(address)).cast("B").cast("I")


def are_recorded():
    return _is_complete and bool(vramscope._library["auto_cell"]())


def calls_are_in(wrapper):
    _calls.add(wrapper.__code__)


class _PythonCalls(ctypes.Structure):
    """struct vramscope_python_calls of shim/framework/calls.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("PyObject_Vectorcall", "PyVectorcall_Call", "PyMethod_New", "Py_IncRef",
                                                     "PyType_FromSpec", "PyObject_CallObject", "call", "wrapper")]


def in_front(call, wrapper):
    """What stands for WRAPPER, which calls CALL, as nn.Module.__call__: an object of the library's that calls CALL itself where it
    can.  WRAPPER itself where the interpreter is not known to have such objects, or their layout is another one."""
    if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info < (3, 15) or not _is_complete:
        return wrapper
    if hasattr(sys, "gettotalrefcount") or sysconfig.get_config_var("Py_GIL_DISABLED") or not isinstance(call, types.FunctionType):
        return wrapper
    try:
        calls = _PythonCalls(call=id(call), wrapper=id(wrapper))
        for name, _ in _PythonCalls._fields_[:-2]:
            if name == "PyObject_Vectorcall" and sys.version_info < (3, 11):
                function = ctypes.pythonapi._PyFunction_Vectorcall  # both are Python's functions, and the other is no symbol there
            else:
                function = getattr(ctypes.pythonapi, name)
            setattr(calls, name, ctypes.cast(function, ctypes.c_void_p).value)
        front = vramscope._library["auto_caller"](ctypes.addressof(calls))
    except (AttributeError, SystemError, MemoryError):
        return wrapper
    _calls.add(call.__code__)
    return front


def call_in_python(key):
    """All calls of the module with this id go through the wrapper."""
    _through_python.add(key)
    _direct(key, NONE)


def _forget(key):
    indices.pop(key, None)
    _direct(key, NONE)


def _gone(key, _reference):
    _forget(key)
    _through_python.discard(key)
    _known.pop(key, None)


def _note(module, path, root):
    key = id(module)
    _known[key] = (weakref.ref(module, functools.partial(_gone, key)), path, root)
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
        if frame.f_code in _calls and frame.f_locals.get("self") is not module:
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
    try:
        key = (_path_of(module), type(module).__name__)
        number = _numbers.get(key)
        if number is None:
            texts = (text.encode("utf-8", "replace") for text in key)
            number = _numbers[key] = vramscope._library["auto_layer"](*texts)
        indices[id(module)] = number
        if id(module) not in _through_python:
            _direct(id(module), number)
        return number
    except Exception:
        return NONE  # a module whose attributes can't be read has no layer
