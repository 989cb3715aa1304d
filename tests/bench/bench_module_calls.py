#!/usr/bin/env python3
"""bench_module_calls.py - what `vramscope run` adds to a call of a module inside of another's, in ns.

    build/release/bin/vramscope run -q -o /tmp/x.db -- PYTHON tests/bench/bench_module_calls.py [ROUNDS] [TOUCH]

An empty Identity is called 500 times in a module: without vramscope's wrapper ("plain"), by the wrapper's Python code ("python"), and
as it is ("direct": the library makes the call).  In each round each once, in an order that is drawn; what is between two of
a round is the difference.  TOUCH: bytes that are read before each call, so that the caches hold something else.
"""
import os
import random
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
CALLS = 500


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.has_parameters, self.inner = nn.Linear(2, 2), nn.Identity()

    def forward(self, x, junk, now=time.perf_counter_ns):
        inner, took = self.inner, 0
        for _ in range(CALLS):
            junk.count(b"?")
            begin = now()
            inner(x)
            took += now() - begin
        return took / CALLS


class Warm(Many):
    def forward(self, x, _, now=time.perf_counter_ns):
        inner, begin = self.inner, now()
        for _ in range(CALLS):
            inner(x)
        return (now() - begin) / CALLS


def quarters(values, d=0):
    values = sorted(values)
    return f"{statistics.median(values):.{d}f} ({values[len(values) // 4]:.{d}f} .. {values[3 * len(values) // 4]:.{d}f})"


def main():
    import vramscope._torch as hook
    from bench_step_worker import PYTHON, module_hooks

    rounds, touch = (int(sys.argv[1]) if len(sys.argv) > 1 else 400), (int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    put, model, junk = module_hooks(torch), (Many if touch else Warm)(), b"!" * touch
    modes = {"plain": False, "python": PYTHON, "direct": True}
    times, order, x = {name: [] for name in modes}, list(modes), torch.zeros(1)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            put(modes[name])
            model(x, junk)
            times[name].append(model(x, junk))
    print(f"the library {'makes' if hook._direct else 'does not make'} calls itself; {rounds} rounds; medians (quarters), ns a call")
    for name, values in times.items():
        more = "" if name == "plain" else f"; more than plain {quarters([a - b for a, b in zip(values, times['plain'])])}"
        print(f"  {name:7} {quarters(values)}{more}")


if __name__ == "__main__":
    main()
