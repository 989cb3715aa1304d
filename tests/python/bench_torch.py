"""bench_torch.py - what a capture of Python frames costs between PyTorch's own work, in ns.

    LD_PRELOAD=LIBRARY PYTHON bench_torch.py LIBRARY

Trains the models of tests/gpu/bench_models.py, tiny, on the CPU, with a capture at every tensor's memory: the caches are as dispatching, the
interpreter and the allocator leave them.
"""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu"))
import torch  # noqa: E402
from bench_models import MODELS  # noqa: E402

library = ctypes.PyDLL(sys.argv[1])
library.probe_start.restype = ctypes.c_char_p
why = library.probe_start().decode()
if why:
    sys.exit("refused: " + why)
torch.set_num_threads(1)
for name, make in MODELS.items():
    step = make("cpu", True)
    for i in range(10):
        step(i)
    library.probe_watch(1)
    for i in range(40):
        step(i)
    times = ctypes.POINTER(ctypes.c_float)()
    n = library.probe_watched(ctypes.byref(times))
    library.probe_watch(0)
    ns = sorted(times[:n])
    if n < 1000:
        sys.exit("too few captures: is the library preloaded?")
    print(f"python_capture_in_torch_ns {name}: {n} captures, median {ns[n // 2]:.0f}, 90 % below {ns[9 * n // 10]:.0f}, "
          f"99 % below {ns[99 * n // 100]:.0f}")
