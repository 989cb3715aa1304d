#!/usr/bin/env python3
"""bench_arena_meta.py [CYCLES [single|light]] > TRACE: what tests/gpu/arena_train.py's ten decoders ask of an allocator, or its single
one, or its small one, for bench_arena_replay.

No GPU and no memory is needed: PyTorch runs the same model on tensors without data and says which storages are made and freed,
each on the stream of its decoder.
The kernels' own scratch, AdamW's inside and what libraries allocate are not in it, and of
attention what the flash kernels keep.
"""
import os
import random
import sys
import weakref
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import arena_train  # noqa: E402


def empty(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="meta")


class Trace(TorchDispatchMode):
    """Lines "a ID SIZE STREAM" and "f ID"; `stream` is the one that is current."""

    def __init__(self):
        super().__init__()
        self.lines, self.living, self.next, self.stream = [], {}, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor.untyped_storage())
        return made

    def see(self, storage):
        if storage._cdata in self.living or not storage.nbytes():
            return
        self.living[storage._cdata] = self.next
        self.lines.append(f"a {self.next} {storage.nbytes()} {self.stream}")
        weakref.finalize(storage, self.end, storage._cdata, self.next)
        self.next += 1

    def end(self, key, number):
        if self.living.get(key) == number:
            del self.living[key]
        self.lines.append(f"f {number}")


class Flash(torch.autograd.Function):
    """What the flash kernels allocate: the output, the sums of its rows, and a gradient for each input."""

    @staticmethod
    def forward(context, q, k, v):
        b, heads, s, h = q.shape
        out, sums = empty((b, s, heads, h), q.dtype).transpose(1, 2), empty(q.shape[:3], torch.float32)
        context.save_for_backward(q, k, v, out, sums)
        return out

    @staticmethod
    def backward(context, gradient):
        q, k, v = context.saved_tensors[:3]
        scratch = empty(q.shape, torch.float32)
        made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        del scratch
        return made


def attend(q, k, v, **_):
    return Flash.apply(q, k, v)


def new_decoder(s):
    with torch.device("meta"):
        return arena_train.Decoder(s).to(torch.bfloat16)


def optimize(model, moments):
    for p in model.parameters():
        if p not in moments:
            moments[p] = empty((), torch.float32), torch.zeros_like(p), torch.zeros_like(p)
        p.grad = None


def step(trace, s, rng, decoders):
    losses = []
    for n, (model, _) in enumerate(decoders):
        length = arena_train.length(rng, s)
        rng.randrange(1 << 30)  # as tokens() draws it
        trace.stream = len(decoders)
        ids = empty((s.batch, length + 1), torch.int64)
        trace.stream = n
        losses.append(model(ids))
        del ids
    for n, (model, moments) in enumerate(decoders):
        trace.stream = n
        losses[n].backward()
        losses[n] = losses[n].detach()
        optimize(model, moments)


def single_step(s, rng, number, model, moments):
    losses = []
    for _ in range(rng.randint(1, 4)):
        ids = empty((s.batch, arena_train.length(rng, s) + 1), torch.int64)
        rng.randrange(1 << 30)
        loss = model(ids)
        loss.backward()
        losses.append(loss.detach())
    optimize(model, moments)
    if number % 3 == 2:
        with torch.no_grad():
            model(empty((s.batch, s.longest + arena_train.length(rng, s) + 1), torch.int64))
        rng.randrange(1 << 30)


def main():
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    which = sys.argv[2] if len(sys.argv) > 2 else "multi"
    one = which != "multi"
    s, trace, decoders = SimpleNamespace(**arena_train.SIZES[which]), Trace(), []
    F.scaled_dot_product_attention = attend
    with trace:
        for n in range(1 if one else arena_train.STREAMS):
            trace.stream = n
            decoders.append((new_decoder(s), {}))
        for _ in range(cycles):
            rng = random.Random(1)
            for number in range(s.steps):
                if one:
                    single_step(s, rng, number, *decoders[0])
                else:
                    step(trace, s, rng, decoders)
    lines = list(trace.lines)
    print("\n".join([f"0 {len(lines)}"] + lines))


main()
