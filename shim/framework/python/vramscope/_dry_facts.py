"""_dry_facts - what a dry run tells `vramscope fit`: lines of the file that VRAMSCOPE_DRY_FACTS names (dry/facts.h).

A place that reads a value has a line when it first does so, with 1, and one at the process's end with how often it did since: a place's
lines add up, also where a process is killed.
"""

import atexit
import os

_path = os.environ.get("VRAMSCOPE_DRY_FACTS", "")
_places = {}  # (where, what, assumed) -> times that no line has yet
MOST_PLACES = 10000
UNKNOWN = "unknown"  # what was assumed, where nothing was: the sizes may be any


def write(*fields):
    """One line, by one write, so that lines of several processes do not mix.  A full disk must not end the program."""
    if not _path:
        return
    line = "\t".join(str(field).replace("\t", " ").replace("\n", " ") for field in fields) + "\n"
    try:
        file = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, line.encode("utf-8", "replace")[:4096])
        finally:
            os.close(file)
    except OSError:
        pass


def value(where, what, assumed):
    """The program read WHAT at WHERE, and got what ASSUMED says; how often it did before, beyond the first time."""
    key = (where, what, assumed)
    if key in _places:
        _places[key] += 1
    elif len(_places) < MOST_PLACES:
        _places[key] = 0
        write("value", where, what, assumed, 1)
    return _places.get(key, 0)


def write_times():
    for key, times in _places.items():
        if times:
            write("value", *key, times)
            _places[key] = 0


def _in_child():
    for key in _places:
        _places[key] = 0  # they are the parent's


def install():
    atexit.register(write_times)
    os.register_at_fork(after_in_child=_in_child)
