"""_dry_places - where a program reads a value that only a GPU computes: the innermost line of the program's own files.

Files of PyTorch, of installed packages and of Python are not the program's.  Where the thread has no line of the program, it is the
innermost line outside of PyTorch.
"""

import os
import sys
import sysconfig
import threading

from . import _dry_facts

_here = os.path.dirname(os.path.abspath(__file__)) + os.sep
_installed = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"
_python = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_torch = os.sep + "torch" + os.sep  # install() has the real one


class _Inside(threading.local):
    """An operator that reads by itself, what it reads, what a library counts within it, and how often such operators are open on the thread."""

    depth, answer, count = 0, None, None
    target = None  # of the operator that writes in place
    foreign = False  # within an operator that is not PyTorch's


inside = _Inside()


def _is_programs(file):
    return not (file.startswith(("<", _here) + _python) or any(part in file for part in _installed))


def where():
    """(the program's line, the innermost outside of PyTorch); the latter alone where the program has none on this thread.

    The program may be no file of its own: of python -c, of standard input.
    """
    frame, inner, last = sys._getframe(2), None, "a thread without Python"
    while frame is not None:
        file = frame.f_code.co_filename
        line = f"{file}:{frame.f_lineno}"
        is_main = frame.f_globals.get("__name__") == "__main__" and not file.startswith(_torch)
        if is_main or not file.startswith((_torch, _here, "<")):
            inner = inner or line
            if is_main or _is_programs(file):
                return line, inner
        elif not file.startswith((_here, "<")):
            last = line
        frame = frame.f_back
    return inner or last, inner or last


def _short(line):
    """A line of a package that is installed, from the package on."""
    for part in _installed:
        line = line.rpartition(part)[2]
    return line


def _shape(t):
    return str(t.dtype).replace("torch.", "") + (str(list(t.size())).replace(" ", "") if t.dim() else "")


def read(what, t, assumed):
    """The program reads WHAT of T and gets what ASSUMED says; within an operator that does, it is told once, by that operator.

    How often the place was read before.
    """
    times = 0
    if not inside.depth:
        line, inner = where()
        within = "" if inner == line else f", in {_short(inner)}"
        times = _dry_facts.value(line, f"{what} of {_shape(t)}{within}", assumed)
    return times


def install(torch):
    global _torch
    _torch = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
