"""bench.py LIBRARY - what a capture of Python frames costs, in ns: warm, and after other memory was read in between.

Cold is a bound: of a program's own work the caches keep more than of a read of that many bytes.
"""
import ctypes
import statistics
import sys

library = ctypes.PyDLL(sys.argv[1])
library.probe_start.restype = ctypes.c_char_p
library.probe_warm.restype = library.probe_warm_all.restype = library.probe_cold.restype = ctypes.c_double
why = library.probe_start().decode()
if why:
    sys.exit("refused: " + why)


def measure():
    warm = statistics.median(library.probe_warm(2000) for _ in range(25))
    merged = statistics.median(library.probe_warm_all(1000) for _ in range(25))
    return [merged, warm] + [statistics.median(library.probe_cold(50, ctypes.c_size_t(kib << 10)) for _ in range(9)) for kib in (256, 2048, 16384)]


def at_depth(n):
    return at_depth(n - 1) if n > 1 else measure()


for depth in 2, 20, 50:
    values = at_depth(depth - 2)  # the module and at_depth's first call are two
    print("merged_capture_ns depth=%d warm %.0f" % (depth, values.pop(0)))
    print("python_capture_ns depth=%d warm %.0f, after 256 KiB %.0f, 2 MiB %.0f, 16 MiB %.0f" % (depth, *values))
