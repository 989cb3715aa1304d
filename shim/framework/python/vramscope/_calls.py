"""_calls - has the library call modules past the Python code of the wrapper of nn.Module.__call__ (shim/framework/calls.c).

Where the pointer by which the interpreter calls a function lies in the function object is searched for and checked; where anything is not
as in the CPythons on which this was tried, the pointer stays as it is.
"""

import ctypes
import sys
import sysconfig
import types
import weakref

import vramscope

# By version of CPython: where a thread's state has its profile function, behind which stands its trace function, and the word that
# leads to its frame, by which the library knows that the state is laid out so.  All with 64 bits.
_WATCH_AT = {(3, 10): (56, 24), (3, 11): (64, 56), (3, 12): (64, 56), (3, 13): (80, 72), (3, 14): (80, 72), (3, 15): (104, 72)}
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HAVE_VECTORCALL = 1 << 11  # Py_TPFLAGS_HAVE_VECTORCALL, of a type

HEAD = 1 << 31  # with a layer: the module is an output layer

is_complete = {"auto_layer", "auto_cell", "auto_call", "auto_calls"} <= set(vramscope._library)  # an older library's cell is one word
call = vramscope._library.get("auto_call", lambda *_: 0)  # (id of a module, its layer or 0)


class _Calls(ctypes.Structure):
    """struct vramscope_python_calls."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("wrapper", "call", "code", "plain", "thread_state", "set")]
    _fields_ += [(name, ctypes.c_uint32) for name in ("vectorcall_at", "code_at", "watch_at", "frame_at")]
    _fields_ += [("running", ctypes.c_void_p)]


def when_gone(thing, call, *arguments):
    """A weak reference to THING, at whose end CALL(*arguments) is called: not when the interpreter itself ends, whose modules are empty by then."""
    ends = sys.is_finalizing

    def _gone(_reference):
        if not ends():
            call(*arguments)

    return weakref.ref(thing, _gone)


def _address(name):
    function = getattr(ctypes.pythonapi, name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def _plain(function):
    """By which pointer the interpreter calls FUNCTION."""
    if hasattr(ctypes.pythonapi, "PyVectorcall_Function"):
        ask = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyVectorcall_Function", ctypes.pythonapi))
        return ask(function)
    return _address("_PyFunction_Vectorcall")


def _offset(function, word):
    """Where in the function object WORD stands, and nowhere else in it; None."""
    words = (ctypes.c_void_p * (types.FunctionType.__basicsize__ // _WORD)).from_address(id(function))
    found = [i * _WORD for i, there in enumerate(words) if there == word]
    return found[0] if len(found) == 1 else None


def _is_known():
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in _WATCH_AT or sys.version_info.releaselevel != "final":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # no lock guards the library's table of modules there
        return False
    if hasattr(sys, "gettotalrefcount") or _WORD != 8:
        return False
    return bool(types.FunctionType.__flags__ & _HAVE_VECTORCALL)


def install(wrapper, function):
    """Has the library call FUNCTION for WRAPPER, which is a function and calls FUNCTION.  False: nothing was changed."""
    if not is_complete or not _is_known() or type(wrapper) is not types.FunctionType or type(function) is not types.FunctionType:
        return False
    try:
        plain, code = _plain(wrapper), id(wrapper.__code__)
        offsets = {(_offset(f, plain), _offset(f, id(f.__code__))) for f in (wrapper, function, _plain)}
        vectorcall_at, code_at = offsets.pop()
        if offsets or not vectorcall_at or not code_at or watched():
            return False
        state = _address("PyThreadState_Get")
        calls = _Calls(id(wrapper), id(function), code, plain, state, _address("PyFunction_SetVectorcall"))
        calls.vectorcall_at, calls.code_at = vectorcall_at, code_at
        calls.watch_at, calls.frame_at = _WATCH_AT[sys.version_info[:2]]
        calls.running = id(sys._getframe().f_code)
        # nobody watches, so both words are 0
        words = (ctypes.c_void_p * 2).from_address(ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))() + calls.watch_at)
        return words[0] is None and words[1] is None and vramscope._library["auto_calls"](ctypes.addressof(calls)) == 0
    except Exception:
        return False


def model(module, classes, has_heads):
    """The module with this id was called from outside of any other; CLASSES of its output layer, HAS_HEADS: it has some that may be replaced."""
    vramscope._library["auto_model"](module, classes, 2 if has_heads else 1)


def loss(module):
    """Calls of the module with this id from outside of any other name no phase."""
    vramscope._library["auto_model"](module, 0, 3)


def forget_model(module):
    """The next call of the module with this id from outside of any other runs the wrapper's code."""
    if _hooked:
        vramscope._library["auto_model"](module, 0, 0)


class _Phases(ctypes.Structure):
    """struct vramscope_python_phases: its words, then its numbers."""

    FUNCTIONS = "PyObject_Vectorcall PyObject_GetAttr PyTuple_Size PyDict_Size PyErr_Clear Py_IncRef Py_DecRef".split()
    OBJECTS = "none yes minus_one gradients graph_task compiling context is_current ask tool tools before_optimizer after_optimizer".split()
    _fields_ = [(name, ctypes.c_void_p) for name in FUNCTIONS + OBJECTS]
    _fields_ += [("backward", ctypes.c_void_p * 3), ("backward_calls", ctypes.c_void_p * 3)]
    _fields_ += [("backward_first", ctypes.c_uint32 * 3), ("tools_at", ctypes.c_uint32)]


_hooked = []  # what the library was passed, which is to stay


def are_hooked():
    return bool(_hooked)


def _tools():
    """The numbers of the tools that watch, and where they stand in their tuple."""
    tools, at = tuple(range(6)), tuple.__basicsize__
    words = (ctypes.c_void_p * len(tools)).from_address(id(tools) + at)
    return (tools, at) if list(words) == [id(tool) for tool in tools] else (None, 0)


def install_hooks(backward, **objects):
    """Has the library do what hooks of phases do in nearly every step (shim/framework/phase_calls.c).

    BACKWARD: (wrapper, what it calls, the argument that backward begins with) of each; OBJECTS as in _Phases.
    """
    try:
        tools, tools_at = _tools()
        objects.update(none=None, yes=True, minus_one=-1, context="tracing_context", tool=_get_tool, tools=tools)
        phases = _Phases(*[_address(name) for name in _Phases.FUNCTIONS])
        for name in _Phases.OBJECTS:
            setattr(phases, name, None if objects[name] is None and name != "none" else id(objects[name]))
        for i, (wrapper, inner, first) in enumerate(backward):
            phases.backward[i], phases.backward_calls[i], phases.backward_first[i] = id(wrapper), id(inner), first
        phases.tools_at = tools_at
        if vramscope._library["auto_hooks"](ctypes.addressof(phases)) == 0:
            _hooked.extend((objects, backward))
    except Exception:
        pass
    return bool(_hooked)


_getprofile, _gettrace = sys.getprofile, sys.gettrace
_get_tool = getattr(getattr(sys, "monitoring", None), "get_tool", None)


def watched():
    """Whether a profiler, debugger or tool is to see the wrapper's frames: by setprofile, settrace or sys.monitoring."""
    if _getprofile() is not None or _gettrace() is not None:
        return True
    return _get_tool is not None and not _get_tool(0) is _get_tool(1) is _get_tool(2) is _get_tool(3) is _get_tool(4) is _get_tool(5) is None
