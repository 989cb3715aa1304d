"""program.py LIBRARY.so jax|jax-broken|jax-other|jax-fork|cupy|killed|none - asks a library with a pool for 512 MiB, or for 64 of nobody's
pool.

The pool's own figures say 100 MiB in use, then 40.
"""

import ctypes
import os
import sys
import threading
import time

MiB = 1 << 20
library = ctypes.CDLL(sys.argv[1])
how = sys.argv[2]


def take(size):
    address = ctypes.c_uint64()
    assert library.pool_take(ctypes.c_size_t(size), ctypes.byref(address)) == 0
    return address


def wait_for_answers(library):
    """Until the recorder, if there is one, has seen the library's figures: it has done so at the second question that follows.  Of a library
    that fails there is one."""
    end, last = time.monotonic() + 30, 1 if how in ("jax-broken", "jax-other") else library.asked + 2
    time.sleep(0.25)
    while "vramscope._pools" in sys.modules and library.asked < last and time.monotonic() < end:
        time.sleep(0.01)


if how == "cupy":  # nobody asks before the device is in use: the real one would start the driver
    import cupy

    time.sleep(0.25)
    assert cupy.asked == 0
assert library.pool_begin() == 0
direct = ctypes.c_uint64()
assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(direct), ctypes.c_size_t(MiB)) == 0
pool = take(512 * MiB)
if how.startswith("jax"):
    from jax._src import xla_bridge

    xla_bridge.figures = {"bytes_in_use": 100 * MiB, "peak_bytes_in_use": 123 * MiB, "pool_bytes": 512 * MiB, "fails": how == "jax-broken"}
    if how == "jax-other":
        xla_bridge.figures["bytes_used"] = xla_bridge.figures.pop("bytes_in_use")
    xla_bridge.init()
    wait_for_answers(xla_bridge)
    if how == "jax-fork":
        pid = os.fork()
        if pid == 0:
            before = xla_bridge.asked
            time.sleep(0.2)
            os._exit(0 if xla_bridge.asked == before else 1)
        assert os.waitpid(pid, 0)[1] == 0
    xla_bridge.figures["bytes_in_use"] = 40 * MiB
elif how == "cupy":
    cupy.used, cupy.held = 100 * MiB, 512 * MiB
    wait_for_answers(cupy)
    cupy.used = 40 * MiB
elif how == "killed":
    time.sleep(0.3)  # part of it is in the database, and is read back from there
    ctypes.CDLL("libcuda.so.1").cuMemFree_v2(direct)
    os.kill(os.getpid(), 9)
print(threading.active_count(), [thread.name for thread in threading.enumerate()])
