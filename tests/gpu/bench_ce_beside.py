#!/usr/bin/env python3
"""bench_ce_beside.py LIBRARY [--before LIBRARY] [--shape N,H,V[,%] ...] [--ways NAME ...] [--seconds N] [--profile] [--times]: the plans beside each other.

Loss, dX and dW in bf16 by turns in one process, in another order each time: another build of the library (--before), this
one's default, `fast` and `lean`; cuBLASLt's products alone, which have logits in 16 bits; with that of the logits ours;
all of them ours, also with tiles of 256 and of 192 of H alone (wide, narrow); logits in fp32.  Times are ms after 0.1 s
of rest, median, least and how often; in brackets the median of each round's time over the first method's in that round.
Errors are those of bench_ce.py, against fp64.  --profile: what the kernels take.
--times: no errors.
"""
import argparse
import random
import statistics
import time

import torch

import bench_ce as B
import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

OURS, CUBLASLT = 1 << 14, 1 << 13  # in proposals: whose products; both: that of the logits is ours alone
WAYS = {
    "default": {"mode": K.AUTO},
    "fast": {},
    "lean": {"mode": K.LEAN},
    "cuBLASLt": {"proposals": CUBLASLT},
    "beside": {"proposals": CUBLASLT | OURS},
    "ours": {"proposals": OURS},
    "wide": {"proposals": OURS | K.WIDE_TILES},
    "narrow": {"proposals": OURS | K.NARROW_TILES},
    "fp32 logits": {"flags": K.F32_LOGITS},
}


def told(times, first):
    shares = [a / b for a, b in zip(times, first) if a and b]
    mine = [t for t in times if t]
    return f"{statistics.median(mine):8.3f} ms (least {min(mine):8.3f}, {len(mine)} of them) [{statistics.median(shares):.4f}]"


def kernels(name, method):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        method.results()
    for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:6]:
        print(f"    {name:16s} {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:60]}", flush=True)


def one(clock, libraries, shape, kind, ways, seconds, profiled, checked):
    x, w, labels = N.make_inputs(shape, kind, "cuda")
    case = M.Case(libraries[0], x, w, labels)
    made = {"before": M.Ours(M.Case(libraries[1], x, w, labels), K.FAST)} if len(libraries) > 1 else {}
    made.update((name, M.Ours(case, **{"mode": K.FAST, **WAYS[name]})) for name in ways)
    want, errors = N.reference(x, w, labels) if checked else None, {}
    for name, method in made.items():
        got = method.results()
        errors[name] = "loss {:.1e} dX {:.2e} dW {:.2e}  ".format(*N.errors(got, want)) if checked else ""
        del got
        if profiled:
            kernels(name, method)
        method.release()
    del want
    times, began = {name: [] for name in made}, time.time()
    while time.time() - began < seconds or min(map(len, times.values())) < 3:
        for name, method in random.sample(list(made.items()), len(made)):
            torch.cuda.synchronize()
            time.sleep(0.1)
            times[name].append(clock(method))
            method.release()
    print(f"{N.shape_name(shape)} {kind}", flush=True)
    first = next(iter(times.values()))
    for name, method in made.items():
        print(f"  {name:14s} {told(times[name], first)}  {errors[name]}{method.note}", flush=True)
        method.close()


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_beside.py", description=__doc__.split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("--before")
    parser.add_argument("--shape", nargs="+", default=["8192,4096,128256"])
    parser.add_argument("--kinds", nargs="+", choices=N.KINDS, default=N.KINDS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--times", action="store_true")
    a = parser.parse_args()
    clock = B.GpuClock()
    libraries = [K.Library(path, K.CUDA) for path in (a.library, a.before) if path]
    print(f"# {B.card('cuda')}", flush=True)
    for shape in map(N.read_shape, a.shape):
        for kind in a.kinds:
            one(clock, libraries, shape, kind, a.ways, a.seconds, a.profile, not a.times)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
