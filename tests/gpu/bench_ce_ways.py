#!/usr/bin/env python3
"""bench_ce_ways.py LIBRARY [OPTION...] [TOKENS,HIDDEN,VOCABULARY[,PERCENT IGNORED]...]: plans, whose products, and options of the loss
beside each other.

Loss and both gradients in bf16 by bench_ce.py's clock, in another order each round: another build of the library (--before) and
each of WAYS. In brackets the median of its time over the first way's in the same round. A way whose second run has other bits makes
the exit status 1.
"""
import argparse
import random
import statistics
import sys
import time

import bench_ce as B
import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

WANTS = K.LOSS | K.GRAD_INPUT | K.GRAD_WEIGHT
ALL = {"beside": ("bias", "class_weights"), "softcap": 30.0, "label_smoothing": 0.1, "temperature": 0.7, "wants": WANTS | K.GRAD_BIAS}
WAYS = {
    "default": {"mode": K.AUTO}, "fast": {}, "lean": {"mode": K.LEAN}, "fp32 logits": {"flags": K.F32_LOGITS},
    "ours": {"proposals": K.OURS}, "beside": {"proposals": K.CUBLASLT | K.OURS}, "cuBLASLt": {"proposals": K.CUBLASLT},  # beside: the logits' product is ours
    "wide": {"proposals": K.OURS | K.WIDE_TILES}, "narrow": {"proposals": K.OURS | K.NARROW_TILES},  # tiles of 256 and of 192 of H alone
}
OPTIONS = {  # the default plan of other losses
    "plain": {},
    "temperature": {"temperature": 0.7},
    "entropies": {"wants": WANTS | K.ENTROPY},
    "temperature, entropies": {"temperature": 0.7, "wants": WANTS | K.ENTROPY},
    "temperature, entropies and their gradient": {"temperature": 0.7, "wants": WANTS | K.ENTROPY, "beside": ("grad_entropy",)},
    "bias": {"beside": ("bias",), "wants": WANTS | K.GRAD_BIAS},
    "softcap": {"softcap": 30.0},
    "class weights": {"beside": ("class_weights",)},
    "smoothing": {"label_smoothing": 0.1},
    "smoothing, class weights": {"label_smoothing": 0.1, "beside": ("class_weights",)},
    "all but entropies": ALL,
    "all": {**ALL, "wants": ALL["wants"] | K.ENTROPY, "beside": (*ALL["beside"], "grad_entropy")},
}
WAYS.update((name, {"mode": K.AUTO, **how}) for name, how in OPTIONS.items())
# the vocabularies of real tokenizers: what the plan's estimates (kernels/cuda/whose.c) were fitted to, and what they were not
FITTED = """2048,2048,32000 4096,4096,32000 8192,768,32000 1024,8192,32000 700,3072,32000 5003,2048,50257 1024,768,50257 8192,1600,50257
    4096,1024,50304 65536,1024,50304 16384,768,50304 3000,6144,100352 1000,2048,100352 4096,4096,100352 8192,4096,128256 512,4096,128256
    2048,2048,128256 4096,8192,128256 16384,2048,128256 1500,3072,128256 4096,7168,129280 1024,7168,129280 600,1536,129280 1000,3584,151646
    4096,2048,151646 2500,5120,151646 8192,1024,151936 4096,2560,151936 2048,896,151936 1024,4096,151936 2048,5120,202048 512,2048,202048
    3000,3072,202048 8192,2304,256000 1024,3072,256000 2000,4608,256000 1024,2048,262144 2048,1152,262144 4096,3840,262144 700,5376,262144"""
UNSEEN = """8192,2048,64128 2048,1536,64000 6000,2560,100352 3500,4096,128256 900,2048,128256 1800,3584,152064 1280,1280,151936 4096,2304,256000
    8192,5120,32000 12288,3072,50304 2304,8192,128256"""


def made(a, case, before):
    """{(way, type of dweight): a method}; fp32 is added to, as a main_grad is."""
    found = {}
    for grad in a.grads:
        for name in (["before"] if before else []) + a.ways:
            how = {"mode": K.AUTO if a.auto else K.FAST, "main_grad": grad == "fp32", **WAYS.get(name, {})}
            try:
                found[name, grad] = M.Ours(M.Case(before, case.x, case.w, case.labels) if name == "before" else case, **how)
            except K.Error as error:
                print(f"{name} {grad}: {error}")
    return found


