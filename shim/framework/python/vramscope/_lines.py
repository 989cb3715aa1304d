"""_lines - has the library compare the lines that it reads of code objects with those that Python says (shim/stacks/python_answers.c)."""

import array
import types

import vramscope


def _lines(code):
    """-> for each unit of two bytes of CODE its line, 0 where it has none"""
    lines = array.array("I", bytes(4 * (len(code.co_code) // 2)))
    for start, end, line in code.co_lines():
        for at in range(start // 2, end // 2):
            lines[at] = line or 0
    return lines


def agree(code):
    """Whether CODE's name, file and lines are read as Python says them; None where nothing is read."""
    lines = _lines(code)
    name = getattr(code, "co_qualname", code.co_name)
    texts = (text.encode("utf-8", "surrogateescape") for text in (code.co_filename, name))
    answer = vramscope._library["auto_code"](id(code), *texts, lines.buffer_info()[0], len(lines))
    return None if answer < 0 else answer == 1


def install(_):
    """The package's functions have what line tables have: loops, handlers, calls over several lines."""
    if "auto_code" in vramscope._library:
        functions = (f for f in vars(vramscope).values() if type(f) is types.FunctionType)
        all(agree(function.__code__) for function in functions)
