"""_pools - records how much the pools of JAX and CuPy use, by the libraries' own figures.

Both take memory from the driver in large pieces and hand it out without reporting that.  Their own figures are memory_stats() of JAX's
devices and used_bytes() of CuPy's default pool.  A thread reads them every VRAMSCOPE_SAMPLE_MS, and once more at the program's end.

It imports nothing that the program has not imported, and reads nothing before the process has memory of a device, because a query must not
start the driver.  It takes no lock and keeps no object of the libraries; a source that fails is said to the recording, once, and is not
read again.  The thread is stopped before a fork, so it does not exist in the child.
"""

import _thread
import atexit
import ctypes
import os
import sys

from . import _contracts as vramscope_contracts

_UNKNOWN = 2**64 - 1
_GPUS = ("gpu", "cuda")
_REPEAT = 10  # an unchanged figure is recorded every so many rounds

_tell = None
_readers = {}  # name -> function that yields (device, used, peak, held)
_last = {}  # (name, device) -> the recorded figures, and in which round
_round = 0
_pid = os.getpid()
_stop = None  # a lock that is held while the thread shall go on
_gone = None  # a lock that the thread holds while it is there


# ---- sources ----


def _jax():
    bridge = sys.modules["jax._src.xla_bridge"]
    for client in list(bridge._backends.values()):
        if client.platform not in _GPUS:
            continue
        for device in client.local_devices():
            figures = device.memory_stats() or {}
            ordinal = getattr(device, "local_hardware_id", None)
            if figures and (ordinal is None or "bytes_in_use" not in figures):
                raise vramscope_contracts.Otherwise("a device says neither bytes_in_use nor its number as it did")
            if figures:
                held = figures.get("pool_bytes", figures.get("bytes_reserved"))
                yield ordinal, figures["bytes_in_use"], figures.get("peak_bytes_in_use"), held


def _cupy():
    """Of device 0 alone: its pool is the one of a thread's current device, and this thread sets none."""
    pool = sys.modules["cupy"].get_default_memory_pool()
    held = pool.total_bytes()
    if held:
        yield 0, pool.used_bytes(), None, held


# ---- reading ----


def _number(value):
    return _UNKNOWN if value is None else int(value)


def _ask(name, final):
    for device, *figures in _readers[name]():
        figures = tuple(_number(f) for f in figures)
        before, when = _last.get((name, device), (None, 0))
        if final or figures != before or _round - when >= _REPEAT:
            _last[name, device] = figures, _round
            _tell(name.encode(), device, *figures)
            vramscope_contracts.proven("pool_figures", f"{name} says numbers by the names that are known")


def _ask_all(final=False):
    global _round
    if not _tell(None, 0, 0, 0, 0):
        return
    _round += 1
    for name in list(_readers):
        try:
            _ask(name, final)
        except (vramscope_contracts.Otherwise, AttributeError, KeyError, TypeError) as error:
            if not final:
                _readers.pop(name, None)
                vramscope_contracts.broken("pool_figures", f"{name}: {vramscope_contracts.why(error)}")
        except Exception:  # of a device, or of this moment
            if not final:
                _readers.pop(name, None)


# ---- the thread ----


def _run(stop, gone, seconds):
    try:
        while not stop.acquire(timeout=seconds):
            _ask_all()
    finally:
        gone.release()


def _period():
    """VRAMSCOPE_SAMPLE_MS in seconds; what is no number is the default there, too."""
    text = os.environ.get("VRAMSCOPE_SAMPLE_MS", "")
    return (int(text) if text.isdecimal() else 100) / 1000


def _start():
    """Not a threading.Thread: the program's list of threads stays its own."""
    global _stop, _gone
    seconds = _period()
    if _stop is not None or seconds <= 0:
        return
    _stop, _gone = _thread.allocate_lock(), _thread.allocate_lock()
    _stop.acquire()
    _gone.acquire()
    _thread.start_new_thread(_run, (_stop, _gone, seconds))


def _halt():
    """Ends the thread, unless it is stuck in a library for too long."""
    global _stop
    if _stop is None:
        return False
    _stop.release()
    _stop = None
    return _gone.acquire(timeout=1)


def _at_exit():
    if os.getpid() == _pid and _halt():
        _ask_all(final=True)


_was_running = _registered = False


def _before_fork():
    global _was_running
    _was_running = _stop is not None
    _halt()


def _after_fork_in_parent():
    if _was_running:
        _start()


def _after_fork_in_child():
    _readers.clear()


def _begin(name, reader):
    """Called in the middle of the libraries' own work, which must not fail because of it."""
    global _registered
    try:
        if not _registered:
            _registered = True
            atexit.register(_at_exit)
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
        _readers[name] = reader
        _start()
    except Exception:
        _readers.pop(name, None)


# ---- installing ----


def install(module):
    """MODULE, jax or cupy, has just been imported."""
    global _tell
    tell = ctypes.PyDLL(None).vramscope_pool_use
    tell.argtypes = [ctypes.c_char_p, ctypes.c_int] + [ctypes.c_uint64] * 3
    tell.restype = ctypes.c_int
    _tell = tell
    if module.__name__ == "cupy":
        _begin("CuPy", _cupy)
        return
    register = getattr(sys.modules.get("jax._src.xla_bridge"), "register_backend_initialization_hook", None)
    if register is not None:  # JAX calls this when it begins to use a device
        register(lambda backend: getattr(backend, "platform", "gpu") in _GPUS and _begin("JAX", _jax))
    else:
        _begin("JAX", _jax)  # where there is nothing to be read either, the first reading says so
