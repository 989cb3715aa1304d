#!/usr/bin/env python3
"""bench_ce_options.py [--seconds S] [--rounds R] [--library NAME=PATH]... [TOKENS,HIDDEN,VOCABULARY]... - what options cost, on a GPU.

Per shape, in bf16, one lce_run that makes the loss (mean) and both gradients: plain; at a temperature of 0.7; with entropies;
with both; with both and an upstream gradient of each token's entropy; with a bias (and its gradient), a softcap of 30, class weights,
label smoothing of 0.1, and with all of them.  --variant NAME, any number of times: only these, beside plain.  Every variant of every library by turns within a
round, in random order, 0.1 s of rest before each; then medians with the least and the greatest, and how much of plain's
time each takes.  Beside them PyTorch's three products.  Each variant's results are computed twice, and their bits compared;
those of two libraries by their norms.

LIBRARY: builds to compare (default: the one that the package finds).  VRAMSCOPE_PYTHON names the folder of the package.
"""
import argparse
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("VRAMSCOPE_PYTHON") or os.path.join(HERE, "../../shim/framework/python"))
from vramscope import _cross_entropy_library as library  # noqa: E402

SHAPES = "8192,4096,128256 1000,3584,151646 5003,2048,50257 3001,1536,256000 2048,5120,202048"
REST, TEMPERATURE = 0.1, 0.7
GRADIENTS = library.LOSS | library.GRAD_INPUT | library.GRAD_WEIGHT
BIASED = GRADIENTS | library.GRAD_BIAS
ALL = {"bias", "softcap", "weights", "smoothing"}
# wants, temperature, whether entropies have an upstream gradient, and what else there is
VARIANTS = {
    "plain": (GRADIENTS, 1.0, False, ()),
    "temperature": (GRADIENTS, TEMPERATURE, False, ()),
    "entropies": (GRADIENTS | library.ENTROPY, 1.0, False, ()),
    "temperature, entropies": (GRADIENTS | library.ENTROPY, TEMPERATURE, False, ()),
    "temperature, entropies and their gradient": (GRADIENTS | library.ENTROPY, TEMPERATURE, True, ()),
    "bias": (BIASED, 1.0, False, {"bias"}),
    "softcap": (GRADIENTS, 1.0, False, {"softcap"}),
    "class weights": (GRADIENTS, 1.0, False, {"weights"}),
    "smoothing": (GRADIENTS, 1.0, False, {"smoothing"}),
    "smoothing, class weights": (GRADIENTS, 1.0, False, {"smoothing", "weights"}),
    "all but entropies": (BIASED, TEMPERATURE, False, ALL),
    "all": (BIASED | library.ENTROPY, TEMPERATURE, True, ALL),
}


def timed(call):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


class Shape:
    def __init__(self, n, h, v, libraries):
        torch.manual_seed(n)
        self.x = torch.randn(n, h, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(v, h, device="cuda", dtype=torch.bfloat16) * 0.02
        self.y = torch.randint(v, (n,), device="cuda")
        self.above = torch.randn(n, device="cuda") / n
        self.bias = torch.randn(v, device="cuda", dtype=torch.bfloat16) * 0.1
        self.weights = torch.rand(v, device="cuda") + 0.5
        self.libraries = libraries

    def run(self, name, variant):
        wants, temperature, above, others = VARIANTS[variant]
        smoothing, softcap = 0.1 * ("smoothing" in others), 30.0 * ("softcap" in others)
        options = library.Options("mean", -100, smoothing, 0.0, softcap, temperature, 0, "auto", 0, 0, torch.bfloat16)
        library._libraries[self.x.device] = self.libraries[name]
        bias, weights = self.bias if "bias" in others else None, self.weights if "weights" in others else None
        return library.run(wants, options, self.x, self.w, bias, self.y, weights, None, self.above if above else None)

    def products(self):
        z = F.linear(self.x, self.w)
        return z @ self.w, z.T @ self.x

    def methods(self):
        found = {(variant, name): (lambda v=variant, n=name: self.run(n, v)) for variant in VARIANTS for name in self.libraries}
        return {("three products of PyTorch", ""): self.products, **found}

    def same_bits(self):
        """The variants whose results differ from one run to the next, and the largest difference between two libraries."""
        differ, apart = [], 0.0
        for variant in VARIANTS:
            first = None
            for name in self.libraries:
                one, two = ([t for t in self.run(name, variant) if t is not None] for _ in range(2))
                if not all(torch.equal(a, b) for a, b in zip(one, two)):
                    differ.append(f"{variant}, {name}")
                if first is not None:
                    apart = max(apart, *(float((a.float() - b.float()).norm() / b.float().norm()) for a, b in zip(one, first)))
                first = first or one
        return differ, apart


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=100, help="of all shapes together")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only these, beside plain")
    parser.add_argument("shapes", nargs="*", default=SHAPES.split())
    arguments = parser.parse_args()
    for name in set(VARIANTS) - {"plain", *(arguments.variant or VARIANTS)}:
        del VARIANTS[name]
    device = torch.device("cuda", torch.cuda.current_device())
    torch.zeros(1, device=device)
    given = dict(text.split("=", 1) for text in arguments.library) or {"ours": library.find()}
    libraries = {name: library._Library(library._bind(path), device) for name, path in given.items()}
    end = time.monotonic() + arguments.seconds
    failed = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    shapes = random.sample(arguments.shapes, len(arguments.shapes))
    for done, text in enumerate(shapes):
        shape = Shape(*map(int, text.split(",")), libraries)
        methods, times = shape.methods(), {}
        for call in methods.values():
            call()
        differ, apart = shape.same_bits()
        failed = failed or bool(differ)
        stop = time.monotonic() + (end - time.monotonic()) / (len(shapes) - done)
        for _ in range(arguments.rounds):
            for key in random.sample(list(methods), len(methods)):
                time.sleep(REST)
                times.setdefault(key, []).append(timed(methods[key]))
            if time.monotonic() > stop:
                break
        rounds = min(map(len, times.values()))
        print(f"\n{text}: {rounds} rounds, other bits in a second run: {differ or 'none'}, libraries apart by {apart:.1e}\n\n| variant | ms | of plain |\n| --- | ---: | ---: |")
        for (variant, name), ms in times.items():
            plain = statistics.median(times.get(("plain", name), ms))
            print(f"| {variant}{', ' if name else ''}{name} | {statistics.median(ms):.2f} ({min(ms):.2f} – {max(ms):.2f}) | {statistics.median(ms) / plain:.3f} |", flush=True)
        del shape, methods
        torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no GPU for PyTorch")
        sys.exit(77)
    sys.exit(main())
