"""_dry_end - a dry run ends where so many training steps have ended.

The library counts steps (shim/framework/steps.c) and calls `_reached` where the last one has ended: as a rule in the call of the model that
begins the next.  The process ends there, with status 0: no `finally`, no exit handler, no other thread of the program runs, so a checkpoint
that it would write at its end counts for nothing.

Programs without an optimizer, or with fewer steps, run to their end, as all do under VRAMSCOPE_DRY_STEPS=all.
"""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

from . import _dry_facts

_CALLBACK = ctypes.CFUNCTYPE(None)
# these end by themselves when their parent has, and clean up what it left in shared memory
_OWN_END = b"multiprocessing.resource_tracker", b"torch_shm_manager"
_PATIENCE = 5  # seconds
_steps = 0
_library = None


def _children():
    """Process ids of what this process started and what those did, the nearest first."""
    found, seen = [os.getpid()], 0
    while seen < len(found):
        parent, seen = found[seen], seen + 1
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    found.extend(int(child) for child in file.read().split())
        except (OSError, ValueError):
            pass
    return found[1:]


def _ends_by_itself(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return True
    return any(name in command for name in _OWN_END)


def _end_children():
    ended = [pid for pid in _children() if not _ends_by_itself(pid)]
    for pid in ended:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    for pid in ended:
        try:
            os.waitpid(pid, 0)  # of our own children; the others' parents are gone
        except OSError:
            pass


def _flush():
    """What the program has written so far is its output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    for name in ("stdout", "stderr"):
        ctypes.PyDLL(None).fflush(ctypes.c_void_p.in_dll(ctypes.PyDLL(None), name))


def _tell():
    _dry_facts.write_times()
    _dry_facts.write("ended", _steps)


def _quiet():
    """From here on no signal of the program's is handled, and none tells it that a child of its has ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _reached():
    """Whatever fails on the way, also by an exception of a signal handler's that was due: the rest is done, and the process ends."""
    steps = [_quiet, _tell, _flush, _end_children, _library.vramscope_auto_finish]
    while steps:
        try:
            while steps:
                steps.pop(0)()
        except BaseException:
            pass
    os._exit(0)


_callback = _CALLBACK(_reached)


def _limit(steps):
    _library.vramscope_auto_limit(ctypes.c_uint64(steps), _callback if steps else _CALLBACK())


def _is_engine_busy():
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/stat") as file:
                name, _, rest = file.read().rpartition(") ")
        except OSError:
            continue
        if "(pt_autograd" in name and rest[0] != "S":
            return True
    return False


def _let_threads_rest():
    """The engine's threads let go of a backward behind its end, which aborts a process whose interpreter is gone by then.  On a GPU a
    program waits for kernels, and they are done; here nothing takes its time."""
    torch = sys.modules.get("torch")
    calm, patience = 0, 200
    while torch is not None and torch.cuda.is_initialized() and calm < 10 and patience:
        time.sleep(0.01)  # they may have the interpreter meanwhile
        calm, patience = (0 if _is_engine_busy() else calm + 1), patience - 1


def _waits_briefly(process):
    """For its `wait`, whatever it is told."""
    wait = process.wait

    def briefly(timeout=None):
        try:
            return wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return wait()

    return briefly


def _hurry_compilers():
    """torch.compile's workers now and then wait for each other when they are told to end, and PyTorch for them, up to 300 s.  The
    program is over and nobody needs them."""
    for pool in tuple(getattr(sys.modules.get("torch._inductor.async_compile"), "_pool_set", ())):
        process = getattr(pool, "process", None)
        if process is not None:
            process.wait = _waits_briefly(process)


def install(steps):
    """STEPS: a number, or "all"."""
    global _steps, _library
    atexit.register(_let_threads_rest)
    if hasattr(threading, "_register_atexit"):  # before all exit handlers
        threading._register_atexit(_hurry_compilers)
    library = ctypes.PyDLL(None)
    if not steps.isdigit() or int(steps) == 0 or not hasattr(library, "vramscope_auto_limit"):
        return
    _library, _steps = library, int(steps)
    _limit(_steps)
    # a program that comes to its end has its own status, even where the end of its last step is recorded then
    atexit.register(_limit, 0)
    os.register_at_fork(after_in_child=lambda: _limit(_steps))
