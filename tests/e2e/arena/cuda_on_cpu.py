"""cuda_on_cpu.py PROGRAM ARGUMENTS... - runs a program that wants a GPU on the CPU, so that what it does around PyTorch can be tested.

"cuda" means the CPU; streams and events order nothing, memory is counted as nothing, and no figure means anything.
"""
import os
import runpy
import sys
import threading

import torch
from torch.overrides import TorchFunctionMode


class Stream:
    cuda_stream = 0

    def __init__(self, *a, **k):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *a):
        return None

    def wait_stream(self, other):
        pass


def on_cpu(device):
    text = str(device)
    return "cpu" if text.startswith("cuda") or text.isdigit() else device


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if name in ("to", "device"):
            args = tuple(on_cpu(x) if isinstance(x, (str, torch.device)) else x for x in args)
        if name in ("cuda", "pin_memory"):
            return args[0]
        return function(*args, **kwargs)


def in_mode(run, thread):
    """The mode is a thread's own."""
    with Mode():
        run(thread)


def pretend():
    c = torch.cuda
    c.Stream, c.stream, c.current_stream = Stream, lambda s: s, Stream
    c.OutOfMemoryError = torch.OutOfMemoryError
    c.is_available, c.device_count, c.current_device = lambda: True, lambda: 2, lambda: 0
    c.can_device_access_peer = lambda a, b: True
    c.is_current_stream_capturing = lambda: False
    for name in ("synchronize", "set_device", "empty_cache", "reset_peak_memory_stats", "_sleep", "init"):
        setattr(c, name, lambda *a: None)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(c, name, lambda *a: 0)
    c.mem_get_info = lambda *a: (1 << 62, 1 << 62)
    c.memory_stats = lambda *a: {}
    torch.Tensor.record_stream = lambda tensor, stream: None
    run = threading.Thread.run
    threading.Thread.run = lambda thread: in_mode(run, thread)


def main():
    pretend()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    with Mode():
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
