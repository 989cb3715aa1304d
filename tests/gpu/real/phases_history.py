"""What the programs of phases_programs.py allocate, each block with its Python stack: PyTorch's own memory history, or without a GPU a
dispatch mode, which also notes the phase that the hooks say.
"""

import gzip
import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OnGpu:
    def __init__(self, device=0):
        self.device = device
        torch.cuda.set_device(device)
        torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=1 << 20)

    def events(self):
        """[action, address, bytes, stack innermost first]"""
        wanted = {"alloc": "alloc", "free_requested": "free"}
        trace = torch.cuda.memory._snapshot()["device_traces"][self.device]
        torch.cuda.memory._record_memory_history(enabled=None)
        return [
            [wanted[e["action"]], e["addr"], e["size"], [[f["filename"], f["name"], f["line"]] for f in e.get("frames", ())]]
            for e in trace
            if e["action"] in wanted
        ]


def stack():
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        frames.append([frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno])
        frame = frame.f_back
    return frames


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


class OnCpu(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        from vramscope import _torch as vramscope_torch

        self.hooks, self.log = vramscope_torch, []
        self.__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        known = {storage(t) for t in tree_leaves((args, kwargs)) if type(t) is torch.Tensor}
        for tensor in tree_leaves(result):
            if type(tensor) is torch.Tensor and storage(tensor) not in known:
                names = self.hooks._threads.own.names
                phase = (names[-1] if names else b"none").decode()
                self.log.append(["alloc", 0, tensor.untyped_storage().nbytes(), stack(), phase])
        return result

    def events(self):
        self.__exit__(None, None, None)
        return self.log


def write(path, events, **facts):
    """Stacks stand once: most events share theirs with others."""
    stacks, numbers = [], {}
    for event in events:
        key = json.dumps(event[3])
        if key not in numbers:
            numbers[key] = len(stacks)
            stacks.append(event[3])
        event[3] = numbers[key]
    with gzip.open(path, "wt") as file:
        json.dump({"events": events, "stacks": stacks, **facts}, file)
