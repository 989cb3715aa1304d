#!/usr/bin/env python3
"""bench_ce_host.py TREE [--device cpu] [--calls N] [--rest S] [TOKENS,HIDDEN,VOCABULARY]...: how long the host takes before the GPU has anything to do.

linear_cross_entropy(...) and backward() of bf16 leaves, of small shapes, so that the host's time shows; medians of
microseconds from the call on: when lce_run is called, when that comes back, when the loss is there, when the gradients
are (on the host).  After a rest, as a step's other work leaves the host's caches, and without.  Beside them the library's
own call as bench_ce.py makes it.
"""
import argparse
import os
import statistics
import sys
import time

import torch

import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

POINTS = "lce_run is called", "lce_run is back", "the loss is there", "the gradients are there"


class Stopwatch:
    """The library's lce_run with the time before and after it."""

    def __init__(self, function):
        self.function, self.times = function, []

    def __call__(self, *arguments):
        self.times = [time.perf_counter()]
        status = self.function(*arguments)
        self.times.append(time.perf_counter())
        return status


def through_pytorch(case, watch, loss):
    x, w = case.x.detach().requires_grad_(), case.w.detach().requires_grad_()

    def call():
        x.grad = w.grad = None
        start = time.perf_counter()
        value = loss(x, w, case.labels)
        there = time.perf_counter()
        value.backward()
        return [1e6 * (t - start) for t in (*watch.times, there, time.perf_counter())]

    return call


def from_c(ours, watch):
    def call():
        start = time.perf_counter()
        ours()
        end = time.perf_counter()
        ours.release()
        return [1e6 * (t - start) for t in (*watch.times, end, end)]

    return call


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_host.py")
    parser.add_argument("tree")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--rest", type=float, default=0.1)
    parser.add_argument("shapes", nargs="*", default=["256,4096,32000"])
    a = parser.parse_intermixed_args()
    path = os.path.join(a.tree, "lib/liblinear_cross_entropy.so")
    os.environ["LCE_LIBRARY"] = path
    sys.path.append(os.environ.get("BINDING") or os.path.join(a.tree, "share/vramscope/python"))
    import vramscope._cross_entropy_library as L
    from vramscope.cross_entropy import linear_cross_entropy

    torch.zeros(1, device=a.device)
    library = K.Library(path, K.CUDA if a.device == "cuda" else K.CPU)
    for text in a.shapes:
        case = M.Case(library, *N.make_inputs(N.read_shape(text), "random", a.device))
        linear_cross_entropy(case.x, case.w, case.labels)  # binds the library
        bound, plan = L.library_for(case.x.device).c, M.Ours(case, K.AUTO)
        watches = [Stopwatch(bound.lce_run), Stopwatch(library.c.lce_run)]
        bound.lce_run, library.c.lce_run = watches
        calls = {"through PyTorch": through_pytorch(case, watches[0], linear_cross_entropy), "the library": from_c(plan, watches[1])}
        for rest in (a.rest, 0):
            times = {name: [] for name in calls}
            for turn in range(a.calls):
                for name, call in calls.items():
                    time.sleep(rest)
                    times[name].append(call())
                    if a.device == "cuda":
                        torch.cuda.synchronize()
            for name, rows in times.items():
                told = ", ".join(f"{what} {statistics.median(column):.0f}" for what, column in zip(POINTS, zip(*rows[2:])))
                print(f"{text}, {name}, after {rest} s: µs until {told}", flush=True)
        bound.lce_run, library.c.lce_run = (watch.function for watch in watches)
        plan.close()


if __name__ == "__main__":
    main()
