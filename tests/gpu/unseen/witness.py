"""What a program knows of its own tensors while it runs, for check.py: PyTorch's word, what autograd saves, what it planted. A word is
an address, the time and the role.
"""
import json
import time

import torch

DEVICE = "cuda"


def address(tensor):
    return tensor.untyped_storage().data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == DEVICE else 0


class Witness:
    def __init__(self):
        self.words = set()
        self.parameters = set()
        self.facts = {}
        self.inputs = set()

    def of(self, role, tensors):
        now = time.monotonic_ns()
        self.words.update((address(t), now, role) for t in tensors if t is not None and address(t))

    def look(self, models=(), optimizers=()):
        """After a backward: all that PyTorch has of these."""
        for model in models:
            self.of("parameter", model.parameters())
            self.of("buffer", model.buffers())
            self.of("gradient", (p.grad for p in model.parameters() if p.grad is not None))
            self.parameters.update(address(p) for p in model.parameters())
        for optimizer in optimizers:
            self.of("optimizer state", (v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v) and v.numel() > 1))

    def made(self, *tensors):
        """Inputs of this step."""
        self.inputs = {address(t) for t in tensors}
        self.of("input", tensors)
        return tensors if len(tensors) > 1 else tensors[0]

    def activations(self, role="activation"):
        """While it is open what autograd saves is an activation, parameters and inputs excepted; ROLE "kept" where the graph is kept for good."""
        def pack(tensor):
            at = address(tensor)
            if at and at not in self.parameters and at not in self.inputs:
                self.words.add((at, time.monotonic_ns(), role))
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)

    def write(self, path):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            self.facts["max_memory_allocated"] = torch.cuda.max_memory_allocated()
        with open(path, "w") as f:
            json.dump({**self.facts, "words": sorted(self.words)}, f)


