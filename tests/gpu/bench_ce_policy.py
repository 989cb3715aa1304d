#!/usr/bin/env python3
"""bench_ce_policy.py [TOKENS,HIDDEN,VOCABULARY]... - log-probabilities with entropies, and a vocabulary in halves, timed on a GPU.

Per shape, in bf16, forward and backward of every method by turns within a round, in random order, 0.1 s of rest before each
call: the loss of each token (one pass over the logits, nothing but the loss); log-probability and entropy at temperature
0.7, ours, without and with a promise of their gradients, PyTorch's in bf16 logits and fp32 softmax, the same under torch.compile; and one half of the vocabulary, as a rank
of two would compute it, without the exchange, beside the whole.  Medians with the least and the greatest, PyTorch's peak
beyond inputs and gradients, and how far apart ours and PyTorch's in fp64 are on the first 64 tokens.

LEAVE_OUT: parts of names, separated by commas, of methods to leave out; ROUNDS: how many (7).
VRAMSCOPE_PYTHON names the folder of the package vramscope; LCE_LIBRARY, where set, the library.
"""
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
from vramscope.cross_entropy import linear_cross_entropy, linear_log_probability  # noqa: E402

SHAPES = (4096, 4096, 128256), (8192, 2048, 151936)
ROUNDS, REST, TEMPERATURE = int(os.environ.get("ROUNDS", 7)), 0.1, 0.7
LEFT_OUT = os.environ.get("LEAVE_OUT", "").split(",")


def eager(x, w, y):
    log_p = F.log_softmax(F.linear(x, w).float() / TEMPERATURE, 1)
    return log_p.gather(1, y[:, None])[:, 0], -(log_p.exp() * log_p).sum(1)


def methods_of(x, w, y):
    compiled = torch.compile(eager)
    ups = torch.randn(2, len(y), device="cuda")
    half = w.detach()[: len(w) // 2]
    options = library.Options("none", -100, 0.0, 0.0, 0.0, 1.0, 0, "auto", 0, 0, torch.bfloat16)

    def both(function):
        def call():
            log_p, entropy = function(x, w, y)
            (log_p * ups[0] + entropy * ups[1]).sum().backward()

        return call

    def plain():
        (linear_cross_entropy(x, w, y, reduction="none") * ups[0]).sum().backward()

    def promised():
        log_p, entropy = linear_log_probability(x, w, y, temperature=TEMPERATURE, return_entropy=True, upstream=ups[0], entropy_upstream=ups[1])
        (log_p * ups[0] + entropy * ups[1]).sum().backward()

    def mean():
        linear_cross_entropy(x, w, y).backward()

    def rank():
        given = x.detach(), half, None, y, None
        own = library.run(library.PARTIAL, options, *given, None, parts=library.Parts(0, len(w), None))[4]
        partials = torch.stack((own, own))
        parts = library.Parts(0, len(w), partials)
        library.run(library.LOSS, options, *given, None, parts=parts)
        library.run(library.GRAD_INPUT | library.GRAD_WEIGHT, options, *given, ups[0], parts=parts)

    def products():
        z = F.linear(x.detach(), w.detach())
        z @ w.detach()
        z.T @ x.detach()

    return {
        "loss of each token, ours": plain,
        "log-probability and entropy, ours": both(lambda *a: linear_log_probability(*a, temperature=TEMPERATURE, return_entropy=True)),
        "the same, gradients promised": promised,
        "the mean loss, ours": mean,
        "the same, PyTorch eager": both(eager),
        "the same, PyTorch compile": both(compiled),
        "half of the vocabulary, as one of two ranks": rank,
        "three products of PyTorch": products,
    }


def timed(call):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def errors(x, w, y):
    got = linear_log_probability(x[:64], w, y[:64], temperature=TEMPERATURE, return_entropy=True)
    with torch.no_grad():
        z = (x[:64].double() @ w.double().T / TEMPERATURE).log_softmax(1)
        want = z.gather(1, y[:64, None])[:, 0], -(z.exp() * z).sum(1)
        theirs = eager(x[:64], w, y[:64])
    away = lambda a, b: float((a.detach().double() - b).norm() / b.norm())
    return ", ".join(f"{name}: ours {away(a, b):.1e}, eager {away(c, b):.1e}" for name, a, b, c in zip(("log-probability", "entropy"), got, want, theirs))


def shape_of(n, h, v):
    x = torch.randn(n, h, device="cuda", dtype=torch.bfloat16).requires_grad_()
    w = (torch.randn(v, h, device="cuda", dtype=torch.bfloat16) * 0.02).requires_grad_()
    y = torch.randint(v, (n,), device="cuda")
    methods, times, peaks = methods_of(x, w, y), {}, {}
    methods = {name: call for name, call in methods.items() if not any(part and part in name for part in LEFT_OUT)}
    print(f"\n{n} x {h} x {v}; off by ({errors(x, w, y)})\n\n| method | ms | MiB |\n| --- | ---: | ---: |", flush=True)
    for name, call in methods.items():  # compiles
        for _ in range(2):
            x.grad = w.grad = None
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call()
            torch.cuda.synchronize()
            gradients = sum(t.grad.nbytes for t in (x, w) if t.grad is not None)
            peaks[name] = (torch.cuda.max_memory_allocated() - before - gradients) / 2**20
    for _ in range(ROUNDS):
        for name in random.sample(list(methods), len(methods)):
            x.grad = w.grad = None
            time.sleep(REST)
            times.setdefault(name, []).append(timed(methods[name]))
    for name, ms in times.items():
        print(f"| {name} | {statistics.median(ms):.2f} ({min(ms):.2f} – {max(ms):.2f}) | {peaks[name]:.0f} |", flush=True)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no GPU for PyTorch")
        sys.exit(77)
    print(torch.cuda.get_device_name(), torch.__version__)
    for shape in [tuple(map(int, text.split(","))) for text in sys.argv[1:]] or SHAPES:
        shape_of(*shape)
        torch.cuda.empty_cache()
