#!/usr/bin/env python3
"""bench_arena_steps.py [--size single|light|llama] [--steps N] [--lengths SHORTEST:LONGEST] [--batches N] [--repeat N] > TRACE

What a training loop of PyTorch asks of an allocator, without a GPU: the model of tests/gpu/arena_train.py lies on the device
"meta", and each storage that an operator returns is a request until PyTorch lets go of it. With --repeat N the random lengths begin
anew after N steps.
"""
import argparse
import os
import random
import sys
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu"))
import arena_train  # noqa: E402


SIZES = {"llama": dict(hidden=2048, layers=16, heads=32, ffn=8192, vocab=128256, batch=2),  # as Llama 3.2 1B
         **arena_train.SIZES}


class Requests(TorchDispatchMode):
    """Writes a line for each storage that begins, and for its end."""

    def __init__(self):
        super().__init__()
        self.lines, self.living, self.next = [], {}, 0

    def note(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.living or storage.nbytes() == 0:
            return
        self.living[key] = self.next
        self.lines.append(f"a {self.next} {storage.nbytes()} 0")
        self.next += 1
        weakref.finalize(storage, self.end, key)

    def end(self, key):
        if key in self.living:
            self.lines.append(f"f {self.living.pop(key)}")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in tree_iter(out):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "meta":
                self.note(tensor)
        return out


def flash(q, k, v, is_causal):
    """What a GPU takes; on "meta" PyTorch would choose the one that makes a matrix of all pairs of tokens."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal)[0]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", choices=sorted(SIZES), default="single")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--lengths", default="100:1500")
    p.add_argument("--batches", type=int, default=2)
    p.add_argument("--batch", type=int, help="sequences at once")
    p.add_argument("--attention", choices=["flash", "matrix"], default="flash")
    p.add_argument("--together", action="store_true", help="all forwards, then all backwards")
    p.add_argument("--repeat", type=int, default=0)
    a = p.parse_args()
    shortest, longest = map(int, a.lengths.split(":"))
    s = argparse.Namespace(**SIZES[a.size])
    s.batch = a.batch or s.batch
    requests = Requests()
    if a.attention == "flash":
        arena_train.F.scaled_dot_product_attention = flash
    with requests, torch.device("meta"):
        model = arena_train.Decoder(s).to(torch.bfloat16)
        moments = None
        first = len(requests.lines)
        for step in range(a.steps):
            rng = random.Random(step % a.repeat if a.repeat else step)
            losses = []
            for _ in range(a.batches):
                ids = torch.zeros((s.batch, rng.randint(shortest, longest) + 1), dtype=torch.int64)
                losses.append(model(ids) / a.batches)
                if not a.together:
                    losses.pop().backward()
            for loss in losses:
                loss.backward()
            del losses
            moments = moments or [torch.zeros_like(p) for p in model.parameters() for _ in range(2)]
            model.zero_grad(set_to_none=True)
    print(f"{first} {len(requests.lines)}")
    print("\n".join(requests.lines))


if __name__ == "__main__":
    main()
