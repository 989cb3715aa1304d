"""vramscope - tell vramscope what a Python program is doing.

    import vramscope

    with vramscope.phase("logits"):          # also a decorator
        logits = head(hidden)
    vramscope.step()

Where libvramscope.so is not preloaded phases and steps do nothing, and they never raise because of vramscope.  The calls keep the GIL
(they take well under a microsecond) and may come from any thread; a phase belongs to the thread that opened it.

`vramscope.patch_loss(model)` gives a Hugging Face model the fused loss (_loss.py), and `vramscope.linear_cross_entropy` is that loss by
itself (cross_entropy.py): both need PyTorch and nothing that is preloaded.
"""

import ctypes
import functools
import sys

# without `linear_cross_entropy`: `from vramscope import *` shall not import PyTorch
__all__ = ["phase", "step", "mark", "record_start", "record_stop", "active", "suspended", "patch_loss", "unpatch_loss"]


def _nothing(*_):
    return -1


def _load():
    """The functions of the preloaded library by name, or an empty dict.

    PyDLL(None) looks in what is already loaded: a library that is not preloaded is not searched for, because
    one that came in late would see no allocation.
    """
    names = {
        "range_push": ([ctypes.c_char_p], ctypes.c_int),
        "range_pop": ([], ctypes.c_int),
        "auto_mark": ([ctypes.c_char_p], ctypes.c_int),
        "auto_layer": ([ctypes.c_char_p, ctypes.c_char_p], ctypes.c_uint32),
        "auto_cell": ([], ctypes.c_void_p),
        "auto_call": ([ctypes.c_void_p, ctypes.c_uint32], ctypes.c_int),
        "auto_calls": ([ctypes.c_void_p], ctypes.c_int),
        "auto_model": ([ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint], ctypes.c_int),
        "auto_hooks": ([ctypes.c_void_p], ctypes.c_int),
        "auto_phase": ([ctypes.c_uint, ctypes.c_uint64], ctypes.c_int),
        "auto_phases": ([], ctypes.c_void_p),
        "auto_contract": ([ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p], ctypes.c_int),
        "auto_code": ([ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
        "auto_roles": ([ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], ctypes.c_int),
        "auto_allocator": (
            [ctypes.c_uint, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p],
            ctypes.c_int,
        ),
        "mark": ([ctypes.c_char_p], None),
        "step": ([], None),
        "record_start": ([], None),
        "record_stop": ([], None),
        "active": ([], ctypes.c_int),
    }
    found, missing = {}, []
    try:
        library = ctypes.PyDLL(None)
        for name, (arguments, result) in names.items():
            function = getattr(library, "vramscope_" + name, None)
            if function is None:
                missing.append("vramscope_" + name)
                continue
            function.argtypes = arguments
            function.restype = result
            found[name] = function
    except Exception:
        return {}
    if found and missing:
        try:
            sys.stderr.write("vramscope: the library that is preloaded is older than this package: it has no %s\n" % ", ".join(missing))
        except Exception:
            pass
    return found


_library = _load()
_push = _library.get("range_push", _nothing)
_pop = _library.get("range_pop", _nothing)
_auto_mark = _library.get("auto_mark", _nothing)
_auto_phase = _library.get("auto_phase", _nothing)
_OWN_STEPS = 16  # to _auto_phase: the program marks its steps itself, so automatic steps stop


def _name(name):
    """NAME as the library wants it: bytes that end at the first 0."""
    try:
        return str(name).encode("utf-8", "replace").split(b"\0", 1)[0]
    except Exception:
        return b"?"


class phase:
    """Context manager and decorator: what is allocated inside belongs to the phase NAME."""

    __slots__ = ("_bytes",)

    def __init__(self, name):
        self._bytes = _name(name)

    def __enter__(self):
        _push(self._bytes)
        return self

    def __exit__(self, *_):
        _pop()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return inside


def step():
    """One training iteration ends here."""
    _auto_phase(_OWN_STEPS, 0)
    _library.get("step", _nothing)()


def mark(name):
    """A named moment in the timeline."""
    _library.get("mark", _nothing)(_name(name))


def record_start():
    """Opens the record window."""
    _library.get("record_start", _nothing)()


def record_stop():
    """Closes the record window: until it opens again only ends of recorded allocations and ranges are recorded."""
    _library.get("record_stop", _nothing)()


def active():
    """Whether libvramscope.so is loaded and records."""
    return _library.get("active", _nothing)() == 1


def suspended():
    """Context manager: what lives in the arena's memory is on the host meanwhile (_suspended.py)."""
    from . import _suspended

    return _suspended.suspended()


def patch_loss(model, **options):
    """Has a Hugging Face model make its training loss without logits.  Returns a handle: .unpatch(), or a `with`."""
    from . import _loss

    return _loss.patch_loss(model, **options)


def unpatch_loss(model):
    """The model as it was before patch_loss."""
    from . import _loss

    _loss.unpatch_loss(model)


def _version():
    """What CMake's project has: a file beside the tree's folder python, "unknown" in sources that were not built."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, "../../version"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def __getattr__(name):
    """What costs an import of PyTorch, or a look at a file, comes when it is asked for."""
    if name == "linear_cross_entropy":
        from .cross_entropy import linear_cross_entropy as value
    elif name == "__version__":
        value = _version()
    elif name == "open":
        raise AttributeError('vramscope.open is gone: pandas.read_sql("SELECT * FROM phase_peak", sqlite3.connect("run.db")) reads a recording')
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
