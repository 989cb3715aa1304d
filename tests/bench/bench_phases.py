#!/usr/bin/env python3
"""bench_phases.py - what opening and closing the automatic phases adds to a training step, in us.

    PYTHONPATH=tests/e2e/frameworks/fake_torch FAKE_TORCH=hooks build/release/bin/vramscope run --simulated -q -o /tmp/x.db -- PYTHON tests/bench/bench_phases.py [ROUNDS] [TOUCH]

A step of a model of two layers, one of them an output layer, with backward and an optimizer, all of which do nothing as far as the torch
at hand allows it (the shell of the tests, in which they do nothing at all, or PyTorch): with phases switched off, by the hooks' Python code,
and as it is (the library does what hooks do).  In each round each once, in an order that is drawn; what is between two of a round is the
difference.  TOUCH: bytes that are read before each of the step's three parts, so that the caches hold something else.
"""
import os
import random
import sys
import time

import torch
from torch import nn

from bench_module_calls import quarters  # which finds tests/gpu, too

OFF, PYTHON, LIBRARY = MODES = "off", "python", "library"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lm_head = nn.Embedding(32, 2), nn.Linear(2, 32)

    def forward(self, x):
        return self.lm_head(self.embed(x))


def parts_of_a_step():
    model = Model()
    if hasattr(torch, "tensor"):
        optimizer, x, kept = torch.optim.SGD(model.parameters(), lr=0.1), torch.tensor([1]), []
        return lambda: kept.append(model(x)), lambda: kept.pop().sum().backward(), optimizer.step
    optimizer = torch.optim.Optimizer()
    return lambda: model(1), lambda: torch.autograd.backward(lambda: None), optimizer.step


def main():
    import vramscope._torch as phases
    from cost_parts import phase_hooks

    rounds, junk = (int(sys.argv[1]) if len(sys.argv) > 1 else 400), b"!" * (int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hooks, parts = phase_hooks(torch, phases), parts_of_a_step()
    for _ in range(10):
        for part in parts:
            part()
    phases._phase(phases.LOOK, 1 << 62)  # looks at roles are another matter
    times, order, now = {mode: [] for mode in MODES}, list(MODES), time.perf_counter_ns
    for _ in range(rounds):
        random.shuffle(order)
        for mode in order:
            phases.switch(mode != OFF)
            for turn in range(3):  # the first ones make what modes know of the model right
                hooks(mode == PYTHON)
                took = 0
                for part in parts:
                    junk.count(b"?")
                    begin = now()
                    part()
                    took += now() - begin
            times[mode].append(took / 1e3)
    print(f"the library {'does' if phases.vramscope_calls.are_hooked() else 'does not do'} what hooks do; {rounds} rounds; medians (quarters), us a step")
    for mode, values in times.items():
        more = "" if mode == OFF else f"; more than off {quarters([a - b for a, b in zip(values, times[OFF])], 1)}"
        print(f"  {mode:7} {quarters(values, 1)}{more}")


if __name__ == "__main__":
    main()