def again(method):
    """Whether a second run has the same bits."""
    first = [tensor.clone() for tensor in method.results()]
    same = all(a.equal(b) for a, b in zip(first, method.results()))
    method.release()
    return same


def timed(a, clock, methods):
    times, began = {key: [] for key in methods}, time.monotonic()
    while min(map(len, times.values())) < a.rounds or time.monotonic() - began < a.seconds:
        for key in random.sample(list(methods), len(methods)):
            time.sleep(a.rest)
            times[key].append(clock(methods[key]))
            methods[key].release()
    return times


def told(times, first):
    mine, shares = [t for t in times if t], [t / f for t, f in zip(times, first) if t and f]
    return f"{statistics.median(mine):8.3f} ms (least {min(mine):8.3f}, {len(mine)} of them) [{statistics.median(shares):.4f}]"


def one(a, shape, kind, clock, library, before, tsv):
    """One shape and kind: how many ways had other bits in a second run."""
    case = M.Case(library, *N.make_inputs(shape, kind, a.device))
    methods, bad = made(a, case, before), 0
    want = N.reference(case.x, case.w, case.labels) if a.errors else None
    print(f"{N.shape_name(shape)} {kind}", flush=True)
    notes = {}
    for key, method in methods.items():
        bits = "" if again(method) else "  OTHER BITS in a second run"
        bad += bool(bits)
        errors = "loss {:.1e} dX {:.2e} dW {:.2e}  ".format(*N.errors(method.results(), want)) if want and key[0] not in OPTIONS else ""
        method.release()
        notes[key] = f"{errors}{method.note}{bits}"
    times = timed(a, clock, methods)
    for key, method in methods.items():
        name, grad = key
        print(f"  {name:14s} {grad} {told(times[key], next(iter(times.values())))}  {notes[key]}", flush=True)
        mine, info = [t for t in times[key] if t], method.plan.info
        if tsv:
            print(*shape, name, grad, info.chunk_tokens, f"{info.workspace_size / 2**20:.1f}", *(f"{f(mine):.4f}" for f in (statistics.median, min, max)),
                  sep="\t", file=tsv, flush=True)
        method.close()
    return bad


def main():
    p = argparse.ArgumentParser(prog="bench_ce_ways.py", description=__doc__.split("\n")[0])
    p.add_argument("library")
    p.add_argument("shapes", nargs="*", default=["8192,4096,128256"])
    p.add_argument("--before", metavar="LIBRARY")
    p.add_argument("--ways", nargs="+", choices=WAYS, default=["default", "ours", "beside", "cuBLASLt"])
    p.add_argument("--options", action="store_true", help="the ways that are options of the loss, all of them")
    p.add_argument("--kinds", nargs="+", choices=N.KINDS, default=["random"])
    p.add_argument("--grads", nargs="+", choices=("bf16", "fp32"), default=["bf16"])
    p.add_argument("--auto", action="store_true", help="all plans in the mode auto, not fast")
    p.add_argument("--fitted", action="store_true", help="the shapes that the plan's estimates were fitted to, or --unseen: that they were not")
    p.add_argument("--unseen", action="store_true")
    p.add_argument("--seconds", type=float, default=0, help="of a shape and kind, at least")
    p.add_argument("--rounds", type=int, default=3, help="at least")
    p.add_argument("--rest", type=float, default=0.1)
    p.add_argument("--errors", action="store_true")
    p.add_argument("--tsv", help="a row a way goes there, as in tests/data/cross_entropy_whose.tsv")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    a = p.parse_intermixed_args()
    a.ways = list(OPTIONS) if a.options else a.ways
    shapes = (FITTED + " " + UNSEEN if a.fitted and a.unseen else FITTED if a.fitted else UNSEEN).split() if a.fitted or a.unseen else a.shapes
    clock = B.GpuClock() if a.device == "cuda" else B.HostClock()
    library, before = (path and K.Library(path, K.CUDA if a.device == "cuda" else K.CPU) for path in (a.library, a.before))
    tsv, bad = a.tsv and open(a.tsv, "w"), 0
    if tsv:
        print("n\th\tv\tproducts\tdweight\tchunk\tmib\tms\tleast\tmost", file=tsv)
    print(f"# {B.card(a.device)}", flush=True)
    for shape in map(N.read_shape, shapes):
        for kind in a.kinds:
            bad += one(a, shape, kind, clock, library, before, tsv)
            if a.device == "cuda":
                clock.cuda.empty_cache()
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
